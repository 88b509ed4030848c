"""Signals to hmcrun, and their effect on the ranks."""

import os
import pty
import select
import signal
import subprocess
import time

from common import APP, HMCRUN, Job, LauncherTest, main, wait_until


class Forwarded(LauncherTest):
    def check(self, name):
        with Job("-np", "2", APP, "report=" + name, "ready", "sleep=30") as job:
            job.wait_for_lines("ready", 2)
            job.process.send_signal(getattr(signal, "SIG" + name))
            job.wait_for_lines("got " + name, 2)
            job.process.send_signal(signal.SIGKILL)

    def test_int(self):
        self.check("INT")

    def test_term(self):
        self.check("TERM")

    def test_hup(self):
        self.check("HUP")

    def test_quit(self):
        self.check("QUIT")

    def test_usr1(self):
        self.check("USR1")

    def test_usr2(self):
        self.check("USR2")

    def test_once(self):
        with Job("-np", "1", APP, "report=USR1", "ready", "sleep=0.5") as job:
            job.wait_for_lines("ready", 1)
            job.process.send_signal(signal.SIGUSR1)
            self.assertEqual(job.finish()[1].count("got USR1"), 1)

    def test_to_what_a_rank_started(self):
        # The shell waits for its child and wouldn't forward a signal.
        with Job("-np", "1", "sh", "-c", f"trap '' USR1; {APP} report=USR1 ready sleep=30; exit 0") as job:
            job.wait_for_lines("ready", 1)
            job.process.send_signal(signal.SIGUSR1)
            job.wait_for_lines("got USR1", 1)


class Ends(LauncherTest):
    def check(self, number, *words):
        with Job("-np", "2", *words, APP, "ready", "sleep=30") as job:
            job.wait_for_lines("ready", 2)
            job.process.send_signal(number)
            status, _, _ = job.finish(4)
            self.assertEqual(status, 128 + number)
            self.assert_nobody_left(job, 0.5)

    def test_int(self):
        self.check(signal.SIGINT)

    def test_term(self):
        self.check(signal.SIGTERM)

    def test_hup(self):
        self.check(signal.SIGHUP)

    def test_quit(self):
        self.check(signal.SIGQUIT)

    def test_int_with_tagged_output(self):
        self.check(signal.SIGINT, "--tag-output")

    def test_ranks_that_end_well_on_int(self):
        script = f"trap 'exit 0' INT; {APP} ignore=INT ready sleep=0.5"
        with Job("-np", "2", "sh", "-c", script) as job:
            job.wait_for_lines("ready", 2)
            job.process.send_signal(signal.SIGINT)
            self.assertEqual(job.finish(4)[0], 0)

    def test_a_second_int_kills(self):
        with Job("-np", "2", APP, "ignore=INT", "ignore=TERM", "ready", "sleep=60") as job:
            job.wait_for_lines("ready", 2)
            job.process.send_signal(signal.SIGINT)
            time.sleep(0.2)
            self.assertIsNone(job.process.poll())
            job.process.send_signal(signal.SIGINT)
            status, _, err = job.finish(3)
            self.assertEqual(status, 128 + signal.SIGINT)
            self.assertIn("killing", err)
            self.assert_nobody_left(job, 0.5)

    def test_kill_follows_term_after_5_s(self):
        with Job("-np", "2", APP, "ignore=TERM", "ready", "sleep=600") as job:
            job.wait_for_lines("ready", 2)
            job.process.send_signal(signal.SIGTERM)
            status, _, err = job.finish()
            self.assertEqual(status, 128 + signal.SIGKILL)
            self.assertIn("didn't end within 5 s after TERM: killing them", err)
            self.assert_nobody_left(job)

    def test_an_ignored_hup_stays_ignored(self):
        with Job("-np", "1", APP, "ready", "sleep=1", "print=done",
                 preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as job:
            job.wait_for_lines("ready", 1)
            job.process.send_signal(signal.SIGHUP)
            status, out, _ = job.finish()
            self.assertEqual((status, out), (0, "done\n"))

    def test_an_ignored_int_reaches_the_ranks(self):
        # A script's background jobs ignore INT; an INT to hmcrun is meant for the job.
        with Job("-np", "1", APP, "ready", "sleep=30",
                 preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) as job:
            job.wait_for_lines("ready", 1)
            job.process.send_signal(signal.SIGINT)
            self.assertEqual(job.finish(4)[0], 128 + signal.SIGINT)

    def test_ranks_get_an_open_signal_mask(self):
        status = subprocess.run([HMCRUN, "-np", "1", "sh", "-c", "grep SigBlk /proc/self/status"],
                                capture_output=True, text=True, timeout=20)
        self.assertEqual(status.stdout, "SigBlk:\t0000000000000000\n")


class Terminal(LauncherTest):
    """With a controlling terminal, as in an interactive shell."""

    def start(self, *words):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(HMCRUN, [HMCRUN, *words])
        self.addCleanup(os.close, terminal)
        return pid, terminal

    def read_until(self, terminal, text):
        got = b""
        while text not in got:
            self.assertTrue(select.select([terminal], [], [], 20)[0], got)
            got += os.read(terminal, 1000)
        return got

    def test_ctrl_c_reaches_the_ranks_once(self):
        pid, terminal = self.start("-np", "2", APP, "report=INT", "ready", "sleep=1", "exit=7")
        self.read_until(terminal, b"ready\r\nready")
        os.write(terminal, b"\x03")
        got = b""
        try:
            while True:
                got += os.read(terminal, 1000)
        except OSError:
            pass
        self.assertEqual(got.count(b"got INT"), 2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 7)

    def test_terminal_input_goes_to_rank_0(self):
        pid, terminal = self.start("-np", "2", APP, "0:ready", "cat")
        self.read_until(terminal, b"ready\r\n")
        os.write(terminal, b"hello there\n")
        got = self.read_until(terminal, b"hello there\r\nhello there\r\n")  # the echo, and rank 0's answer
        os.write(terminal, b"\x04")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, got)

    def test_ctrl_z_stops_and_fg_continues(self):
        pid, terminal = self.start("-np", "1", APP, "report=CONT", "ready", "sleep=1", "exit=6")
        self.read_until(terminal, b"ready")
        os.write(terminal, b"\x1a")
        self.assertTrue(os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1]))
        os.kill(pid, signal.SIGCONT)
        self.read_until(terminal, b"got CONT")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 6)

    def test_the_end_of_the_terminal_ends_the_job(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(HMCRUN, [HMCRUN, "-np", "1", APP, "ready", "sleep=30"])
        self.read_until(terminal, b"ready")
        os.close(terminal)
        self.assertTrue(wait_until(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid, 4))


main()
