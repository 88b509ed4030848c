"""./dev bench --waiting: how long calls take while other work, or the job itself, needs the ranks' cores. Each rank makes
calls one after the other. A round's time is the mean of all calls in a cell's time, so it includes lost time slices. The
table has the medians of the rounds, for HMC with HMC_WAIT=spin, sleep and unset, and the peers."""

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import signal
import statistics
import sys

from . import contestants, launch, machine

CELLS = ("allreduce:8", "allreduce:32768", "barrier")
PERIOD_US = 100000


class Condition:
    """`cpus`: of the ranks, cyclically; None: not bound. `late`: bound only after the library has started. `busy`: a
    process that computes, per entry, on that CPU; None: on any. `quota`: CPUs that the ranks may use at the same time."""

    def __init__(self, name, np, cpus=None, late=False, busy=(), quota=None):
        self.name, self.np, self.cpus, self.late, self.busy, self.quota = name, np, cpus, late, busy, quota


def conditions(cores):
    ranks = max(2, len(cores))
    return [
        Condition("quiet, bound", ranks, cores),
        Condition("quiet", ranks),
        Condition("busy core, bound", ranks, cores, busy=cores[:1]),
        Condition("busy core", ranks, busy=cores[:1]),
        Condition("busy process", ranks, busy=(None,)),
        Condition("all cores busy, bound", ranks, cores, busy=cores),
        Condition("all cores busy", ranks, busy=cores),
        Condition("quota of half", ranks, quota=ranks / 2),
        Condition("4 ranks more", ranks + 4),
        Condition("4 times the ranks", 4 * ranks),
        Condition("one core", 2, cores[:1]),
        Condition("one core, later", 2, cores[:1], late=True),
    ]


# ---- the conditions

def _compute(cpu):
    if cpu is not None:
        os.sched_setaffinity(0, {cpu})
    while True:
        pass


@contextlib.contextmanager
def load(busy):
    started = [multiprocessing.Process(target=_compute, args=(cpu,), daemon=True) for cpu in busy]
    for process in started:
        process.start()
    try:
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
            process.join()


class Quota:
    """A cgroup with a limit of CPU time. `why`: the reason why there is none."""

    def __init__(self, cpus):
        self.why, self.folder = "", None
        for folder, write in (("/sys/fs/cgroup/cpu", self._first), ("/sys/fs/cgroup", self._second)):
            path = os.path.join(folder, f"hmc-bench-{os.getpid()}")
            try:
                os.mkdir(path)
                self.folder = path
                write(int(cpus * PERIOD_US))
                return
            except OSError as error:
                self.close()
                self.why = str(error)

    def _write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="ascii") as file:
            file.write(text)

    def _first(self, quota_us):
        self._write("cpu.cfs_period_us", str(PERIOD_US))
        self._write("cpu.cfs_quota_us", str(quota_us))

    def _second(self, quota_us):
        self._write("cpu.max", f"{quota_us} {PERIOD_US}")

    def command(self, words):
        """The command, in this cgroup."""
        return ["sh", "-c", f'echo $$ > {self.folder}/cgroup.procs && exec "$@"', "sh", *words]

    def close(self):
        if self.folder:
            with contextlib.suppress(OSError):
                os.rmdir(self.folder)
        self.folder = None


# ---- the contestants

class Variant:
    """A contestant with further variables in its environment."""

    def __init__(self, name, of, environment):
        self.name, self.of, self.environment = name, of, environment


def variants(build, baseline):
    everyone = {one.name: one for one in contestants.everyone(build)}
    found = []
    for folder, prefix in ((build, ""), (baseline, "old ")):
        if folder:
            hmc = {one.name: one for one in contestants.everyone(folder)}["hmc-private"]
            library = {"LD_LIBRARY_PATH": os.path.join(folder, "lib")}
            found += [Variant(prefix + "spin", hmc, {**library, "HMC_WAIT": "spin"}),
                      Variant(prefix + "sleep", hmc, {**library, "HMC_WAIT": "sleep"}),
                      Variant(prefix + "default", hmc, library)]
    return found + [Variant(name, everyone[name], {}) for name in contestants.PEERS["all"]
                    if name not in ("gloo",) and not everyone[name].missing()]


