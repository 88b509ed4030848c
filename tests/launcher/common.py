"""Common functions of the launcher's tests: starting hmcrun, waiting for conditions, finding leftovers."""

import os
import signal
import subprocess
import sys
import time
import unittest
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from side_by_side import main  # noqa: E402, F401

BIN = os.environ.get("HMC_BIN", "build/bin")
HMCRUN = os.path.join(BIN, "hmcrun")
HMCINFO = os.path.join(BIN, "hmcinfo")
APP = os.environ.get("HMC_FAKE_APP", os.path.join(BIN, "fake_app"))
LIMIT_S = 60


def wait_until(condition, limit_s=10.0):
    """Polls a condition; returns its last value."""
    end = time.monotonic() + limit_s
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(0.005)


def processes_with(mark):
    """Pids of live processes whose environment has the mark: every process of a job, at any depth."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if mark.encode() in file.read():
                    found.append(int(name))
        except OSError:
            pass
    return found


class Job:
    """A running hmcrun whose processes can all be found by a mark in their environment."""

    def __init__(self, *words, **popen):
        self.mark = "HMC_TEST_" + uuid.uuid4().hex
        environment = dict(popen.pop("env", os.environ))
        environment["TEST_MARK"] = self.mark
        popen.setdefault("stdin", subprocess.DEVNULL)
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        popen.setdefault("text", True)
        self.process = subprocess.Popen([HMCRUN, *words], env=environment, **popen)
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in processes_with(self.mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.communicate(timeout=LIMIT_S)

    def wait_for_lines(self, text, count):
        """Reads stdout until it has `count` lines with `text`; returns all lines read."""
        lines = []
        while sum(text in line for line in lines) < count:
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError(f"the output ended after {lines}; stderr: {self.process.stderr.read()}")
            lines.append(line.rstrip("\n"))
        return lines

    def finish(self, limit_s=LIMIT_S):
        """(exit status, the rest of stdout, stderr)."""
        out, err = self.process.communicate(timeout=limit_s)
        return self.process.returncode, out, err

    def alive(self):
        """All live processes of the job, including hmcrun and its keeper."""
        return processes_with(self.mark)

    def children(self):
        """The ranks and processes that they started: those with a rank in their environment."""
        found = []
        for pid in self.alive():
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if b"HMC_RANK=" in file.read():
                        found.append(pid)
            except OSError:
                pass
        return found

    @staticmethod
    def child_of(pid):
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return int(file.read().split()[0])

    def guard(self):
        """The guard's pid: the child of hmcrun."""
        return self.child_of(self.pid)

    def keeper(self):
        """The keeper's pid: the child of the guard."""
        return self.child_of(self.guard())


def run(*words, **popen):
    """(exit status, stdout, stderr) of a whole job; its mark's processes are gone or the test fails."""
    text = popen.pop("input", None)
    if text is not None:
        popen["stdin"] = subprocess.PIPE
    with Job(*words, **popen) as job:
        out, err = job.process.communicate(text, timeout=LIMIT_S)
        return job.process.returncode, out, err


class LauncherTest(unittest.TestCase):
    maxDiff = 2000

    def assert_nobody_left(self, job, limit_s=2.0):
        started = time.monotonic()
        wait_until(lambda: not job.alive(), limit_s)
        left = {pid: open(f"/proc/{pid}/cmdline").read() for pid in job.alive() if os.path.exists(f"/proc/{pid}")}
        self.assertEqual(left, {}, f"still there {time.monotonic() - started:.2f} s later")
