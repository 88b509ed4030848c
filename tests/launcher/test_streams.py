"""stdin, stdout and stderr of the ranks."""

import os
import subprocess
import tempfile
import threading

from common import APP, HMCRUN, Job, LauncherTest, main, run


def expected_line(rank, line, width):
    """The lines of fake_app's lines=."""
    return "".join(chr(ord("!") + (rank * 31 + line * 7 + column) % 90) for column in range(width))


class Input(LauncherTest):
    def test_rank_0_gets_stdin(self):
        status, out, _ = run("-np", "3", APP, "0:cat", input="some\nlines\nno end")
        self.assertEqual((status, out), (0, "some\nlines\nno end"))

    def test_the_others_get_nothing(self):
        _, out, _ = run("-np", "3", APP, "1:cat", "2:cat", input="some\nlines\n")
        self.assertEqual(out, "")

    def test_ten_megabytes(self):
        text = "".join(f"{i} line\n" for i in range(900000))
        _, out, _ = run("-np", "2", APP, "0:cat", input=text)
        self.assertTrue(out == text)

    def test_a_closed_stdin(self):
        done = subprocess.run(f"{HMCRUN} -np 2 {APP} cat print=x <&-", shell=True, capture_output=True, text=True,
                              timeout=20)
        self.assertEqual((done.returncode, done.stdout), (0, "x\nx\n"))

    def test_closed_stdout_and_stderr(self):
        done = subprocess.run(f"{HMCRUN} -np 2 {APP} print=x error=x >&- 2>&-", shell=True, timeout=20)
        self.assertEqual(done.returncode, 0)


class Tagged(LauncherTest):
    def test_each_line_has_its_tag(self):
        _, out, err = run("-np", "2", "--tag-output", APP, "print=out", "error=err")
        self.assertEqual(sorted(out.splitlines()), ["[0,stdout] out", "[1,stdout] out"])
        self.assertEqual(sorted(err.splitlines()), ["[0,stderr] err", "[1,stderr] err"])

    def test_a_full_device_is_a_failure(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            status, _, err = run("-np", "2", "--tag-output", APP, "print=lost", stdout=full)
        self.assertEqual((status, err), (125, "hmcrun: writing stdout: No space left on device\n"))

    def test_a_last_line_without_feed(self):
        _, out, _ = run("-np", "2", "--tag-output", APP, "part=half")
        self.assertEqual(sorted(out.splitlines()), ["[0,stdout] half", "[1,stdout] half"])

    def test_an_unfinished_line_waits_for_its_end(self):
        _, out, _ = run("-np", "2", "--tag-output", APP, "0:part=one ", "1:sleep=0.2", "1:print=other", "0:sleep=0.5",
                        "0:print=line")
        self.assertEqual(out.splitlines(), ["[1,stdout] other", "[0,stdout] one line"])

    def test_ten_megabytes_a_rank_are_whole(self):
        ranks, lines, width = 4, 100000, 100
        with tempfile.TemporaryFile("w+") as file:
            with Job("-np", str(ranks), "--tag-output", APP, f"lines={lines},{width}", stdout=file) as job:
                self.assertEqual(job.finish()[0], 0)
            file.seek(0)
            seen = [0] * ranks
            patterns = [expected_line(rank, 0, width + 90) for rank in range(ranks)]
            for text in file:
                rank = int(text[1:text.index(",")])
                shift = seen[rank] * 7 % 90
                if text != f"[{rank},stdout] {patterns[rank][shift:shift + width]}\n":
                    self.fail(f"line {seen[rank]} of rank {rank}: {text!r}")
                seen[rank] += 1
            self.assertEqual(seen, [lines] * ranks)

    def test_stdout_and_stderr_into_one_file_do_not_mix(self):
        script = "i=0; while [ $i -lt 3000 ]; do echo aaaaaaaaaaaaaaaaaaaa; echo bbbbbbbbbbbbbbbbbbbb >&2; i=$((i+1)); done"
        with tempfile.TemporaryFile("w+") as file:
            with Job("-np", "3", "--tag-output", "sh", "-c", script, stdout=file, stderr=file) as job:
                self.assertEqual(job.finish()[0], 0)
            file.seek(0)
            lines = file.read().splitlines()
        allowed = {f"[{r},stdout] " + "a" * 20 for r in range(3)} | {f"[{r},stderr] " + "b" * 20 for r in range(3)}
        self.assertEqual((len(lines), set(lines) - allowed), (18000, set()))

    def test_a_line_of_ten_megabytes(self):
        _, out, _ = run("-np", "1", "--tag-output", APP, "bytes=10000000")
        self.assertTrue(out == "[0,stdout] " + "x" * 10000000 + "\n")

    def test_a_reader_that_closes_ends_the_writers(self):
        done = subprocess.run(f"{HMCRUN} -np 2 --tag-output yes | head -n 3; exit ${{PIPESTATUS[0]}}", shell=True,
                              executable="/bin/bash", capture_output=True, text=True, timeout=20)
        self.assertEqual(len(done.stdout.splitlines()), 3)
        self.assertEqual(done.returncode, 128 + 13)  # killed by SIGPIPE

    def test_a_reader_that_does_not_read_delays_no_signal(self):
        read_end, write_end = os.pipe()
        with Job("-np", "2", "--tag-output", APP, "ignore=TERM", "lines=100000,100", "sleep=60", stdout=write_end) as job:
            os.close(write_end)
            threading.Event().wait(0.3)
            job.process.send_signal(2)
            status = job.finish(4)[0]
            self.assertEqual(status, 130)
            self.assert_nobody_left(job, 0.5)
        os.close(read_end)


class Files(LauncherTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "deep", "er")

    def read(self, rank, name):
        with open(f"{self.folder}/rank.{rank}/{name}") as file:
            return file.read()

    def test_one_file_for_each_rank_and_stream(self):
        status, out, err = run("-np", "2", "--output-filename", self.folder, APP, "print=out", "error=err", "1:part=x")
        self.assertEqual((status, out, err), (0, "", ""))
        self.assertEqual([self.read(0, "stdout"), self.read(1, "stdout")], ["out\n", "out\nx"])
        self.assertEqual([self.read(0, "stderr"), self.read(1, "stderr")], ["err\n", "err\n"])

    def test_files_of_an_earlier_job_are_replaced(self):
        run("-np", "1", "--output-filename", self.folder, APP, "print=a long text of the first job")
        run("-np", "1", "--output-filename", self.folder, APP, "print=new")
        self.assertEqual(self.read(0, "stdout"), "new\n")

    def test_with_tags_terminal_and_file_get_the_output(self):
        _, out, err = run("-np", "1", "--tag-output", "--output-filename", self.folder, APP, "print=out", "error=err")
        self.assertEqual((out, err), ("[0,stdout] out\n", "[0,stderr] err\n"))
        self.assertEqual((self.read(0, "stdout"), self.read(0, "stderr")), ("out\n", "err\n"))

    def test_a_folder_that_cannot_be_made(self):
        status, _, err = run("-np", "1", "--output-filename", "/dev/null/folder", APP)
        self.assertEqual(status, 125)
        self.assertIn("/dev/null/folder", err)


main()
