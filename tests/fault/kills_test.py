#!/usr/bin/env python3
"""Kills ranks at random times and checks the survivors' errors: the right rank, within a second.

Usage: kills_test.py HMCRUN PROGRAM KILLS NP NODES [--table]
With --table: medians and percentiles per mode instead of a pass or failure.
"""

import re
import subprocess
import sys
import tempfile

hmcrun, program, kills, np, nodes = sys.argv[1:6]
kills, np = int(kills), int(np)
table = "--table" in sys.argv
LIMIT_US = 1_000_000  # as in dying_rank_test.py
MODES = ["calls", "init", "calls", "shrink"]


def victims_of(moments):
    return [rank for rank in range(np) if int.from_bytes(moments[8 * rank:8 * rank + 8], "little") != 0]


def run(mode, seed):
    """One job: (mistakes, times in us, the errors that name the signal, the call)."""
    with tempfile.NamedTemporaryFile() as file:
        file.truncate(4096)
        job = subprocess.run([hmcrun, "-np", str(np), "--nodes", nodes, "--timeout", "60",
                              *(["--keep-going"] if mode == "shrink" else []),
                              program, mode, str(seed), file.name],
                             capture_output=True, text=True, timeout=90, check=False)
        file.seek(0)
        dead = victims_of(file.read())
    wrong, times, named, seen = [], [], [], set()
    pattern = r"survivor (\d+) code (\w+) peer (-?\d+) after (-?\d+) us in ([\w:]+): (.*)"
    for found in re.finditer(pattern, job.stdout):
        rank, code, peer, after, call, text = found.groups()
        seen.add(int(rank))
        times.append((call, int(after)))
        named.append("SIGKILL" in text)
        if "SIGKILL" not in text:
            wrong.append(f"rank {rank} in {call}: no signal in: {text}")
        if code != "peer_failed" or int(peer) not in dead:
            wrong.append(f"rank {rank} in {call}: {code}, peer {peer} and not {dead}: {text}")
    for rank, size, after in re.findall(r"shrunk (\d+) to (\d+) after (-?\d+) us", job.stdout):
        seen.add(int(rank))
        times.append(("shrink", int(after)))
        if int(size) != np - 2:
            wrong.append(f"rank {rank} has {size} ranks after shrink")
    if set(range(np)) - set(dead) != seen:
        wrong.append(f"ranks {sorted(seen)} reported, {dead} died")
    expected = 0 if mode == "shrink" else 137
    if job.returncode != expected:
        wrong.append(f"hmcrun ended with {job.returncode} and not {expected}")
    if wrong:
        print(f"mode {mode} seed {seed}:", job.stdout, job.stderr, sep="\n")
    return wrong, times, named


def percentile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))] / 1000


mistakes, by_call, named = [], {}, []
for kill in range(kills):
    mode = MODES[kill % len(MODES)]
    wrong, times, signals = run(mode, kill)
    late = max((us for _, us in times), default=0) > LIMIT_US
    if late and not table:  # the machine may have stalled: twice more, in time
        again = [run(mode, kill) for _ in range(2)]
        wrong += [line for each in again for line in each[0]]
        if any(us > LIMIT_US for each in again for _, us in each[1]):
            wrong.append(f"mode {mode} seed {kill}: an error came after {max(us for _, us in times)} us")
    mistakes += wrong
    named += signals
    for call, us in times:
        by_call.setdefault(call, []).append(us)

print("call             errors  median ms   p95 ms   p99 ms   max ms")
everything = [us for values in by_call.values() for us in values]
for call, values in [*sorted(by_call.items()), ("all", everything)]:
    print(f"{call:16} {len(values):6} {percentile(values, .5):10.1f} {percentile(values, .95):8.1f} "
          f"{percentile(values, .99):8.1f} {max(values) / 1000:8.1f}")
print(f"{sum(named)} of {len(named)} errors name the signal; {len(mistakes)} mistakes in {kills} jobs")
for line in mistakes:
    print("WRONG:", line, file=sys.stderr)
sys.exit(1 if mistakes else 0)
