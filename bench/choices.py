#!/usr/bin/python3
"""Compares the library's choice of algorithm with each forced algorithm.

    bench/choices.py build -np 4 --nodes 2 [--collective allreduce] [--sizes 8 65536 1048576 4194304] [--rounds 5]

All of them run in each round; times are medians over rounds. The ratio is the choice's time divided by the best forced
algorithm's.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path


def run(arguments, size, algorithm):
    """Microseconds of one run, and the chosen algorithm if none is forced."""
    iterations = 200 if size <= 8192 else 30 if size <= 1 << 19 else 8
    environment = dict(os.environ, HMC_LOG="info")
    if algorithm:
        environment["HMC_COLL"] = f"{arguments.collective}:{algorithm}"
    folder = Path(arguments.build) / "bin"
    words = [folder / "hmcrun", "-np", str(arguments.np), "--nodes", str(arguments.nodes),
             folder / "bench" / f"hmc_{arguments.collective}", "-m", f"{size}:{size}", "-i", str(iterations), "-x", "5"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    figures = [line.split() for line in done.stdout.splitlines() if line and not line.startswith("#")]
    if done.returncode != 0 or not figures:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr[-2000:]}")
    said = re.findall(rf"info: {arguments.collective} from (\d+) bytes on, \d+ ranks: (\w+) by model", done.stderr)
    said = [name for begin, name in said if int(begin) <= size < int(begin) * 1.25]
    direct = f"info: {arguments.collective}, {arguments.np} ranks: direct" in done.stderr
    return float(figures[-1][1]), "direct" if direct else said[-1] if said else "?"


def names(arguments):
    """All algorithms that apply to this team, from hmcinfo."""
    text = subprocess.run([Path(arguments.build) / "bin" / "hmcinfo", "explain", arguments.collective, "8", "--ranks",
                           str(arguments.np), "--per-node", str(-(-arguments.np // arguments.nodes))],
                          capture_output=True, text=True, check=True).stdout
    return [match[0] for match in re.findall(r"(?m)^[* ] (\w+) +[\d.]+( |$)", text)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("-np", type=int, default=4)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--collective", default="allreduce")
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 65536, 1 << 20, 4 << 20])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    algorithms = names(arguments)
    print(f"{arguments.collective}, {arguments.np} ranks on {arguments.nodes} nodes; microseconds, medians of "
          f"{arguments.rounds} rounds")
    for size in arguments.sizes:
        taken, times, chosen = [], {name: [] for name in algorithms}, "?"
        for _ in range(arguments.rounds):
            time, chosen = run(arguments, size, None)
            taken.append(time)
            for name in algorithms:
                times[name].append(run(arguments, size, name)[0])
        medians = {name: statistics.median(values) for name, values in times.items()}
        best = min(medians, key=medians.get)
        own = statistics.median(taken)
        print(f"{size:>9}  {chosen:<22} {own:>10.1f}   best forced {best:<22} {medians[best]:>10.1f}   "
              f"ratio {own / medians[best]:.2f}", flush=True)
        others = sorted(medians.items(), key=lambda item: item[1])
        print("           " + ", ".join(f"{name} {time:.0f}" for name, time in others))


if __name__ == "__main__":
    main()
