#!/usr/bin/python3
"""Every flag, on every program that has it."""
import csv
import io
import json
import os
import pty
import subprocess
import unittest

from osu_format import Table, check_columns
from programs import (BANDWIDTH, COLLECTIVES, LATENCY, MAIN, MEASURING, SHORT, SIZED, SIZED_COLLECTIVES, STARTING, TRANSFERS,
                      command, launch, output, program)

SMALL = ["-m", "64"]
WITH_DATA = TRANSFERS + SIZED_COLLECTIVES
DTYPES = ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"]
OPERATIONS = ["sum", "prod", "min", "max", "avg", "band", "bor", "bxor", "land", "lor"]


def args_for(name):
    return SHORT + (["-m", "32:64"] if name in SIZED else [])


def table_of(name, *args, **layout):
    table = Table(output(name, *args, **layout))
    check_columns(table)
    return table


def unit(name):
    return "BW(MB/s)" if name in BANDWIDTH else "Lat(us)"


class Sizes(unittest.TestCase):
    def sizes(self, text, name="broadcast"):
        return table_of(name, *SHORT, "-m", text).column("Size")

    def test_forms_of_m(self):
        self.assertEqual(self.sizes("4"), ["1", "2", "4"])
        self.assertEqual(self.sizes("3:13"), ["3", "6", "12"])
        self.assertEqual(self.sizes(":2"), ["1", "2"])
        self.assertEqual(self.sizes("524288:"), ["524288", "1048576"])

    def test_whole_elements(self):
        self.assertEqual(self.sizes("1:16", "allreduce"), ["4", "8", "16"])
        self.assertEqual(table_of("allreduce", *SHORT, "-m", "1:16", "-t", "f64").column("Size"), ["8", "16"])

    def test_defaults(self):
        # One iteration of each size: the range is what is tested.
        once = ["-i", "1", "-x", "0"]
        self.assertEqual(table_of("allreduce", *once).column("Size"), [str(4 << i) for i in range(19)])
        self.assertEqual(table_of("put_bw", *once, "-W", "2").column("Size"), [str(1 << i) for i in range(23)])


class Iterations(unittest.TestCase):
    def test_rule_of_collectives(self):
        table = table_of("broadcast", "-f", "-m", "8192:16384")
        self.assertEqual(table.column("Iterations"), ["1000", "100"])
        self.assertEqual(table_of("barrier", "-f").column("Iterations"), ["1000"])

    def test_rule_of_transfers(self):
        self.assertEqual(table_of("put_latency", "-f", "-m", "8192:16384").column("Iterations"), ["10000", "1000"])
        self.assertEqual(table_of("put_bw", "-f", "-m", "8192:16384").column("Iterations"), ["100", "20"])

    def test_i_and_x(self):
        for name in MEASURING:
            for warmup in ("0", "3"):
                with self.subTest(program=name, warmup=warmup):
                    table = table_of(name, "-i", "7", "-x", warmup, "-f", *(SMALL if name in SIZED else []))
                    self.assertEqual(set(table.column("Iterations")), {"7"})


