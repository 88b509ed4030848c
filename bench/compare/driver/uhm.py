"""./dev bench --uhm: transfers from the device memory of rank 0 to that of rank 1, by each of five modes in turn.

  uhm       a put from device memory to device memory, until it is complete at the target
  serial    the whole data to host memory, a put to the peer's host memory, from there to the peer's device
  g2h2g     the same chunk by chunk, each after the other
  pipeline  the same with several chunks in flight: copies and puts overlap
  rdma_cpu  a put from host memory to host memory, without a device

The order of the modes is random in every round, and the receiver checks every byte. Times are medians of the rounds, ratios
are medians of the rounds' ratios to uhm. Without an accelerator, device memory is that of the tests' fake of CUDA's driver,
which is host memory, or with --memory opencl that of OpenCL's device. The table names it."""

import argparse
import csv
import json
import os
import random
import sys

from . import launch, machine, stats, svg, text

MODES = ("uhm", "serial", "g2h2g", "pipeline", "rdma_cpu")
LABELS = {"uhm": "UHM", "serial": "serial", "g2h2g": "g2h2g", "pipeline": "pipeline", "rdma_cpu": "RDMA on the CPU"}
STYLES = {
    "uhm": {"color": "#08519c", "dash": "", "width": 2.5, "marker": "circle"},
    "serial": {"color": "#d95f02", "dash": "", "width": 1.5, "marker": "triangle"},
    "g2h2g": {"color": "#b8860b", "dash": "", "width": 1.5, "marker": "diamond"},
    "pipeline": {"color": "#1b7837", "dash": "", "width": 1.5, "marker": "square"},
    "rdma_cpu": {"color": "#555555", "dash": "2 3", "width": 1.5, "marker": "square"},
}
SIZES = tuple(64 << 10 << power for power in range(15))  # 64 KiB to 1 GiB
CSV_COLUMNS = ("Mode", "Data Size (MB)", "Time(us)", "Bandwidth(Gbps)")  # those of the older HMC's uhm_app
FAKE = "a fake of CUDA's driver: host memory, so device copies are the CPU's"


def options_of(words, build):
    parser = argparse.ArgumentParser(prog="./dev bench --uhm", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, action="append", metavar="BYTES", help="default: 64 KiB to 1 GiB, doubling")
    parser.add_argument("--nodes", type=int, choices=(1, 2), default=1, help="2: between two nodes, over loopback")
    parser.add_argument("--memory", choices=("auto", "fake", "opencl"), default="auto",
                        help="device memory; auto: the accelerator's, else the fake's")
    parser.add_argument("--chunk", type=int, default=4 << 20, metavar="BYTES", help="of g2h2g and pipeline [4 MiB]")
    parser.add_argument("--in-flight", type=int, default=64, metavar="N", help="chunks in flight in a pipeline [64]")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31), help="seed of the order in each round [random]")
    parser.add_argument("--build", default=build, metavar="DIR", help="build folder with the programs")
    parser.add_argument("--output", metavar="DIR", help="folder for uhm.csv, uhm.svg and uhm.json [BUILD/uhm]")
    options = parser.parse_args(words)
    options.build = os.path.abspath(options.build)
    options.output = os.path.abspath(options.output or os.path.join(options.build, "uhm"))
    return options


class Runner:
    def __init__(self, options):
        self.options, self.is_fake = options, options.memory == "fake"

    def run(self, size):
        """The facts of the run and the lines of its rounds, or a reason."""
        options = self.options
        command = [os.path.join(options.build, "bin", "hmcrun"), "-np", "2", "--nodes", str(options.nodes),
                   os.path.join(options.build, "bin", "bench", "compare", "uhm"), f"--bytes={size}", f"--rounds={options.rounds}",
                   f"--chunk={options.chunk}", f"--in-flight={options.in_flight}", f"--seed={options.seed}"]
        if options.memory == "opencl":
            command.append("--opencl")
        fake = os.path.join(options.build, "lib", "fake_drivers", "libfake_cuda.so")
        # The fake's descriptors of memory don't have the number of its device; its IPC handles do.
        environment = {"HMC_CUDA_LIBRARY": fake, "HMC_DEVICE_SHARING": "ipc"} if self.is_fake else {}
        if self.is_fake and not os.path.exists(fake):
            return None, [], f"there is no accelerator, and no {fake}"
        # A transfer of all modes is below a second per 100 MB even on a slow machine.
        outcome = launch.run(command, timeout_s=60 + (options.rounds + 1) * size / 2e7, environment=environment)
        if outcome.failure:
            return None, [], outcome.failure
        facts, *samples = outcome.lines
        if options.memory == "auto" and facts["memory"] == "CPU" and not self.is_fake:
            self.is_fake = True
            return self.run(size)
        return facts, samples, ""


