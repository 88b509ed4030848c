"""hmcrun -H over a real sshd, which the test starts for this user on a free port of loopback."""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

from common import HMCRUN, LIMIT_S, main, processes_with, wait_until

SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
REGROUP = os.environ["HMC_REGROUP"]


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0]


class OverSsh(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.mkdtemp(prefix="ssh-test-")
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{cls.place}/{key}"], check=True)
        shutil.copy(f"{cls.place}/user.pub", f"{cls.place}/authorized")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)
        options = [f"-oAuthorizedKeysFile={cls.place}/authorized", "-oStrictModes=no", f"-oPidFile={cls.place}/pid",
                   "-oPermitRootLogin=yes", "-oUsePAM=no", "-oListenAddress=127.0.0.1", "-oMaxStartups=100"]
        cls.sshd = subprocess.Popen([SSHD, "-D", "-f", "/dev/null", "-h", f"{cls.place}/host", "-p", str(port), *options],
                                    stderr=subprocess.DEVNULL)
        with open(f"{cls.place}/config", "w", encoding="utf-8") as file:
            file.write(f"Host h1 h2\nHostName 127.0.0.1\nPort {port}\nUser {getpass.getuser()}\n"
                       f"IdentityFile {cls.place}/user\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
                       "LogLevel ERROR\nBatchMode yes\n")
        # ssh takes its configuration from the command; everything else is hmcrun's default.
        cls.agent = f"ssh -F {cls.place}/config"
        ready = wait_until(lambda: subprocess.run([*cls.agent.split(), "h1", "true"], check=False,
                                                  stderr=subprocess.DEVNULL).returncode == 0, LIMIT_S)
        if not ready:
            cls.tearDownClass()
            print("missing: an sshd that accepts this user")
            sys.exit(77)

    @classmethod
    def tearDownClass(cls):
        cls.sshd.terminate()
        cls.sshd.wait()
        shutil.rmtree(cls.place, ignore_errors=True)

    def run_job(self, *words):
        return subprocess.run([HMCRUN, "--launch-agent", self.agent, "--timeout", "60", *words], capture_output=True,
                              text=True, timeout=LIMIT_S + 30, stdin=subprocess.DEVNULL, check=False)

    def test_ranks_exchange_data(self):
        job = self.run_job("-H", "h1:2,h2:2", REGROUP, "use")
        self.assertEqual(job.returncode, 0, job.stderr)

    def test_given_variables_arrive_and_the_status_is_passed(self):
        job = self.run_job("-H", "h1:1,h2:1", "-x", "GIVEN=a word", "sh", "-c", "echo $HMC_RANK $HMC_NODE $GIVEN; exit 4")
        self.assertEqual((job.returncode, sorted(job.stdout.splitlines())), (4, ["0 h1 a word", "1 h2 a word"]), job.stderr)

    def test_unknown_host_is_named(self):
        job = self.run_job("-H", "h1:1,nohost.invalid:1", "true")
        self.assertEqual(job.returncode, 125)
        self.assertIn("host nohost.invalid: the launch agent (ssh) exited with status 255", job.stderr)

    def test_ctrl_z_stops_the_ranks_of_all_hosts(self):
        mark = "HMC_TEST_STOP_" + os.path.basename(self.place)
        with subprocess.Popen([HMCRUN, "--launch-agent", self.agent, "-H", "h1:2,h2:2", "-x", f"TEST_MARK={mark}", "sleep",
                               "300"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as job:
            self.assertTrue(wait_until(lambda: len(self.sleepers(mark)) == 4, LIMIT_S))
            try:
                for how, state in ((signal.SIGTSTP, "T"), (signal.SIGCONT, "S")) * 2:
                    job.send_signal(how)
                    # hmcrun stops after its ranks, and would miss an earlier SIGCONT.
                    self.assertTrue(wait_until(lambda: all(state_of(pid) == state for pid in
                                                           [job.pid, *self.sleepers(mark)]), LIMIT_S), state)
            finally:
                job.send_signal(signal.SIGTERM)
                job.send_signal(signal.SIGCONT)
                job.wait(LIMIT_S)

    def test_killed_hmcrun_leaves_no_rank_on_any_host(self):
        mark = "HMC_TEST_" + os.path.basename(self.place)
        for how in (signal.SIGKILL, signal.SIGINT):
            job = subprocess.Popen([HMCRUN, "--launch-agent", self.agent, "-H", "h1:2,h2:2", "-x", f"TEST_MARK={mark}",
                                    "sleep", "300"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.assertTrue(wait_until(lambda: len(self.sleepers(mark)) == 4, LIMIT_S))
            job.send_signal(how)
            job.wait(LIMIT_S)
            self.assertTrue(wait_until(lambda: not self.sleepers(mark), LIMIT_S))

    @staticmethod
    def sleepers(mark):
        found = []
        for pid in processes_with(mark):
            try:
                with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                    if file.read() == "sleep\n":
                        found.append(pid)
            except OSError:
                pass
        return found


if __name__ == "__main__":
    if not SSHD or not shutil.which("ssh"):
        print("missing: sshd and ssh aren't installed")
        sys.exit(77)
    main(at_once=1)  # they share an sshd
