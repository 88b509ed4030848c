#!/usr/bin/env python3
"""Random programs from seeds, half of them with a failure: no hang, no wrong byte, no leftover, the right rank named.

Usage: soak.py HMCRUN PROGRAM SECONDS [FIRST_SEED]
       soak.py HMCRUN PROGRAM --seed N      replays one seed: the same programs, and the failure in the same step
"""

import os
import random
import re
import subprocess
import sys
import time

HANG_S = 120  # far above a run's duration on a busy machine
FAILING = re.compile(r"^rank (\d+) fails in step (\d+)$", re.MULTILINE)
RESULT = re.compile(r"rank (\d+) code (\w+) peer (-?\d+): (.*)")


def plan(seed):
    """The parameters of the run with this seed."""
    draw = random.Random(seed)
    ranks = draw.choice([2, 3, 4, 5, 8])
    nodes = draw.choice([1, 1, 2])
    hows = ["kill", "exit", "stop"]
    if nodes == 2:
        hows.append("disconnect")
    how = draw.choice(hows) if draw.random() < 0.5 else "none"
    victim = draw.randrange(ranks)
    recovers = how in ("kill", "exit", "disconnect") and draw.random() < 0.5
    return {"ranks": ranks, "nodes": nodes, "how": how, "victim": victim, "recovers": recovers}


def leftovers(program):
    """Processes of the program that still run."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/exe") == os.path.realpath(program):
                with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
                    if stat.read().rpartition(")")[2].split()[0] != "Z":
                        found.append(int(pid))
        except OSError:
            continue
    return found


def run(hmcrun, program, seed):
    """One run: the list of its mistakes, and a summary."""
    what = plan(seed)
    command = [hmcrun, "-np", str(what["ranks"]), "--nodes", str(what["nodes"]), "--timeout", str(HANG_S),
               *(["--keep-going"] if what["recovers"] else []), program, "--seed", str(seed),
               "--set", f"how={what['how']}", "--set", f"victim={what['victim']}",
               "--set", f"recover={int(what['recovers'])}"]
    job = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S + 60, check=False,
                         env={**os.environ, "HMC_TIMEOUT_S": str(HANG_S - 30)})
    errors = {int(m[1]): (m[2], int(m[3]), m[4]) for m in map(RESULT.match, job.stdout.splitlines()) if m}
    wrong = []
    if job.returncode == 124:
        wrong.append("the job hung")
    if "not true" in job.stderr or "not true" in job.stdout or "and not" in job.stderr:
        wrong.append("a rank found wrong bytes")
    died = what["how"] in ("kill", "exit")
    if what["how"] in ("none", "stop"):
        if errors or job.returncode:
            wrong.append(f"no rank died, but hmcrun ended with {job.returncode}")
    for rank, (code, peer, text) in sorted(errors.items()):
        if died and (code, peer) != ("peer_failed", what["victim"]):
            wrong.append(f"rank {rank} reports {code} of rank {peer}, and not the death of rank {what['victim']}: {text}")
        if what["how"] == "disconnect" and code != "peer_failed":
            wrong.append(f"rank {rank} reports {code}: {text}")
    # A run without its failure would prove nothing.
    failing = FAILING.findall(job.stdout)
    if [int(rank) for rank, _ in failing] != ([] if what["how"] == "none" else [what["victim"]]):
        wrong.append(f"rank {what['victim']} should fail once, but these (rank, step) failed: {failing}")
    what["step"] = failing[0][1] if failing else None
    if what["recovers"] and (died or errors):
        # If only a connection is lost, all ranks continue.
        sizes = [int(size) for size in re.findall(r"^recovered (\d+)$", job.stdout, re.MULTILINE)]
        left = what["ranks"] - died
        if sizes != [left] * left or job.returncode:
            wrong.append(f"{left} ranks should continue, but these sizes were reported: {sizes}; status {job.returncode}")
        return finish(program, seed, what, job, wrong)
    if died and job.returncode != (137 if what["how"] == "kill" else 3):
        wrong.append(f"hmcrun ended with {job.returncode}")
    if died and len(errors) < what["ranks"] - 1:
        what["silent"] = sorted(set(range(what["ranks"])) - set(errors) - {what["victim"]})
    return finish(program, seed, what, job, wrong)


def finish(program, seed, what, job, wrong):
    # The kernel may need a moment to end killed processes.
    limit = time.monotonic() + 30
    while (left := leftovers(program)) and time.monotonic() < limit:
        time.sleep(0.05)
    if left:
        wrong.append(f"processes are left: {left}")
    if wrong:
        print(f"seed {seed}: {what}\n{job.stdout}\n{job.stderr}", file=sys.stderr)
    return wrong, what, job.returncode


def main():
    hmcrun, program = sys.argv[1:3]
    if sys.argv[3] == "--seed":
        seeds, end = iter([int(sys.argv[4])]), float("inf")
    else:
        first = int(sys.argv[4]) if len(sys.argv) > 4 else random.SystemRandom().randrange(1 << 40)
        seeds, end = iter(range(first, first + 1_000_000)), time.monotonic() + float(sys.argv[3])
    count, failures, failed_runs, replayed = {}, 0, 0, len(sys.argv) > 4 and sys.argv[3] == "--seed"
    for seed in seeds:
        if time.monotonic() > end:
            break
        wrong, what, status = run(hmcrun, program, seed)
        key = (what["how"] + (" and shrink" if what["recovers"] else ""), what["nodes"])
        count[key] = count.get(key, 0) + 1
        failed_runs += status != 0
        if what["how"] in ("kill", "exit", "stop") and not replayed:
            replayed = True
            again, same, _ = run(hmcrun, program, seed)
            wrong += again
            if same["step"] != what["step"]:
                wrong.append(f"it failed in step {what['step']}, and in step {same['step']} when it was replayed")
        for line in wrong:
            print(f"WRONG: seed {seed}: {line}", file=sys.stderr)
        if wrong:
            failures += 1
            print(f"to replay it: {sys.argv[0]} {hmcrun} {program} --seed {seed}", file=sys.stderr)
    total = sum(count.values())
    print(f"{total} programs, {failed_runs} ended by their failure, {failures} wrong; by failure and nodes: {count}")
    return 1 if failures or not total else 0


sys.exit(main())
