#!/usr/bin/env python3
"""A rank dies: the survivors' errors, their times, and hmcrun's messages and status.

Usage: dying_rank_test.py HMCRUN PROGRAM HOW WHERE NP NODES
"""

import re
import subprocess
import sys
import time

hmcrun, program, how, where, np, nodes = sys.argv[1:7]
np = int(np)
# A survivor should get the error within 100 ms; a loaded machine with two cores gets ten times that. If one job is
# late, because the machine stalled for a second, two more jobs must be in time.
LIMIT_US = 1_000_000
EXIT_CODES = {"kill": 128 + 9, "segv": 128 + 11, "exit3": 3, "abort": 7}
victim = 0 if how == "abort" else np - 1
code = "aborted" if how == "abort" else "peer_failed"


def run():
    """One job: its mistakes, and its late errors."""
    start = time.monotonic()
    job = subprocess.run([hmcrun, "-np", str(np), "--nodes", nodes, "--timeout", "60", program, how, where],
                         capture_output=True, text=True, timeout=90, check=False)
    took = time.monotonic() - start
    print(job.stdout)
    print(job.stderr, file=sys.stderr)

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
    print(f"errors after {sorted(value[2] for value in reported.values())} us; the job took {took:.2f} s")
    return wrong, late


wrong, late = run()
if late and not wrong:
    print(f"once more, twice: {late}")
    for _ in range(2):
        again = run()
        wrong, late = wrong + again[0], again[1]
        if wrong or late:
            break
for line in wrong + late:
    print("WRONG:", line, file=sys.stderr)
sys.exit(1 if wrong or late else 0)
