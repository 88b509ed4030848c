#!/usr/bin/python3
"""Compares hmc-sim's predictions with real runs on emulated nodes of this machine; prints a table in Markdown.

Usage: validate.py [BUILD_DIRECTORY]     (hmc-sim, hmcrun and the programs of bench/osu must be built)

First the model is measured between two ranks. The real time is the best of five runs, since the machine may have other
work. A run's time is a call's average over its ranks. Emulated nodes share the machine's cores, and their network uses
its memory and CPU, so the last columns have the prediction times ranks / cores.
"""
import json
import os
import subprocess
import sys
from pathlib import Path

BUILD = Path(sys.argv[1] if len(sys.argv) > 1 else "build")
BIN = BUILD / "bin"
RUNS = 5
TEAMS = [(2, 1), (4, 1), (4, 2), (8, 1), (8, 4), (16, 1), (16, 8)]  # ranks, per node
CALLS = [
    ("barrier", "dissemination", 0),
    ("broadcast", "binomial", 8),
    ("broadcast", "binomial", 65536),
    ("allreduce", "recursive_doubling", 8),
    ("allreduce", "rabenseifner", 65536),
    ("allreduce", "ring", 1048576),
]


def output(words, **environment):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=120,
                          env={**os.environ, **environment})
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def predicted(model, collective, algorithm, size, ranks, per_node):
    words = [BIN / "hmc-sim", collective, "--bytes", size, "--ranks", ranks, "--per-node", per_node, "--algorithms",
             algorithm, "--json", *model]
    return json.loads(output(words))["surveys"][0]["algorithms"][0]["us"]


def real(collective, algorithm, size, ranks, per_node):
    words = [BIN / "hmcrun", "-np", ranks, "--nodes", ranks // per_node, "--bind-to", "core",
             BIN / "bench" / f"hmc_{collective}", "--json", "-i", 200 if size < 65536 else 50]
    if size > 0:
        words += ["-m", f"{size}:{size}"]
    figures = []
    for _ in range(RUNS):
        rows = json.loads(output(words, HMC_COLL=f"{collective}:{algorithm}"))["rows"]
        figures.append(rows[0]["avg_us"])
    return min(figures)


def main():
    model = output([BIN / "hmc-sim", "--measure"]).replace("\n", " ").split()
    print(f"Cores: {os.cpu_count()}. Model: `{' '.join(model)}`\n")
    print("| call | algorithm | ranks | per node | real us | predicted us | / real | times ranks / cores | / real |")
    print("|---|---|---|---|---|---|---|---|---|")
    for collective, algorithm, size in CALLS:
        for ranks, per_node in TEAMS:
            guess = predicted(model, collective, algorithm, size, ranks, per_node)
            seen = real(collective, algorithm, size, ranks, per_node)
            name = f"{collective} {size}" if size else collective
            shared = guess * max(1, ranks / os.cpu_count())
            print(f"| {name} | {algorithm} | {ranks} | {per_node} | {seen:.1f} | {guess:.1f} | {guess / seen:.2f} "
                  f"| {shared:.1f} | {shared / seen:.2f} |", flush=True)


if __name__ == "__main__":
    main()
