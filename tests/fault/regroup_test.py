#!/usr/bin/env python3
"""Ranks started by hand that are left out or replaced, wrong calls, and the statuses of hmcrun.

Usage: regroup_test.py HMCRUN PROGRAM
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time

hmcrun, program = sys.argv[1:3]
LIMIT_S = 60


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def serves_a_node(pid):
    """True if the process listens on an agent's socket."""
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
        sockets = [line.split() for line in file]
    listening = {f"socket:[{words[6]}]" for words in sockets
                 if words[3] == "00010000" and re.fullmatch("@hmc-[0-9a-f]{32}", words[-1])}
    folder = f"/proc/{pid}/fd"
    for fd in os.listdir(folder):
        try:
            if os.readlink(f"{folder}/{fd}") in listening:
                return True
        except FileNotFoundError:  # closed meanwhile
            pass
    return False


class Job:
    """Ranks started by hand, with the variables of a launcher."""

    def __init__(self, *words, size, one_server=True, launcher="by hand"):
        """The rank that joins first runs the node's agent; with `one_server` it is rank 0, which runs the store."""
        self.words, self.size, self.store, self.launcher = words, size, free_address(), launcher
        self.ranks = [self.start(0)]
        while one_server and not serves_a_node(self.ranks[0].pid):
            assert self.ranks[0].poll() is None
            time.sleep(0.005)
        self.ranks += [self.start(rank) for rank in range(1, size)]

    def variables(self, rank):
        port = self.store.split(":")[1]
        if self.launcher == "torchrun":
            return {"RANK": rank, "WORLD_SIZE": self.size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        if self.launcher == "Slurm":
            return {"SLURM_PROCID": rank, "SLURM_STEP_NUM_TASKS": self.size, "SLURM_STEP_NUM_NODES": 1,
                    "SLURM_STEP_NODELIST": "n1", "SLURM_JOB_ID": port, "SLURM_STEP_ID": 0}
        return {"HMC_RANK": rank, "HMC_SIZE": self.size, "HMC_STORE": self.store}

    def start(self, rank):
        env = {name: value for name, value in os.environ.items() if not name.startswith("HMC_")}
        env.update((name, str(value)) for name, value in self.variables(rank).items())
        return subprocess.Popen([program, *self.words], env=env)

    def expect(self, statuses):
        got = [each.wait(LIMIT_S) for each in self.ranks]
        assert got == statuses, f"{self.launcher} {self.words}: the ranks ended with {got} and not {statuses}"


def test_grow_by_hand():
    # Rank 0 runs the store and the agent. Ranks 1 and 2 kill themselves once, one after the other.
    job = Job("grow", size=3)
    for rank in 1, 2:
        assert job.ranks[rank].wait(LIMIT_S) == -signal.SIGKILL
        job.ranks[rank] = job.start(rank)
    job.expect([0, 0, 0])


def test_lost_store_by_hand():
    for one_server in True, False:
        Job("lost_store", size=3, one_server=one_server).expect([-signal.SIGKILL, 0, 0])


def test_grow_without_a_replacement():
    # By hand a process may come until the deadline. The other launchers start each rank once.
    Job("not_replaced", size=3).expect([0, -signal.SIGKILL, 0])
    for launcher in "torchrun", "Slurm":
        reason = f"no process will replace rank 1: {launcher} replaces no rank; start the job by hmcrun --respawn"
        Job("not_replaced", reason, size=3, launcher=launcher).expect([0, -signal.SIGKILL, 0])


def run(*words):
    return subprocess.run([hmcrun, *words], capture_output=True, text=True, timeout=LIMIT_S, check=False)


def test_abort_after_a_loss():
    job = run("-np", "3", "--keep-going", "--timeout", "50", program, "errors")
    assert job.returncode == 7 and "aborted the job: enough" in job.stderr, (job.returncode, job.stderr)


def test_status_without_recovery():
    # The survivors end with status 1, because under hmcrun shrink() succeeds. So no rank closes the job, and the status
    # is that of the killed rank.
    job = run("-np", "3", "--keep-going", "--timeout", "50", program, "lost_store")
    assert job.returncode == 137, (job.returncode, job.stderr)


def test_too_few_respawns():
    # Each of two ranks is killed, and only one may be started again. grow() has no deadline.
    job = run("-np", "3", "--respawn", "1", "--timeout", "50", program, "grow")
    assert job.returncode == 137 and "no process will replace rank 2" in job.stderr, (job.returncode, job.stderr)
    assert "the limit of --respawn" in job.stderr, job.stderr


def test_all_ranks_fail_at_once():
    for nodes in "1", "2":
        for respawns in "1", "8":
            job = run("-np", "3", "--nodes", nodes, "--respawn", respawns, "--timeout", "50", program, "all_fail")
            assert job.returncode == 3, (nodes, respawns, job.returncode, job.stderr)


def test_deadline_of_a_rank_that_executes_the_program_anew():
    job = run("-np", "3", "--keep-going", "--timeout", "50", program, "executed")
    assert job.returncode == 0 and "the other ranks haven't called Team::grow" in job.stderr, (job.returncode, job.stderr)


def test_end_before_init():
    # The others can't go on without a rank that hasn't joined.
    for code, expected in ("5", 5), ("0", 1):
        script = f"[ $HMC_RANK != 2 ] || exit {code}; exec {program} use"
        job = run("-np", "3", "--keep-going", "--timeout", "50", "sh", "-c", script)
        assert job.returncode == expected and "rank 2 exited with status" in job.stderr, (job.returncode, job.stderr)


def test_replacement_without_grow():
    job = run("-np", "3", "--respawn", "8", "--timeout", "50", program, "ignored")
    assert job.returncode == 0 and "all ranks that could call grow() have ended" in job.stderr, (job.returncode, job.stderr)


for name, test in list(globals().items()):
    if name.startswith("test_"):
        print(name, flush=True)
        test()
