#!/usr/bin/python3
"""Every program's plain output has OSU's format: banner, comment lines, columns; in both layouts."""
import json
import os
import re
import unittest

from osu_format import Table, check_columns
from programs import (ALL, ATOMICS, BLOCKING, MAIN, MEASURING, MESSAGE_RATE, NON_BLOCKING, SHORT, SIZED,
                      TRANSFERS, alone, main, output)

TITLES = {
    "put_latency": "Put Latency Test",
    "get_latency": "Get Latency Test",
    "put_bw": "Put Bandwidth Test",
    "get_bw": "Get Bandwidth Test",
    "put_bibw": "Put Bi-Directional Bandwidth Test",
    "get_bibw": "Get Bi-Directional Bandwidth Test",
    "put_mr": "Put Multiple Bandwidth / Message Rate Test",
    "get_mr": "Get Multiple Bandwidth / Message Rate Test",
    "put_multi_lat": "Put Multi Latency Test",
    "get_multi_lat": "Get Multi Latency Test",
    "acc_latency": "Accumulate Latency Test",
    "get_acc_latency": "Get Accumulate Latency Test",
    "atomics": "Atomic Operation Rate Test",
    "fop_latency": "Fetch_and_op Latency Test",
    "cas_latency": "Compare_and_swap Latency Test",
    "put_signal_latency": "Put Signal Latency Test",
    "latency": "Latency Test",
    "bw": "Bandwidth Test",
    "bibw": "Bi-Directional Bandwidth Test",
    "mbw_mr": "Multiple Bandwidth / Message Rate Test",
    **{name: f"{name.capitalize()} Latency Test" for name in BLOCKING},
    **{"i" + name: f"Non-blocking {name.capitalize()} Latency Test" for name in BLOCKING},
    "hello": "Hello World Test",
    "init": "Init Test",
}
SIZES = ["8", "16", "32", "64"]
OVERLAP = ["Compute(us)", "Pure Comm.(us)", "Overlap(%)"]


def sized(name):
    return ["-m", "8:64"] if name in SIZED else []


# Output of OSU 7.4, whose value columns are 18 wide.
OSU_74 = {
    "collective": """
# OSU MPI Allreduce Latency Test v7.4
# Datatype: MPI_FLOAT.
# Size       Avg Latency(us)
4                       1.83
8                       1.79
1048576               412.07
""",
    "full": """
# OSU MPI Allgather Latency Test v7.4
# Datatype: MPI_CHAR.
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
1                       1.02              0.98              1.11        1000
16384                  21.40             20.87             22.03         100
""",
    "bandwidth": """
# OSU MPI Bandwidth Test v7.4
# Datatype: MPI_CHAR.
# Size      Bandwidth (MB/s)
1                       4.61
4194304             11872.55
""",
    "barrier": """
# OSU MPI Barrier Latency Test v7.4
# Avg Latency(us)
             1.37
""",
}


class Osu(unittest.TestCase):
    """The parser for HMC's output also parses OSU's own."""

    def test_is_parsed_by_the_same_parser(self):
        for name, text in OSU_74.items():
            with self.subTest(output=name):
                table = Table(text.lstrip("\n"))
                check_columns(table, value_width=18)
                self.assertTrue(all(len(row) == len(table.titles) for row in table.rows))
        table = Table(OSU_74["collective"].lstrip("\n"))
        self.assertEqual(table.numbers("Avg Latency(us)"), [1.83, 1.79, 412.07])
        self.assertEqual(table.column("Size"), ["4", "8", "1048576"])
        full = Table(OSU_74["full"].lstrip("\n"))
        self.assertEqual(full.column("Iterations"), ["1000", "100"])

    def test_has_the_same_columns_except_their_width(self):
        for name, ours in (("collective", ("allreduce",)), ("full", ("allgather", "-f")), ("bandwidth", ("put_bw",)),
                           ("barrier", ("barrier",))):
            osu = Table(OSU_74[name].lstrip("\n"))
            table = Table(output(*ours, *SHORT, *(["-m", "8"] if ours[0] in SIZED else [])))
            self.assertEqual(table.titles[:len(osu.titles)], osu.titles)

    def test_a_shifted_header_is_detected(self):
        with self.assertRaises(AssertionError):
            check_columns(Table("# Size       Avg Latency(us) \n4                       1.83\n"), value_width=18)
        with self.assertRaises(AssertionError):
            check_columns(Table("# Size      Avg Latency(us)\n4                       1.83\n"), value_width=18)