def by_mode(samples):
    """{mode: {round: us}}"""
    found = {mode: {} for mode in MODES}
    for sample in samples:
        found[sample["mode"]][sample["round"]] = sample["us"]
    return found


def gbps(size, us):
    return size * 8 / us / 1e3


def table(times, rounds):
    header = ["bytes", *(f"{LABELS[mode]} us" for mode in MODES), "UHM Gbps", *(f"{LABELS[mode]}/UHM" for mode in MODES[1:])]
    lines = []
    for size, modes in times.items():
        medians = {mode: stats.median(modes[mode].values()) for mode in MODES}
        lines.append([text.size_name(size), *(text.time_name(medians[mode]) for mode in MODES),
                      f"{gbps(size, medians['uhm']):.1f}",
                      *(text.ratio_name(stats.ratio(modes[mode], modes["uhm"], rounds)) for mode in MODES[1:])])
    return text.aligned(header, lines)


def plot(times, title):
    series = []
    for mode in MODES:
        points = []
        for size, modes in times.items():
            values = [gbps(size, us) for us in modes[mode].values()]
            points.append((size, stats.median(values), min(values), max(values), stats.is_noisy(values),
                           f"{LABELS[mode]}, {text.size_name(size)}: {stats.median(values):.1f} Gbps"))
        series.append({"label": LABELS[mode], "style": STYLES[mode], "points": points})
    names = {size: text.size_name(size) for size in times}
    chart = svg.line_chart(title, series, "Gbps", names, x_label="bytes")
    return svg.stacked([chart, svg.legend("modes", series)])


def write(times, samples, facts, title, folder):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "uhm.csv"), "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(CSV_COLUMNS)
        for mode in MODES:
            for size, modes in times.items():
                us = stats.median(modes[mode].values())
                rows.writerow([mode, f"{size / 2**20:g}", f"{us:.1f}", f"{gbps(size, us):.4f}"])
    with open(os.path.join(folder, "uhm.svg"), "w", encoding="utf-8") as file:
        file.write(plot(times, title))
    with open(os.path.join(folder, "uhm.json"), "w", encoding="utf-8") as file:
        json.dump({"facts": facts, "samples": samples}, file, indent=1)


def main(words, build):
    options = options_of(words, build)
    launch.adopt_orphans()
    runner, times, kept, facts, failures = Runner(options), {}, [], None, []
    for size in sorted(set(options.size or SIZES)):
        found, samples, failure = runner.run(size)
        if failure:
            failures.append(f"{text.size_name(size)}: {failure}")
            continue
        facts, times[size] = found, by_mode(samples)
        kept += samples
    if times:
        where = "one node" if options.nodes == 1 else "two nodes over loopback"
        facts = {**facts, "memory": FAKE if runner.is_fake else facts["memory"], "nodes": options.nodes, "machine": machine.facts(),
                 "chunk": options.chunk, "in_flight": options.in_flight, "rounds": options.rounds, "seed": options.seed}
        print(f"# {where}; device memory: {facts['memory']}")
        print(f"# path to the peer's device memory: {facts['device_path']}; to its host memory: {facts['host_path']}")
        print(f"# {facts['machine']['cpu']}, {facts['machine']['cores']} cores; medians of {options.rounds} rounds; chunks of "
              f"{text.size_name(options.chunk)}, at most {options.in_flight} in flight. ~: varies by more than 30 %, or few rounds")
        print(table(times, options.rounds))
        title = f"From device to device ({'fake driver' if runner.is_fake else facts['memory']}), {where}"
        write(times, kept, facts, title, options.output)
        print(f"# {os.path.join(options.output, 'uhm.svg')}; uhm.csv and uhm.json beside it")
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0
