"""./dev bench --overlap: non-blocking collectives beside computation, by the rule of the OSU micro-benchmarks. pure: start
and wait at once. overall: start, a computation that takes as long as `pure`, wait. The computation is also measured alone.
overlap = 100 * (1 - (overall - compute) / pure). cost = (overall - compute) / blocking call.
--sleep-s: each rank sleeps for that time instead of the computation, so that its core is free for a progress thread."""

import argparse
import json
import os
import random
import statistics
import sys

from . import contestants, launch, machine

OPERATIONS = ("allreduce", "allgather", "alltoall", "broadcast")
SIZES = (4096, 65536, 262144, 1048576, 4194304)


def figures(line):
    compute = line["us_overall"] - line["us_compute"]
    return {"overlap": max(0.0, 100 * (1 - compute / line["us_pure"])), "cost": compute / line["us_blocking"],
            "pure": line["us_pure"], "blocking": line["us_blocking"]}


def main(words, build):
    parser = argparse.ArgumentParser(prog="./dev bench --overlap", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cell-s", type=float, default=0.04, help="time of a cell in a round")
    parser.add_argument("--sleep-s", type=float, default=0, help="sleep instead of computing")
    parser.add_argument("--np", type=int, action="append", help="2 and 4")
    parser.add_argument("--op", action="append", choices=OPERATIONS)
    parser.add_argument("--size", type=int, action="append", help=f"bytes; default: {' '.join(map(str, SIZES))}")
    parser.add_argument("--only", action="append", help="only these contestants")
    parser.add_argument("--build", default=build, metavar="DIR", help="build folder with the programs")
    parser.add_argument("--output", metavar="FILE", help="all times, as JSON")
    options = parser.parse_args(words)
    launch.adopt_orphans()
    build = os.path.abspath(options.build)
    wanted = options.only or ["hmc-private", *contestants.PEERS["all"]]
    found = [one for one in contestants.everyone(build) if one.name in wanted and one.name != "gloo" and not one.missing()]
    cells = [f"{op}:{size}" for op in options.op or OPERATIONS for size in options.size or SIZES]
    kept, failed = [], False
    for ranks in options.np or (2, 4):
        layout, samples, failures = {"nodes": 1, "np": ranks}, {}, {}
        for number in range(options.rounds):
            for one in random.sample(found, len(found)):
                command = one.command(layout, ["--overlap", f"--cell-s={options.cell_s}", f"--sleep-s={options.sleep_s}", *cells], machine.cores())
                outcome = launch.run(command, timeout_s=120, environment=one.environment(layout))
                if outcome.failure:
                    failures[one.name] = outcome.failure
                for line in outcome.lines:
                    if "us_pure" in line:
                        samples.setdefault((line["op"], line["bytes"], one.name), []).append(figures(line))
                        kept.append({**line, "round": number})
        print(f"\nnp={ranks}: overlap in percent / cost of a blocking call / pure us / blocking us; medians of the rounds")
        print(f"{'':20}" + "".join(f"{one.name:>34}" for one in found))
        for cell in cells:
            op, size = cell.split(":")
            row = [samples.get((op, int(size), one.name)) for one in found]
            print(f"i{op} {size:>9}".ljust(20) + "".join(f"{shown(one):>34}" for one in row))
        for name, why in failures.items():
            print(f"{name}: {why}")
            failed = failed or name.startswith("hmc")
        sys.stdout.flush()
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump(kept, file)
    return 1 if failed else 0


def shown(samples):
    if not samples:
        return "-"
    overlap, cost, pure, blocking = (statistics.median(one[key] for one in samples)
                                     for key in ("overlap", "cost", "pure", "blocking"))
    return f"{overlap:.0f} / {cost:.2f} / {pure:.1f} / {blocking:.1f}"