class Format(unittest.TestCase):
    def check_banner(self, name, table, ranks, nodes):
        self.assertRegex(table.lines[0], rf"^# HMC {re.escape(TITLES[name])} v\d+\.\d+\.\d+$")
        wires = {1: "shm", 2: "tcp" if name in TRANSFERS + ATOMICS or ranks == 2 else "shm, tcp"}
        self.assertEqual(table.note("Wire"), wires[nodes])
        self.assertEqual(table.note("Ranks"), f"{ranks} on {nodes} node{'' if nodes == 1 else 's'}")
        self.assertRegex(table.note("Build"), r"\w+, \w+ \d+")
        self.assertEqual(table.note("Binding"), "none")

    def check_run(self, name, ranks, nodes):
        table = Table(output(name, *SHORT, *sized(name), ranks=ranks, nodes=nodes))
        self.check_banner(name, table, ranks, nodes)
        check_columns(table)
        if name in SIZED:
            extra = ["Messages/s"] if name in MESSAGE_RATE else OVERLAP if name in NON_BLOCKING else []
            self.assertEqual(table.titles, ["Size", MAIN[name]] + extra)
        self.assertTrue(all(number >= 0 for number in table.numbers(MAIN[name])))
        if name in SIZED:
            self.assertEqual(table.column("Size"), SIZES)

    def test_every_program_in_every_layout(self):
        for name in MEASURING:
            # Every layout for one program of each kind. 3 ranks: one rank has no partner.
            few = name in ("put_latency", "put_mr", "fop_latency", "barrier", "allreduce", "iallreduce")
            for ranks, nodes in ((2, 1), (3, 1), (4, 1), (2, 2), (4, 2)) if few else ((4, 2),):
                with self.subTest(program=name, ranks=ranks, nodes=nodes):
                    self.check_run(name, ranks, nodes)

    def test_barrier_prints_only_the_average(self):
        table = Table(output("barrier", *SHORT))
        self.assertEqual(table.header, "# Avg Latency(us)")
        self.assertEqual([len(row) for row in table.rows], [1])
        table = Table(output("ibarrier", *SHORT))
        self.assertEqual(table.titles, ["Overall(us)", *OVERLAP])
        self.assertEqual([len(row) for row in table.rows], [4])

    def test_message_rate_is_bandwidth_by_size(self):
        for name in MESSAGE_RATE:
            table = Table(output(name, *SHORT, "-m", "1024:4096", ranks=4))
            self.assertIn("# [ pairs: 2 ] [ window size: 64 ]", table.comments)
            for size, bandwidth, rate in zip(table.numbers("Size"), table.numbers("MB/s"), table.numbers("Messages/s")):
                self.assertAlmostEqual(rate * size / 1e6 / bandwidth, 1, delta=0.01)

    def test_overlap_follows_from_the_times(self):
        for name in ("ireduce", "ialltoallv", "ibarrier"):
            rows = json.loads(output(name, *SHORT, *(["-m", "8:1024"] if name in SIZED else []), "-f", "--json", ranks=3))["rows"]
            for row in rows:
                hidden = 100 - 100 * (row["overall_us"] - row["compute_us"]) / row["pure_us"]
                self.assertAlmostEqual(row["overlap_percent"], min(max(hidden, 0), 100), places=3)
                self.assertLessEqual(row["min_pure_us"], row["pure_us"] * 1.000001)
                self.assertLessEqual(row["pure_us"], row["max_pure_us"] * 1.000001)
                self.assertGreater(row["compute_us"], 0)
                self.assertGreater(row["overall_us"], row["init_us"] + row["wait_us"])

    def test_atomics_names_each(self):
        table = Table(output("atomics", *SHORT))
        self.assertEqual(table.titles, ["Operation", "Million ops/s", "Latency (us)"])
        self.assertEqual(table.column("Operation"), ["fetch_add", "fetch_and", "fetch_or", "fetch_xor", "swap", "compare_swap",
                                                     "fetch", "add", "set", "and", "or", "xor"])

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one CPU is always all of them")
    def test_binding_is_the_launchers(self):
        for bind, expected in (("core", "core"), ("none", "none")):
            table = Table(output("barrier", *SHORT, launcher=["--bind-to", bind]))
            self.assertEqual(table.note("Binding"), expected)
        mixed = ["sh", "-c", 'test "$HMC_RANK" = 0 && exec taskset -c 0 "$0" "$@"; exec "$0" "$@"']
        self.assertEqual(Table(output("barrier", *SHORT, before=mixed)).note("Binding"), "differs between ranks")

    def test_hello(self):
        table = Table(output("hello", ranks=3))
        self.check_banner("hello", table, 3, 1)
        self.assertEqual(table.data_lines, ["This is a test with 3 processes"])

    def test_init(self):
        table = Table(output("init", ranks=4))
        self.check_banner("init", table, 4, 1)
        words = re.fullmatch(r"nprocs: 4, min: (\d+) ms, max: (\d+) ms, avg: (\d+) ms", table.data_lines[0])
        low, high, mean = map(int, words.groups())
        self.assertTrue(low <= mean <= high)
        self.assertRegex(table.note("Microseconds"), r"^min \d+\.\d\d, max \d+\.\d\d, avg \d+\.\d\d$")

    def test_every_program_has_help_and_a_version(self):
        for name in ALL:
            with self.subTest(program=name):
                self.assertIn("Usage: hmc_" + name, alone(name, "--help"))
                self.assertRegex(alone(name, "-v"), rf"^HMC {re.escape(TITLES[name])} v\d+\.\d+\.\d+\n$")


if __name__ == "__main__":
    main(2)
