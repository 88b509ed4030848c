"""Starts: programs without HMC, many ranks, and the cost."""

import os
import subprocess
import time

from common import APP, HMCRUN, Job, LauncherTest, main, run


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Start(LauncherTest):
    def test_any_program(self):
        status, out, err = run("-np", "4", "hostname")
        self.assertEqual((status, len(out.splitlines()), err), (0, 4, ""))

    def test_sixty_four_ranks(self):
        status, out, _ = run("-np", "64", "sh", "-c", "echo $HMC_RANK")
        self.assertEqual((status, sorted(map(int, out.split()))), (0, list(range(64))))

    def test_sixty_four_ranks_on_eight_nodes_with_tags(self):
        status, out, _ = run("-np", "64", "--nodes", "8", "--tag-output", APP, "print=x")
        self.assertEqual((status, len(out.splitlines())), (0, 64))

    def test_more_pipes_than_the_soft_limit_of_descriptors(self):
        words = ["-np", "100", "--tag-output", APP, "print=x"]
        done = subprocess.run(["sh", "-c", 'ulimit -Sn 64; exec "$@"', "sh", HMCRUN, *words], capture_output=True,
                              text=True, timeout=60)
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, 100))

    def test_start_and_end_of_two_take_well_under_a_second(self):
        started = time.monotonic()
        for _ in range(10):
            self.assertEqual(run("-np", "2", "true")[0], 0)
        self.assertLess((time.monotonic() - started) / 10, 0.5)

    def test_waiting_costs_no_cpu(self):
        with Job("-np", "2", "--tag-output", APP, "ready", "sleep=30") as job:
            job.wait_for_lines("ready", 2)
            watched = [job.pid, job.keeper()]
            before = sum(map(cpu_seconds, watched))
            time.sleep(1)
            self.assertLess(sum(map(cpu_seconds, watched)) - before, 0.05)


main(at_once=1)
