#!/usr/bin/env python3
"""A rank dies: the survivors' errors, their times, and hmcrun's messages and status.

Usage: dying_rank_test.py HMCRUN PROGRAM NODES HOW.WHERE.NP...
The cases run three at a time, because their ranks wait most of the time. A failed case doesn't stop the others.
"""

import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

hmcrun, program, nodes, *cases = sys.argv[1:]
# A survivor should get the error within 100 ms; a loaded machine with two cores gets ten times that. If one job is
# late, because the machine stalled for a second, three of five more jobs must be in time, alone.
LIMIT_US = 1_000_000
# A survivor waits for hmcrun's report of a death for about a second. Without it the error has the lost connection.
REPORT_US = 800_000
EXIT_CODES = {"kill": 128 + 9, "kill_unreaped": 128 + 9, "segv": 128 + 11, "exit3": 3, "abort": 7}
SIGNALS = {"kill": "SIGKILL", "kill_unreaped": "SIGKILL", "segv": "SIGSEGV"}


def stat_of(pid):
    """(state, parent) of a process."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        words = file.read().rpartition(")")[2].split()
    return words[0], int(words[1])


def children_of(pid):
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and stat_of(name)[1] == pid:
                found.append(int(name))
        except OSError:  # it has ended
            pass
    return found


def let_the_parent_reap(hmcrun_pid):
    """Continues the ranks' parent, which a rank has stopped, a while after that rank's death."""
    while True:
        for keeper in (child for guard in children_of(hmcrun_pid) for child in children_of(guard)):
            try:
                is_stopped = stat_of(keeper)[0] == "T" and any(stat_of(rank)[0] == "Z" for rank in children_of(keeper))
            except OSError:  # one has ended
                continue
            if is_stopped:
                time.sleep(0.1)  # the others would get an error without the signal in this time
                os.kill(keeper, signal.SIGCONT)
                return
        time.sleep(0.005)


def run(case):
    """One job: its mistakes, its late errors, and its output."""
    how, where, np = case.split(".")
    np = int(np)
    victim = 0 if how == "abort" else np - 1
    code = "aborted" if how == "abort" else "peer_failed"
    start = time.monotonic()
    with subprocess.Popen([hmcrun, "-np", str(np), "--nodes", nodes, "--timeout", "60", program, how, where],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
        try:
            if how == "kill_unreaped":
                let_the_parent_reap(job.pid)
            stdout, stderr = job.communicate(timeout=90)
        except subprocess.TimeoutExpired as hang:
            job.kill()
            return [str(hang)], [], str(hang.output)
    took = time.monotonic() - start
    wrong, late, reported = [], [], {}
    for line in stdout.splitlines():
        found = re.match(r"survivor (\d+) code (\w+)(?: peer (-?\d+) after (-?\d+) us: (.*))?", line)
        if found:
            reported[int(found[1])] = (found[2], int(found[3] or -1), int(found[4] or -1), found[5] or "")

    for rank in range(np):
        if rank == victim:
            continue
        if rank not in reported:
            wrong.append(f"rank {rank} printed nothing")
            continue
        got, peer, after, text = reported[rank]
        without_report = late if after >= REPORT_US else wrong
        if got != code:
            wrong.append(f"rank {rank} got {got} and not {code}: {text}")
        if peer != victim:
            without_report.append(f"rank {rank} blames rank {peer} and not {victim}: {text}")
        if after < 0:
            wrong.append(f"rank {rank} got the error after {after} us")
        if after >= LIMIT_US:
            late.append(f"rank {rank} got the error after {after} us")
        if how == "abort" and "has had enough" not in text:
            wrong.append(f"rank {rank}'s error has no cause: {text}")
        if how in SIGNALS and SIGNALS[how] not in text:
            without_report.append(f"rank {rank}'s error doesn't name the signal: {text}")

    if how in SIGNALS and SIGNALS[how] not in stderr:
        wrong.append("hmcrun's text doesn't name the signal")
    if how in EXIT_CODES and job.returncode != EXIT_CODES[how]:
        wrong.append(f"hmcrun ended with {job.returncode} and not {EXIT_CODES[how]}")
    if took > 20:
        late.append(f"it took {took:.1f} s")
    times = sorted(value[2] for value in reported.values())
    print(f"{case}: errors after {times} us; the job took {took:.2f} s", flush=True)
    return wrong, late, stdout + stderr


def in_time(case):
    """Five more jobs, of which most must be in time: mistakes, and their output."""
    wrong, all_late, late_jobs, output = [], [], 0, ""
    for _ in range(5):
        more, late, text = run(case)
        wrong, all_late, late_jobs, output = wrong + more, all_late + late, late_jobs + bool(late), output + text
    return wrong + (all_late if late_jobs > 2 else []), output


with ThreadPoolExecutor(3) as pool:
    results = dict(zip(cases, pool.map(run, cases)))
failed = []
for case, (wrong, late, output) in results.items():
    if late and not wrong:
        print(f"{case}: five more jobs: {late}", flush=True)
        wrong, output = in_time(case)
    if wrong:
        failed.append(case)
        print(f"== {case}", output, *(f"WRONG: {line}" for line in wrong), sep="\n", flush=True)
print(f"{len(cases) - len(failed)} of {len(cases)} cases passed{''.join(', FAILED: ' + case for case in failed)}")
sys.exit(1 if failed or not cases else 0)
