"""Several programs in one job: hmcrun -np 1 ./a : -np 1 ./b."""

import os
import shutil
import socket
import tempfile

from common import APP, LauncherTest, main, run


class Programs(LauncherTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.realpath(folder.name)
        self.other = shutil.copy(APP, os.path.join(self.folder, "other"))

    def test_each_rank_runs_its_program(self):
        status, out, err = run("-np", "1", APP, "print=first", ":", "-np", "2", self.other, "1:print=second",
                               "2:print=third")
        self.assertEqual((status, sorted(out.split()), err), (0, ["first", "second", "third"], ""))

    def test_the_ranks_are_of_one_job(self):
        words = ["/bin/sh", "-c", "echo $HMC_RANK/$HMC_SIZE $A $B"]
        status, out, _ = run("-genv", "A", "both", "-np", "1", "-x", "B=b", *words, ":", "-np", "1", *words)
        self.assertEqual((status, sorted(out.splitlines())), (0, ["0/2 both b", "1/2 both"]))

    def test_the_exit_status_is_that_of_the_program_that_failed(self):
        status, _, err = run("-np", "2", APP, "sleep=60", ":", "-np", "1", self.other, "exit=7")
        self.assertEqual(status, 7)
        self.assertRegex(err, r"^hmcrun: rank 2 \(other, pid \d+, node 0\) exited with status 7; ending the others")

    def test_tags_name_the_program(self):
        status, out, _ = run("--tag-output", "-np", "1", APP, "print=x", ":", "-np", "1", self.other, "print=y")
        name = os.path.basename(APP)
        self.assertEqual((status, sorted(out.splitlines())), (0, [f"[0,{name},stdout] x", "[1,other,stdout] y"]))

    def test_emulated_nodes_cut_across_the_programs(self):
        words = ["/bin/sh", "-c", "echo $HMC_RANK $HMC_NODE"]
        _, out, _ = run("--nodes", "2", "-np", "3", *words, ":", "-np", "1", *words)
        self.assertEqual(sorted(out.splitlines()), ["0 node0", "1 node0", "2 node1", "3 node1"])

    def test_each_program_starts_in_its_folder(self):
        words = ["/bin/sh", "-c", "echo $HMC_RANK $(pwd) $PWD"]
        _, out, _ = run("-np", "1", *words, ":", "-np", "1", "--wdir", self.folder, *words)
        self.assertEqual(out.splitlines()[1 if out.startswith("0") else 0], f"1 {self.folder} {self.folder}")
        status, out, _ = run("-np", "1", "--wdir", self.folder, "./other", "print=found")
        self.assertEqual((status, out), (0, "found\n"))
        status, _, err = run("-np", "1", "--wdir", "/no/such/folder", APP)
        self.assertEqual((status, err), (125, "hmcrun: --wdir /no/such/folder: No such file or directory\n"))

    def test_a_missing_second_program_starts_nothing(self):
        status, out, err = run("-np", "1", APP, "print=x", ":", "-np", "1", "/no/such/program")
        self.assertEqual((status, out), (127, ""))
        self.assertIn("/no/such/program", err)

    def test_a_colon_belongs_to_the_program_after_a_double_dash(self):
        self.assertEqual(run("-np", "1", "--", "/bin/echo", "a", ":", "b")[:2], (0, "a : b\n"))

    def test_programs_on_two_hosts(self):
        words = ["/bin/sh", "-c", "echo $HMC_RANK $HMC_NODE $0 $A"]
        hosts = f"localhost:2,{socket.gethostname()}:1"
        status, out, err = run("-H", hosts, "-np", "1", "-x", "A=a", *words, "one", ":", "-np", "2", *words, "two")
        self.assertEqual((status, sorted(out.splitlines()), err),
                         (0, ["0 localhost one a", "1 localhost two", f"2 {socket.gethostname()} two"], ""))
        status, _, err = run("-H", hosts, "-np", "2", APP, "sleep=60", ":", "-np", "1", self.other, "exit=7")
        self.assertEqual(status, 7)
        self.assertRegex(err, r"rank 2 \(other, pid \d+, host ")


main()