# ---- measuring

def measure(condition, variant, cells, seconds):
    """us per call by cell, and the reason of a failure."""
    layout = {"nodes": 1, "np": condition.np}
    words = ["--stream", f"--cell-s={seconds}", *cells] + (["--late-binding"] if condition.late else [])
    command = variant.of.command(layout, words, condition.cpus or ())
    quota = Quota(condition.quota) if condition.quota else None
    if quota and quota.why:
        return {}, f"no quota can be set: {quota.why}"
    with load(condition.busy):
        outcome = launch_run(quota.command(command) if quota else command, variant)
    if quota:
        quota.close()
    times = {f"{line['op']}:{line['bytes']}".replace("barrier:0", "barrier"): line["us_mean"]
             for line in outcome.lines if "us_mean" in line}
    return times, outcome.failure


def launch_run(command, variant):
    layout = {"nodes": 1, "np": 2}
    return launch.run(command, timeout_s=60, environment={**variant.of.environment(layout), **variant.environment})


def table(condition, names, cells, times):
    print(f"\n{condition.name}, np={condition.np}: us per call, median (least, most) of the rounds")
    print(f"{'':18}" + "".join(f"{cell:>30}" for cell in cells))
    for name in names:
        row = [times.get((name, cell), []) for cell in cells]
        print(f"{name:18}" + "".join(
            f"{f'{statistics.median(one):.2f} ({min(one):.2f}, {max(one):.2f})' if one else '-':>30}" for one in row))
    for prefix in ("", "old "):
        ratios = []
        for cell in cells:
            three = [times.get((prefix + name, cell)) for name in ("default", "spin", "sleep")]
            ratios.append("-" if None in three else
                          f"{statistics.median(three[0]) / min(map(statistics.median, three[1:])):.2f}")
        if any(ratio != "-" for ratio in ratios):
            print(f"{prefix + 'default/better':18}" + "".join(f"{ratio:>30}" for ratio in ratios))
    sys.stdout.flush()


def main(words, build):
    cores = machine.cores()
    every = conditions(cores)
    parser = argparse.ArgumentParser(prog="./dev bench --waiting", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cell-s", type=float, default=0.15, help="time of a cell in a round")
    parser.add_argument("--condition", action="append", choices=[one.name for one in every])
    parser.add_argument("--only", action="append", help="only these contestants")
    parser.add_argument("--cell", action="append", help=f"operation:bytes; default: {' '.join(CELLS)}")
    parser.add_argument("--build", default=build, metavar="DIR", help="build folder with the programs")
    parser.add_argument("--baseline", metavar="DIR", help="another build, for its spin, sleep and default")
    parser.add_argument("--output", metavar="FILE", help="all times, as JSON")
    options = parser.parse_args(words)
    launch.adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    cells = options.cell or CELLS
    found = [one for one in variants(os.path.abspath(options.build), options.baseline and os.path.abspath(options.baseline)) if not options.only or one.name in options.only]
    kept, failed = [], 0
    for condition in every:
        if options.condition and condition.name not in options.condition:
            continue
        times, failures = {}, {}
        for number in range(options.rounds):
            for variant in random.sample(found, len(found)):
                if variant.name in failures:
                    continue
                got, failure = measure(condition, variant, cells, options.cell_s)
                if failure:
                    failures[variant.name] = failure
                for cell, us in got.items():
                    times.setdefault((variant.name, cell), []).append(us)
                    kept.append({"condition": condition.name, "contestant": variant.name, "cell": cell, "round": number,
                                 "us": us})
        table(condition, [one.name for one in found], cells, times)
        for name, failure in failures.items():
            print(f"{name}: {failure}")
            failed += not failure.startswith("no quota") and name in ("spin", "sleep", "default")
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump(kept, file)
    return 1 if failed else 0