class Columns(unittest.TestCase):
    def test_full(self):
        for name in MEASURING:
            with self.subTest(program=name):
                table = table_of(name, *args_for(name), "-f")
                word = "BW(MB/s)" if name in BANDWIDTH else "Latency(us)"
                for low, mean, high in zip(table.numbers("Min " + word), table.numbers(MAIN[name]), table.numbers("Max " + word)):
                    # Two decimals each: the mean may be rounded up past the maximum's rounding.
                    self.assertLessEqual(low, mean + 0.01)
                    self.assertLessEqual(mean, high + 0.01)

    def test_full_of_collectives_has_bandwidths(self):
        factors = {"broadcast": (1, 1), "allgather": (4, 0.75), "allreduce": (1, 1.5)}  # at 4 ranks
        for name in SIZED_COLLECTIVES:
            result, bus = factors[name]
            with self.subTest(program=name):
                table = table_of(name, *SHORT, "-m", "262144:262144", "-f", ranks=4)
                time, algorithm = table.numbers("Avg Latency(us)")[0], table.numbers("Alg BW(MB/s)")[0]
                self.assertAlmostEqual(algorithm * time / (262144 * result), 1, delta=0.01)
                self.assertAlmostEqual(table.numbers("Bus BW(MB/s)")[0] / algorithm, bus, delta=0.01)
                self.assertNotIn("Alg BW(MB/s)", table_of(name, *SHORT, *SMALL).titles)

    def test_tail(self):
        for name in MEASURING:
            with self.subTest(program=name):
                table = table_of(name, *args_for(name), "-z")
                p50, p90, p99 = (table.numbers(f"P{percent} Tail {unit(name)}") for percent in (50, 90, 99))
                for low, middle, high in zip(p50, p90, p99):
                    self.assertTrue(low <= middle <= high)

    def test_validation(self):
        for name in MEASURING:
            for ranks, nodes in ((4, 1), (2, 2), (3, 2)):
                with self.subTest(program=name, ranks=ranks, nodes=nodes):
                    self.assertEqual(set(table_of(name, *args_for(name), "-c", ranks=ranks, nodes=nodes).column("Validation")),
                                     {"Pass"})

    def test_large_data_validate(self):
        for name in SIZED:
            for place in ("window", "private"):
                with self.subTest(program=name, place=place):
                    table = table_of(name, "-i", "3", "-x", "0", "-m", "65535:262140", "-c", "-b", place)
                    self.assertEqual(table.column("Validation"), ["Pass"] * 3)

    def test_all_together_stand_in_order(self):
        table = table_of("allreduce", *SHORT, *SMALL, "-f", "-c", "-z", "--fresh")
        self.assertEqual(table.titles, ["Size", "Avg Latency(us)", "Min Latency(us)", "Max Latency(us)", "Iterations", "Validation",
                                        "P50 Tail Lat(us)", "P90 Tail Lat(us)", "P99 Tail Lat(us)", "Alg BW(MB/s)", "Bus BW(MB/s)",
                                        "Fresh Inside(us)"])


class Data(unittest.TestCase):
    def test_place(self):
        for name in WITH_DATA:
            for place in ("window", "private"):
                with self.subTest(program=name, place=place):
                    table = table_of(name, *args_for(name), "-b", place, "-c")
                    self.assertEqual(table.note("Buffers"), place)
                    self.assertEqual(set(table.column("Validation")), {"Pass"})
            self.assertEqual(table_of(name, *SHORT, *SMALL).note("Buffers"), "window")

    def test_fresh_gives_two_figures(self):
        for name in WITH_DATA:
            with self.subTest(program=name):
                table = table_of(name, "-i", "20", "-x", "2", "-m", "262144:262144", "--fresh")
                outside = table.numbers(MAIN[name])[0]
                title = "Fresh Inside(MB/s)" if name in BANDWIDTH else "Fresh Inside(us)"
                inside = table.numbers(title)[0]
                self.assertGreater(inside, 0)
                if name in TRANSFERS:  # the same iterations: exactly the time with the data is added
                    self.assertTrue(inside < outside if name in BANDWIDTH else inside > outside, (outside, inside))

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "ranks that share a core wait for it in both forms")
    def test_fresh_of_collectives_costs_more_inside(self):
        for name in SIZED_COLLECTIVES:
            with self.subTest(program=name):
                outside, inside = [], []
                # The least of each: a rank that loses its core meets one form only. Other tests may share the cores.
                for runs in range(40):
                    # To write or read 1 MiB takes tens of us.
                    if runs >= 8 and min(inside) > min(outside) + 10:
                        break
                    table = table_of(name, "-i", "10", "-x", "2", "-m", "1048576:1048576", "--fresh",
                                     launcher=["--bind-to", "core"])
                    outside += table.numbers(MAIN[name])
                    inside += table.numbers("Fresh Inside(us)")
                self.assertGreater(min(inside), min(outside) + 10, (outside, inside))

    def test_validation_says_that_it_changes_what_is_measured(self):
        for name in ("put_latency", "allreduce"):
            said = [line for line in table_of(name, *SHORT, *SMALL, "-c").comments if line.startswith("# Validation: ")]
            self.assertEqual(len(said), 1)
            self.assertNotIn("# Validation: ", output(name, *SHORT, *SMALL))

    def test_window_size(self):
        for name in BANDWIDTH:
            with self.subTest(program=name):
                for size in ("1", "5", "200"):
                    table = table_of(name, *SHORT, *SMALL, "-W", size, "-c")
                    self.assertEqual(set(table.column("Validation")), {"Pass"})
                values = json.loads(output(name, *SHORT, *SMALL, "-W", "5", "--json"))
                self.assertEqual(values["window_size"], 5)
        self.assertIn("[ window size: 5 ]", output("put_mr", *SHORT, *SMALL, "-W", "5"))

    def test_in_place(self):
        for name in ("allreduce", "allgather"):
            for place in ("window", "private"):
                with self.subTest(program=name, place=place):
                    table = table_of(name, *SHORT, "-m", "8:262144", "-l", "-c", "-b", place, ranks=4)
                    self.assertEqual(table.note("In place"), "yes")
                    self.assertEqual(set(table.column("Validation")), {"Pass"})

    def test_types_of_allreduce(self):
        for dtype in DTYPES:
            with self.subTest(dtype=dtype):
                table = table_of("allreduce", *SHORT, "-m", "4096:16384", "-t", dtype, "-c", ranks=3)
                self.assertEqual(table.note("Datatype"), dtype)
                self.assertEqual(set(table.column("Validation")), {"Pass"})

    def test_operations_of_allreduce(self):
        for operation in OPERATIONS:
            for dtype in ["i8"] + (["bf16"] if operation in OPERATIONS[:5] else []):
                with self.subTest(operation=operation, dtype=dtype):
                    table = table_of("allreduce", *SHORT, "-m", "8192", "-o", operation, "-t", dtype, "-c", ranks=3)
                    self.assertEqual(table.note("Op"), operation)
                    self.assertEqual(set(table.column("Validation")), {"Pass"})

    def test_types_and_operations_of_atomics(self):
        for dtype in ("i32", "u32", "i64", "u64"):
            with self.subTest(dtype=dtype):
                self.assertEqual(set(table_of("atomics", *SHORT, "-t", dtype, "-c").column("Validation")), {"Pass"})
        self.assertEqual(table_of("atomics", *SHORT, "-o", "compare_swap").column("Operation"), ["compare_swap"])


