#!/usr/bin/env python3
"""A rank dies: the survivors' errors, their times, and hmcrun's messages and status.

Usage: dying_rank_test.py HMCRUN PROGRAM NODES HOW.WHERE.NP...
The cases run three at a time, because their ranks wait most of the time. A failed case doesn't stop the others.
"""

import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

hmcrun, program, nodes, *cases = sys.argv[1:]
# A survivor should get the error within 100 ms; a loaded machine with two cores gets ten times that. If one job is
# late, because the machine stalled for a second, two more jobs must be in time, alone.
LIMIT_US = 1_000_000
EXIT_CODES = {"kill": 128 + 9, "segv": 128 + 11, "exit3": 3, "abort": 7}


def run(case):
    """One job: its mistakes, its late errors, and its output."""
    how, where, np = case.split(".")
    np = int(np)
    victim = 0 if how == "abort" else np - 1
    code = "aborted" if how == "abort" else "peer_failed"
    start = time.monotonic()
    try:
        job = subprocess.run([hmcrun, "-np", str(np), "--nodes", nodes, "--timeout", "60", program, how, where],
                             capture_output=True, text=True, timeout=90, check=False)
    except subprocess.TimeoutExpired as hang:
        return [str(hang)], [], str(hang.output)
    took = time.monotonic() - start
    wrong, late, reported = [], [], {}
    for line in job.stdout.splitlines():
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
        if got != code:
            wrong.append(f"rank {rank} got {got} and not {code}: {text}")
        if peer != victim:
            wrong.append(f"rank {rank} blames rank {peer} and not {victim}: {text}")
        if after < 0:
            wrong.append(f"rank {rank} got the error after {after} us")
        if after >= LIMIT_US:
            late.append(f"rank {rank} got the error after {after} us")
        if how == "abort" and "has had enough" not in text:
            wrong.append(f"rank {rank}'s error has no cause: {text}")

    if how in EXIT_CODES and job.returncode != EXIT_CODES[how]:
        wrong.append(f"hmcrun ended with {job.returncode} and not {EXIT_CODES[how]}")
    if took > 20:
        late.append(f"it took {took:.1f} s")
    times = sorted(value[2] for value in reported.values())
    print(f"{case}: errors after {times} us; the job took {took:.2f} s", flush=True)
    return wrong, late, job.stdout + job.stderr


def in_time(case):
    """Two more jobs: their mistakes, and their output."""
    wrong, output = [], ""
    for _ in range(2):
        again = run(case)
        wrong, output = wrong + again[0] + again[1], output + again[2]
    return wrong, output


with ThreadPoolExecutor(3) as pool:
    results = dict(zip(cases, pool.map(run, cases)))
failed = []
for case, (wrong, late, output) in results.items():
    if late and not wrong:
        print(f"{case}: once more, twice: {late}", flush=True)
        wrong, output = in_time(case)
    if wrong:
        failed.append(case)
        print(f"== {case}", output, *(f"WRONG: {line}" for line in wrong), sep="\n", flush=True)
print(f"{len(cases) - len(failed)} of {len(cases)} cases passed{''.join(', FAILED: ' + case for case in failed)}")
sys.exit(1 if failed or not cases else 0)
