"""The ends of a job, and hmcrun's exit status."""

import os
import stat
import tempfile
import time

from common import APP, Job, LauncherTest, main, run


class ExitStatus(LauncherTest):
    def test_all_well(self):
        self.assertEqual(run("-np", "4", APP, "exit=0"), (0, "", ""))

    def test_first_failure_decides(self):
        status, _, err = run("-np", "3", APP, "0:sleep=30", "1:exit=3", "2:sleep=30")
        self.assertEqual(status, 3)
        self.assertRegex(err, r"^hmcrun: rank 1 \(pid \d+, node 0\) exited with status 3")

    def test_later_failures_do_not_change_it(self):
        self.assertEqual(run("-np", "3", APP, "1:exit=3", "report=TERM", "sleep=0.3", "exit=9")[0], 3)

    def test_killed_by_a_signal(self):
        status, _, err = run("-np", "2", APP, "0:crash", "1:sleep=30")
        self.assertEqual(status, 128 + 11)
        self.assertIn("SIGSEGV", err)

    def test_status_255_is_kept(self):
        self.assertEqual(run("-np", "1", APP, "exit=255")[0], 255)

    def test_failure_is_reported_once(self):
        _, _, err = run("-np", "8", APP, "exit=4")
        self.assertEqual(err.count("hmcrun:"), 1)

    def test_a_rank_that_ends_early_with_0_is_not_a_failure(self):
        status, out, err = run("-np", "2", APP, "0:exit=0", "sleep=0.5", "print=done")
        self.assertEqual((status, out, err), (0, "done\n", ""))

    def test_the_others_get_term(self):
        started = time.monotonic()
        status, out, _ = run("-np", "2", APP, "report=TERM", "0:ready", "0:sleep=2", "1:sleep=0.2", "1:exit=5")
        self.assertEqual((status, "got TERM" in out), (5, True))
        self.assertLess(time.monotonic() - started, 4)

    def test_a_rank_that_ignores_term_is_killed_after_5_s(self):
        started = time.monotonic()
        status, _, err = run("-np", "2", APP, "0:ignore=TERM", "0:sleep=60", "1:sleep=0.2", "1:exit=5")
        self.assertEqual(status, 5)
        self.assertIn("killing", err)
        self.assertGreater(time.monotonic() - started, 4.9)
        self.assertLess(time.monotonic() - started, 9)

    def test_a_stopped_rank_is_ended_too(self):
        started = time.monotonic()
        self.assertEqual(run("-np", "2", APP, "0:stop", "1:sleep=0.2", "1:exit=5")[0], 5)
        self.assertLess(time.monotonic() - started, 4)


class Program(LauncherTest):
    def check(self, status, text, program, **popen):
        got, out, err = run("-np", "2", program, **popen)
        self.assertEqual((got, out), (status, ""))
        self.assertRegex(err, r"^hmcrun: ")
        self.assertIn(text, err)

    def file(self, content, mode):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "program")
        with open(path, "w") as file:
            file.write(content)
        os.chmod(path, mode)
        return path

    def test_missing_path(self):
        self.check(127, "/no/such/program: No such file", "/no/such/program")

    def test_missing_in_path(self):
        self.check(127, "not found in PATH", "no-such-program")

    def test_not_executable(self):
        self.check(126, "Permission denied", self.file("#!/bin/sh\n", 0o644))

    def test_folder(self):
        self.check(126, "/tmp", "/tmp")

    def test_missing_interpreter(self):
        self.check(127, "interpreter", self.file("#!/no/such/interpreter\n", 0o755))

    def test_a_text_file_runs_in_the_shell_as_execvp_does(self):
        status, out, _ = run("-np", "1", self.file("echo shell $1\n", 0o755), "word")
        self.assertEqual((status, out), (0, "shell word\n"))

    def test_path_is_searched(self):
        path = self.file("#!/bin/sh\necho found\n", 0o755)
        environment = dict(os.environ, PATH="/no/such/folder:" + os.path.dirname(path))
        self.assertEqual(run("-np", "1", "program", env=environment)[:2], (0, "found\n"))

    def test_path_given_by_x_is_searched(self):
        path = self.file("#!/bin/sh\necho found\n", 0o755)
        self.assertEqual(run("-np", "1", "-x", "PATH=" + os.path.dirname(path), "program")[:2], (0, "found\n"))

    def test_not_executable_in_path_is_126(self):
        path = self.file("#!/bin/sh\n", 0o644)
        self.check(126, path, "program", env=dict(os.environ, PATH=os.path.dirname(path)))

    def test_the_current_folder_is_not_searched(self):
        path = self.file("#!/bin/sh\n", 0o755)
        self.check(127, "./program", "program", cwd=os.path.dirname(path))

    def test_set_user_id_programs_run(self):
        # The kernel clears the death signal of such a program; the keeper doesn't depend on it.
        path = self.file("#!/bin/sh\nexit 0\n", 0o755)
        os.chmod(path, os.stat(path).st_mode | stat.S_ISUID)
        self.assertEqual(run("-np", "1", path)[0], 0)


class Timeout(LauncherTest):
    def test_status_and_time(self):
        started = time.monotonic()
        status, _, err = run("-np", "2", "--timeout", "0.5", APP, "sleep=30")
        self.assertEqual(status, 124)
        self.assertLess(time.monotonic() - started, 4)
        self.assertIn("0.5 s", err)

    def test_prints_each_ranks_state(self):
        _, _, err = run("-np", "3", "--timeout", "3", APP, "1:exit=0", "sleep=30")
        self.assertRegex(err, r"hmcrun:   rank 0 \(pid \d+, node 0\): running")
        self.assertRegex(err, r"hmcrun:   rank 1 \(pid \d+, node 0\): exited with status 0")
        self.assertRegex(err, r"hmcrun:   rank 2 \(pid \d+, node 0\): running")

    def test_a_job_in_time_is_untouched(self):
        self.assertEqual(run("-np", "2", "--timeout", "30", APP, "exit=0"), (0, "", ""))

    def test_ranks_that_fail_on_term_do_not_change_the_status(self):
        self.assertEqual(run("-np", "2", "--timeout", "0.3", APP, "report=TERM", "sleep=2", "exit=3")[0], 124)

    def test_ignoring_term_does_not_help(self):
        with Job("-np", "2", "--timeout", "0.3", APP, "ignore=TERM", "sleep=60") as job:
            self.assertEqual(job.finish()[0], 124)
            self.assert_nobody_left(job, 0.5)


main()