class SeveralTimedRanks(unittest.TestCase):
    def spans(self, name, ranks):
        """Of one iteration each: the repeats' minimum is their maximum."""
        rows = json.loads(output(name, "-i", "1", "-x", "0", "-m", "1024:65536", "-f", "--json", ranks=ranks))["rows"]
        return [row["max_mb_s"] - row["min_mb_s"] for row in rows]

    def test_minimum_and_maximum_are_those_of_the_ranks(self):
        self.assertTrue(any(span > 0 for span in self.spans("put_mr", 4)))
        self.assertTrue(any(span > 0 for span in self.spans("put_bibw", 2)))
        self.assertEqual(set(self.spans("put_bw", 2)), {0.0})


class OtherForms(unittest.TestCase):
    def test_json(self):
        for name in MEASURING:
            with self.subTest(program=name):
                values = json.loads(output(name, *args_for(name), "-f", "-c", "--json"))
                self.assertEqual((values["program"], values["ranks"], values["nodes"]), ("hmc_" + name, 2, 1))
                for row in values["rows"]:
                    self.assertEqual((row["iterations"], row["warmup"], row["validation"]), (4, 1, "Pass"))
                    self.assertGreater(row["mb_s" if name in BANDWIDTH else "avg_us"], 0)
        rows = json.loads(output("allreduce", "-m", "8192:16384", "-x", "3", "--json"))["rows"]
        self.assertEqual([row["warmup"] for row in rows], [3, 3])
        rows = json.loads(output("allreduce", "-m", "8192:16384", "--json"))["rows"]
        self.assertEqual([row["warmup"] for row in rows], [100, 10])  # OSU's rule
        for name in STARTING:
            self.assertEqual(json.loads(output(name, "--json"))["ranks"], 2)

    def test_csv(self):
        for name in MEASURING:
            with self.subTest(program=name):
                rows = list(csv.DictReader(io.StringIO(output(name, *args_for(name), "-f", "-c", "--csv"))))
                self.assertTrue(rows)
                for row in rows:
                    self.assertEqual((row["iterations"], row["validation"]), ("4", "Pass"))
                    self.assertEqual((row["wire"], row["ranks"], row["nodes"]), ("shm", "2", "1"))
                    self.assertNotIn(None, row)  # no more values than keys
        row = next(csv.DictReader(io.StringIO(output("allreduce", *SHORT, "-m", "8:8", "-t", "f64", "-b", "private", "--csv",
                                                     ranks=4, nodes=2))))
        self.assertEqual((row["wire"], row["dtype"], row["buffers"]), ("shm, tcp", "f64", "private"))
        rows = list(csv.DictReader(io.StringIO(output("init", "--csv"))))
        self.assertEqual(rows[0]["ranks"], "2")

    def on_a_terminal(self, command):
        """What stderr shows on a terminal, and stdout's text in a pipe."""
        terminal, side = pty.openpty()
        with os.fdopen(terminal, "rb", buffering=0) as screen:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=side, timeout=60, check=True, text=True)
            os.set_blocking(terminal, False)
            shown = screen.read(1 << 16) or b""
            os.close(side)
        return shown.decode(), done.stdout

    def long_enough(self, words, iterations):
        """The first run that is long enough to show something: a fast machine needs more iterations for it."""
        for _ in range(6):
            called = [*words, "-i", str(iterations), "-x", "0"]
            shown, stdout = self.on_a_terminal(called)
            if shown:
                return called, shown, stdout
            iterations *= 2
        self.fail(f"{iterations} iterations, and nothing was shown")

    def test_progress_of_transfers(self):
        for more in ([], ["-f"]):  # one clock around all, a clock around each
            words = command("put_latency", "-m", "65536:65536", *more)
            _, shown, stdout = self.long_enough(words, 100_000)
            self.assertRegex(shown, r"\rhmc_put_latency: 65536 bytes: \d+ %")
            self.assertTrue(shown.endswith("\r\x1b[K"), shown[-20:])
            self.assertEqual(len(Table(stdout).rows), 1)

    def test_progress_on_a_terminal_only(self):
        called, shown, stdout = self.long_enough([program("allreduce"), "-m", "65536:65536"], 500_000)
        self.assertRegex(shown, r"\rhmc_allreduce: 65536 bytes: \d+ %")
        self.assertTrue(shown.endswith("\r\x1b[K"), shown[-20:])  # nothing stays
        self.assertNotIn("\r", stdout)
        piped = subprocess.run(called, capture_output=True, timeout=60, check=True, text=True)
        self.assertEqual(piped.stderr, "")

    def test_a_short_run_shows_no_progress(self):
        self.assertEqual(self.on_a_terminal([program("allreduce"), *SHORT, *SMALL])[0], "")


