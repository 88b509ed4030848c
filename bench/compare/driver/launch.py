"""Runs one contestant once, without leaving processes behind."""

import ctypes
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import tempfile
import time

from . import machine

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans():
    """Makes this process the parent of launchers' orphans, so that sweep() finds them."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _children():
    me = os.getpid()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        if parent == me:
            yield int(entry)


def sweep():
    """Kills the processes that a launcher has left. Their children become children of this process and are killed too."""
    for _ in range(50):
        left = list(_children())
        if not left:
            return
        for child in left:
            try:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            except (ProcessLookupError, ChildProcessError):
                pass


class Load:
    """The CPU time of other processes since this object was made."""

    LEAST_S = 0.2  # shortest measurement: the kernel counts in steps of 10 ms

    def __init__(self):
        self.cpu, self.ours = machine.cpu_times(), self._children()

    @staticmethod
    def _children():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)  # of children that have ended
        return used.ru_utime + used.ru_stime

    def of_others(self):
        """A share of all CPUs' time; None if the time was too short."""
        after, tick = machine.cpu_times(), os.sysconf("SC_CLK_TCK")
        total, idle = (after[0] - self.cpu[0]) / tick, (after[1] - self.cpu[1]) / tick
        if total < self.LEAST_S * (os.cpu_count() or 1):
            return None
        return max(0.0, total - idle - (self._children() - self.ours)) / total


def _last_words(text):
    lines = [line.strip() for line in text.splitlines() if line.strip(" -=\t")]
    return " / ".join(lines[-3:])[:300] or "no output"


class Outcome:
    def __init__(self):
        self.lines = []    # the JSON objects that rank 0 wrote
        self.failure = ""  # the reason of a failure; `lines` keeps the output before it
        self.hung = False  # it had to be killed
        self.wall_s = 0.0
        self.others = None  # the share of all CPUs' time that other processes and virtual machines used meanwhile


def _ended(process, timeout_s):
    """The time of its end, or None. Popen.wait(timeout) isn't exact enough: it polls every 1, 2, 4 ... 50 ms."""
    watch = os.pidfd_open(process.pid)
    try:
        poll = select.poll()
        poll.register(watch, select.POLLIN)
        ready = poll.poll(timeout_s * 1000)
        return time.monotonic() if ready else None
    finally:
        os.close(watch)


def _stop(process):
    process.terminate()
    if _ended(process, 3) is None:
        process.kill()
    process.wait()


def run(command, timeout_s, output_option=True, environment=None):
    """`command` is without --output and --scratch, which are added here; their files are removed afterwards."""
    outcome, load = Outcome(), Load()
    scratch = tempfile.mkdtemp(prefix="compare-")
    lines_path = os.path.join(scratch, "lines")
    store = os.path.join(scratch, "store")
    os.mkdir(store)
    words = command + ([f"--output={lines_path}"] if output_option else []) + [f"--scratch={store}"]
    log_path = os.path.join(scratch, "log")
    try:
        with open(log_path, "wb") as log:
            begin = time.monotonic()
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=scratch,
                                       env={**os.environ, **(environment or {})})
            end = _ended(process, timeout_s)
            if end is None:
                code, outcome.hung = None, True
                _stop(process)
                end = time.monotonic()
            else:
                code = process.wait()
            outcome.wall_s = end - begin
        with open(log_path, encoding="utf-8", errors="replace") as log:
            output = log.read()
        if code is None:
            outcome.failure = f"not complete after {timeout_s:.0f} s"
        elif code != 0:
            outcome.failure = f"exit {code}: {_last_words(output)}"
        if os.path.exists(lines_path):
            with open(lines_path, encoding="utf-8", errors="replace") as file:
                outcome.lines = list(_objects(file.read()))
    except OSError as error:
        outcome.failure = str(error)
    finally:
        sweep()
        outcome.others = load.of_others()
        shutil.rmtree(scratch, ignore_errors=True)
    return outcome


def _objects(text):
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return  # cut off when the program died
