"""No process outlives hmcrun, and no file is left behind, whatever the end."""

import os
import signal
import subprocess
import time

from common import APP, HMCRUN, Job, LauncherTest, main, processes_with, wait_until

FAMILY = ["child", "setsid", "orphan", "stubborn"]  # processes that a rank may have started


def files():
    """The files that a job could leave in a file system."""
    places = [os.path.join("/dev/shm", name) for name in os.listdir("/dev/shm")]
    places += [os.path.join("/tmp", name) for name in os.listdir("/tmp")]
    return {place for place in places if "hmc" in place.lower()}


def unix_sockets():
    """By inode: the names of all Unix sockets."""
    with open("/proc/net/unix") as file:
        next(file)
        return {line.split()[6]: line.split()[7] if len(line.split()) > 7 else "" for line in file}


def sockets_of(pid):
    """The inodes of a process's named Unix sockets."""
    inodes = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        target = os.readlink(f"/proc/{pid}/fd/{name}")
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    return {inode for inode in inodes if unix_sockets().get(inode)}


class Leftovers(LauncherTest):
    def start(self, *words, **popen):
        """A job with such processes in each rank, after all of them have started."""
        self.before = files()
        job = Job("-np", "3", *words, APP, *FAMILY, "ready", "sleep=60", **popen)
        job.wait_for_lines("ready", 3)
        self.assertTrue(wait_until(lambda: len(job.children()) == 3 * (1 + len(FAMILY))))
        self.sockets = sockets_of(job.pid)
        self.assertTrue(self.sockets, "the agent listens on a named socket")
        return job

    def check_gone(self, job, limit_s=2.0):
        self.assert_nobody_left(job, limit_s)
        self.assertEqual(files() - self.before, set())
        self.assertEqual(self.sockets & set(unix_sockets()), set())

    def test_hmcrun_is_killed(self):
        with self.start() as job:
            os.kill(job.pid, signal.SIGKILL)
            self.check_gone(job)

    def test_hmcrun_with_two_nodes_is_killed(self):
        with self.start("--nodes", "2") as job:
            os.kill(job.pid, signal.SIGKILL)
            self.check_gone(job)

    def test_hmcrun_with_tagged_output_is_killed(self):
        with self.start("--tag-output") as job:
            os.kill(job.pid, signal.SIGKILL)
            self.check_gone(job)

    def test_hmcruns_process_group_is_killed(self):
        # As a shell's "kill -9 %1" and "timeout -s KILL" do.
        with self.start(start_new_session=True) as job:
            os.killpg(job.pid, signal.SIGKILL)
            self.check_gone(job)

    def test_pkill_does_not_find_the_keeper(self):
        with self.start() as job:
            for pid in (job.guard(), job.keeper()):
                with open(f"/proc/{pid}/cmdline") as file:
                    self.assertNotIn("hmcrun", file.read())
                with open(f"/proc/{pid}/comm") as file:
                    self.assertNotIn("hmcrun", file.read())

    def test_the_keeper_is_killed(self):
        with self.start() as job:
            os.kill(job.keeper(), signal.SIGKILL)
            status, _, err = job.finish(3)
            self.assertEqual(status, 128 + signal.SIGKILL)
            self.assertIn("keeper", err)
            self.check_gone(job, 0.5)

    def test_hmcrun_and_the_keeper_are_killed(self):
        with self.start() as job:
            keeper = job.keeper()
            os.kill(job.pid, signal.SIGSTOP)
            os.kill(keeper, signal.SIGKILL)
            os.kill(job.pid, signal.SIGKILL)
            self.check_gone(job)

    def test_the_guard_and_the_keeper_are_killed(self):
        with self.start() as job:
            guard, keeper = job.guard(), job.keeper()
            os.kill(guard, signal.SIGKILL)
            os.kill(keeper, signal.SIGKILL)
            self.assertEqual(job.finish()[0], 128 + signal.SIGKILL)
            self.check_gone(job, 0.5)

    def test_all_three_are_killed_and_the_kernel_ends_the_ranks(self):
        with Job("-np", "3", APP, "ready", "sleep=60") as job:
            job.wait_for_lines("ready", 3)
            guard, keeper = job.guard(), job.keeper()
            os.kill(job.pid, signal.SIGSTOP)
            for pid in (guard, keeper, job.pid):
                os.kill(pid, signal.SIGKILL)
            self.assert_nobody_left(job)

    def test_ranks_that_ignore_everything(self):
        words = ["ignore=" + name for name in ("TERM", "INT", "HUP", "QUIT")]
        with Job("-np", "3", APP, *words, *FAMILY, "ready", "sleep=60") as job:
            job.wait_for_lines("ready", 3)
            os.kill(job.pid, signal.SIGKILL)
            self.assert_nobody_left(job)

    def test_stopped_ranks(self):
        with Job("-np", "2", APP, *FAMILY, "ready", "stop") as job:
            job.wait_for_lines("ready", 2)
            os.kill(job.pid, signal.SIGKILL)
            self.assert_nobody_left(job)

    def test_killed_while_starting(self):
        for delay_s in (0.0, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02):
            with Job("-np", "16", APP, "child", "sleep=60") as job:
                time.sleep(delay_s)
                os.kill(job.pid, signal.SIGKILL)
                self.assert_nobody_left(job)

    def test_ranks_that_are_shells(self):
        with Job("-np", "2", "sh", "-c", f"({APP} ready sleep=60; true) & wait; true") as job:
            job.wait_for_lines("ready", 2)
            os.kill(job.pid, signal.SIGKILL)
            self.assert_nobody_left(job)

    def test_a_good_end_leaves_no_family(self):
        with Job("-np", "2", APP, *FAMILY, "exit=0", stdout=subprocess.DEVNULL) as job:
            self.assertEqual(job.process.wait(5), 0)
            self.assert_nobody_left(job, 0.2)

    def test_a_good_end_with_tags_waits_for_no_family(self):
        with Job("-np", "2", "--tag-output", APP, *FAMILY, "print=done") as job:
            status, out, _ = job.finish(5)
            self.assertEqual((status, out.count("done")), (0, 2))

    def test_a_failure_leaves_no_family(self):
        with Job("-np", "2", APP, *FAMILY, "0:ready", "1:exit=3", "sleep=60", stdout=subprocess.DEVNULL) as job:
            self.assertEqual(job.process.wait(8), 3)
            self.assert_nobody_left(job, 0.2)

    def test_a_timeout_leaves_no_family(self):
        with Job("-np", "2", "--timeout", "0.5", APP, *FAMILY, "sleep=60", stdout=subprocess.DEVNULL) as job:
            self.assertEqual(job.process.wait(8), 124)
            self.assert_nobody_left(job, 0.2)

    def test_helpers_have_a_moment_to_clean_up(self):
        script = f"(trap 'sleep 0.1; echo cleaned; exit' TERM; while :; do sleep 0.02; done) & {APP} sleep=0.3"
        with Job("-np", "1", "sh", "-c", script) as job:
            self.assertEqual(job.finish(5)[:2], (0, "cleaned\n"))

    def test_an_earlier_child_is_spared(self):
        # "a & exec hmcrun" gives hmcrun a child that isn't part of the job.
        mark = f"HMC_TEST_{os.getpid()}_elder"
        script = f"sleep 60 & exec {HMCRUN} -np 2 {APP} sleep=0.1 exit=0"
        done = subprocess.run(["sh", "-c", script], env=dict(os.environ, TEST_MARK=mark), timeout=20)
        self.assertEqual(done.returncode, 0)
        left = processes_with(mark)
        self.assertEqual(len(left), 1)
        os.kill(left[0], signal.SIGKILL)


main(at_once=1)