class WrongUse(unittest.TestCase):
    def check_refused(self, name, *args, ranks=2):
        done = launch(name, *args, ranks=ranks)
        self.assertEqual(done.returncode, 2, (name, args, done.stderr))
        self.assertEqual(done.stdout, "")
        return [line for line in done.stderr.splitlines() if not line.startswith("hmcrun:")]

    def test_flags_that_a_program_lacks(self):
        for name, flag in (("barrier", "-m"), ("broadcast", "-W"), ("put_bw", "-l"), ("broadcast", "-o"), ("hello", "-i")):
            with self.subTest(program=name, flag=flag):
                self.assertTrue(self.check_refused(name, flag, "4"))

    def test_values_that_make_no_sense(self):
        for args in (["-m", "8:4"], ["-m", "x"], ["-m", "0"], ["-i", "0"], ["-x", "-1"], ["-t", "f99"], ["-o", "mean"],
                     ["-b", "gpu"], ["--json", "--csv"]):
            with self.subTest(args=args):
                self.assertTrue(self.check_refused("allreduce", *args))
        self.assertTrue(self.check_refused("put_bw", "-W", "0"))

    def test_one_rank_speaks_for_all(self):
        self.assertEqual(sum("--foo" in line for line in self.check_refused("allreduce", "--foo", ranks=4)), 1)

    def test_transfers_need_two_ranks(self):
        for name in TRANSFERS + ["atomics"]:
            with self.subTest(program=name):
                self.assertRegex("".join(self.check_refused(name, ranks=1)), "needs at least 2 ranks")


if __name__ == "__main__":
    unittest.main()
