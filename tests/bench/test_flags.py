#!/usr/bin/python3
"""Every flag, on every program that has it."""
import csv
import io
import json
import os
import pty
import re
import subprocess
import unittest
from pathlib import Path

from osu_format import Table, check_columns
from programs import (ALL, ATOMICS, BANDWIDTH, BLOCKING, IN_PLACE, MAIN, MEASURING, MESSAGE_RATE, NON_BLOCKING, REDUCING,
                      REDUCTIONS, SHORT, SINGLE_ATOMICS, SIZED, SIZED_COLLECTIVES, STARTING, TRANSFERS, alone, both_forms, command,
                      flags_of, launch, linked, listed, main, output, program)

SMALL = ["-m", "64"]
LARGE = ["-i", "2", "-x", "0", "-m", "131064:262140"]
# Of the programs with sizes.
ONE_OF_EACH_KIND = ["put_latency", "get_latency", "put_signal_latency", "acc_latency", "put_bw", "put_bibw", "put_mr", "put_multi_lat",
                    "broadcast", "iallgatherv", "allreduce", "ireduce"]
INTEGERS = ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"]
DTYPES = INTEGERS + ["f16", "bf16", "f32", "f64", "e4m3", "e5m2"]
ARITHMETIC = ["sum", "prod", "min", "max"]  # also defined for a part of the ranks
OPERATIONS = ARITHMETIC + ["avg", "band", "bor", "bxor", "land", "lor"]
FETCHING = ["fetch_add", "fetch_and", "fetch_or", "fetch_xor", "swap", "fetch"]
PREFIXES = both_forms(["scan", "exscan"])


def args_for(name):
    return SHORT + (["-m", "32:64"] if name in SIZED else [])


def table_of(name, *args, **layout):
    table = Table(output(name, *args, **layout))
    check_columns(table)
    return table


def unit(name):
    return "BW(MB/s)" if name in BANDWIDTH else "Lat(us)"


class Programs(unittest.TestCase):
    """The tests loop over programs.py, so a program that isn't listed there would have no test."""

    def test_all_are_listed(self):
        self.assertEqual(sorted(listed()), sorted(ALL))

    def test_all_have_a_link(self):
        self.assertEqual(sorted(linked()), sorted(ALL))

    def test_each_has_its_flags(self):
        for name in ALL:
            with self.subTest(program=name):
                text = alone(name, "--help")
                found = {word.strip() for line in re.findall(r"^  (-[^ ]+)", text, re.M) for word in line.split(",")}
                self.assertEqual(found, flags_of(name))

    def test_each_flag_is_in_the_readme(self):
        readme = (Path(__file__).parents[2] / "bench" / "osu" / "README.md").read_text()
        for flag in set().union(*(flags_of(name) for name in ALL)):
            if len(flag) == 2:
                self.assertRegex(readme, rf"[|`, ]{flag}[|`, ]")
        words = set(re.findall(r"[\w]+", readme))
        for name in ALL:
            base = name[1:] if name in NON_BLOCKING else name
            self.assertIn("hmc_" + base, words)

    def test_the_executable_itself_is_not_a_program(self):
        done = subprocess.run([program("osu"), "-c"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--list", done.stderr)


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
        # One iteration of each size: only the range is tested.
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

    def test_no_warmup(self):
        for name in ("put_latency", "atomics", "barrier", "allreduce", "iallreduce"):
            with self.subTest(program=name):
                rows = json.loads(output(name, "-i", "7", "-x", "0", "-f", *(SMALL if name in SIZED else []), "--json"))["rows"]
                self.assertEqual({(row["iterations"], row["warmup"]) for row in rows}, {(7, 0)})


class Columns(unittest.TestCase):
    def words(self, name):
        """Of minimum, mean and maximum."""
        if name in NON_BLOCKING:
            return "Min Comm.(us)", "Pure Comm.(us)", "Max Comm.(us)"
        word = "BW(MB/s)" if name in BANDWIDTH else "Latency(us)"
        return "Min " + word, MAIN[name], "Max " + word

    def test_full_and_tail(self):
        for name in MEASURING:
            with self.subTest(program=name):
                table = table_of(name, *args_for(name), "-f", "-z")
                for low, mean, high in zip(*(table.numbers(word) for word in self.words(name))):
                    # Two decimals each: the mean may be rounded up past the maximum's rounding.
                    self.assertLessEqual(low, mean + 0.01)
                    self.assertLessEqual(mean, high + 0.01)
                p50, p90, p99 = (table.numbers(f"P{percent} Tail {unit(name)}") for percent in (50, 90, 99))
                for low, middle, high in zip(p50, p90, p99):
                    self.assertTrue(low <= middle <= high)

    def test_tail_alone(self):
        for name in ("put_latency", "put_mr", "cas_latency", "barrier", "allreduce", "iallreduce"):
            with self.subTest(program=name):
                titles = table_of(name, *args_for(name), "-z").titles
                self.assertEqual(titles[-3:], [f"P{percent} Tail {unit(name)}" for percent in (50, 90, 99)])
                self.assertNotIn("Iterations", titles)

    def test_full_of_collectives_has_bandwidths(self):
        ranks = 4
        factors = {"broadcast": (1, 1), "reduce": (1, 1), "scan": (1, 1), "exscan": (1, 1), "allreduce": (1, 1.5)}
        for name in SIZED_COLLECTIVES:
            base = name[1:] if name in NON_BLOCKING else name
            result, bus = factors.get(base, (ranks, 0.75))
            with self.subTest(program=name):
                table = table_of(name, *SHORT, "-m", "65536:65536", "-f", ranks=ranks)
                time, algorithm = table.numbers(self.words(name)[1])[0], table.numbers("Alg BW(MB/s)")[0]
                self.assertAlmostEqual(algorithm * time / (65536 * result), 1, delta=0.01)
                self.assertAlmostEqual(table.numbers("Bus BW(MB/s)")[0] / algorithm, bus, delta=0.01)
        self.assertNotIn("Alg BW(MB/s)", table_of("allreduce", *SHORT, *SMALL).titles)

    def test_validation(self):
        for name in MEASURING:
            # test_validation.py has 3 and 4 ranks.
            with self.subTest(program=name):
                args = LARGE if name in SIZED else SHORT
                self.assertEqual(set(table_of(name, *args, "-c", ranks=5, nodes=2).column("Validation")), {"Pass"})
        for name in BLOCKING + NON_BLOCKING:
            with self.subTest(program=name):
                self.assertEqual(set(table_of(name, *args_for(name), "-c", ranks=1).column("Validation")), {"Pass"})

    def test_all_columns_together_are_in_order(self):
        table = table_of("allreduce", *SHORT, *SMALL, "-f", "-c", "-z", "--fresh")
        self.assertEqual(table.titles, ["Size", "Avg Latency(us)", "Min Latency(us)", "Max Latency(us)", "Iterations", "Validation",
                                        "P50 Tail Lat(us)", "P90 Tail Lat(us)", "P99 Tail Lat(us)", "Alg BW(MB/s)", "Bus BW(MB/s)",
                                        "Fresh Inside(us)"])


class Data(unittest.TestCase):
    def test_place_and_large_data(self):
        for name in SIZED:
            # Columns.test_validation has large data in windows.
            places = ([], ["-b", "private"]) if name in ONE_OF_EACH_KIND else (["-b", "private"],)
            for place in places:
                with self.subTest(program=name, place=place):
                    table = table_of(name, *LARGE, "-c", *place)
                    self.assertEqual(table.note("Buffers"), place[-1] if place else "window")
                    self.assertEqual(table.column("Validation"), ["Pass"] * 2)

    def test_fresh_gives_two_figures(self):
        for name in ONE_OF_EACH_KIND:
            with self.subTest(program=name):
                table = table_of(name, "-i", "10", "-x", "1", "-m", "65536:65536", "--fresh")
                outside = table.numbers(MAIN[name])[0]
                title = "Fresh Inside(MB/s)" if name in BANDWIDTH else "Fresh Inside(us)"
                inside = table.numbers(title)[0]
                self.assertGreater(inside, 0)
                if name in TRANSFERS:  # the same iterations: exactly the time with the data is added
                    self.assertTrue(inside < outside if name in BANDWIDTH else inside > outside, (outside, inside))

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "ranks that share a core wait for it in both forms")
    def test_fresh_of_collectives_costs_more_inside(self):
        for name in ("broadcast", "allgather", "allreduce"):
            with self.subTest(program=name):
                outside, inside = [], []
                # The minimum of each: a rank that loses its core delays only one form. Other tests may share the cores.
                for runs in range(40):
                    # Writing or reading 1 MiB takes tens of us.
                    if runs >= 8 and min(inside) > min(outside) + 10:
                        break
                    table = table_of(name, "-i", "10", "-x", "2", "-m", "1048576:1048576", "--fresh",
                                     launcher=["--bind-to", "core"])
                    outside += table.numbers(MAIN[name])
                    inside += table.numbers("Fresh Inside(us)")
                self.assertGreater(min(inside), min(outside) + 10, (outside, inside))

    def test_validation_prints_that_it_changes_the_times(self):
        for name in ("put_latency", "allreduce"):
            lines = [line for line in table_of(name, *SHORT, *SMALL, "-c").comments if line.startswith("# Validation: ")]
            self.assertEqual(len(lines), 1)
            self.assertNotIn("# Validation: ", output(name, *SHORT, *SMALL))

    def test_window_size(self):
        for name in BANDWIDTH:
            with self.subTest(program=name):
                for size in ("1", "5", "200"):
                    table = table_of(name, *SHORT, *SMALL, "-W", size, "-c")
                    self.assertEqual(set(table.column("Validation")), {"Pass"})
                values = json.loads(output(name, *SHORT, *SMALL, "-W", "5", "--json"))
                self.assertEqual(values["window_size"], 5)
        for name in MESSAGE_RATE:
            self.assertIn("[ window size: 5 ]", output(name, *SHORT, *SMALL, "-W", "5"))

    def test_in_place(self):
        for name in IN_PLACE:
            for place in ("window", "private") if name in BLOCKING else ("window",):
                with self.subTest(program=name, place=place):
                    sizes = "8:262144" if name in ("allgather", "allreduce") else "32768:65536"
                    table = table_of(name, *SHORT, "-m", sizes, "-l", "-c", "-b", place, ranks=4)
                    self.assertEqual(table.note("In place"), "yes")
                    self.assertEqual(set(table.column("Validation")), {"Pass"})

    def check_reduction(self, name, dtype, operation):
        with self.subTest(program=name, dtype=dtype, operation=operation):
            table = table_of(name, *SHORT, "-m", "4096:8192", "-t", dtype, "-o", operation, "-c", ranks=3)
            self.assertEqual((table.note("Datatype"), table.note("Op")), (dtype, operation))
            self.assertEqual(table.column("Validation"), ["Pass"] * 2)

    def test_types_of_reductions(self):
        for dtype in DTYPES:
            self.check_reduction("allreduce", dtype, "sum")
        for i, name in enumerate(REDUCTIONS):  # a few of the other types each, in turn
            for j in range(3):
                self.check_reduction(name, DTYPES[(3 * i + j) % len(DTYPES)], ARITHMETIC[(i + j) % len(ARITHMETIC)])

    def test_operations_of_reductions(self):
        for operation in OPERATIONS:
            self.check_reduction("allreduce", "i8", operation)
        for operation in ARITHMETIC + ["avg"]:
            self.check_reduction("allreduce", "bf16", operation)
        for i, name in enumerate(REDUCTIONS):
            operations = [operation for operation in OPERATIONS if operation != "avg" or name not in PREFIXES]
            for j in range(3):
                self.check_reduction(name, INTEGERS[(i + j) % len(INTEGERS)], operations[(3 * i + j) % len(operations)])

    def test_defaults_of_reductions(self):
        for name in REDUCING:
            with self.subTest(program=name):
                table = table_of(name, *SHORT, *SMALL)
                self.assertEqual((table.note("Datatype"), table.note("Op")), ("f32", "sum"))

    def test_types_and_operations_of_atomics(self):
        for name in ATOMICS:
            for dtype in ("i32", "u32", "i64", "u64"):
                with self.subTest(program=name, dtype=dtype):
                    table = table_of(name, *SHORT, "-t", dtype, "-c")
                    self.assertEqual(set(table.column("Validation")), {"Pass"})
                    if name in SINGLE_ATOMICS:
                        self.assertEqual(table.column("Size"), ["4" if dtype.endswith("32") else "8"])
        for operation in FETCHING:
            with self.subTest(operation=operation):
                table = table_of("fop_latency", *SHORT, "-o", operation, "-c")
                self.assertEqual((table.note("Op"), table.column("Validation")), (operation, ["Pass"]))
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
                    self.assertGreater(row["mb_s" if name in BANDWIDTH else "overall_us" if name in NON_BLOCKING else "avg_us"], 0)
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
        """stderr's output on a terminal, and stdout's in a pipe."""
        terminal, side = pty.openpty()
        with os.fdopen(terminal, "rb", buffering=0) as screen:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=side, timeout=60, check=True, text=True)
            os.set_blocking(terminal, False)
            shown = b""
            while part := screen.read(1 << 16):  # at most 4095 bytes each time
                shown += part
            os.close(side)
        return shown.decode(), done.stdout

    def long_enough(self, words, iterations):
        """The first run that is long enough to show progress: a fast machine needs more iterations."""
        for _ in range(6):
            called = [*words, "-i", str(iterations), "-x", "0"]
            shown, stdout = self.on_a_terminal(called)
            if shown:
                return called, shown, stdout
            iterations *= 2
        self.fail(f"no progress was shown in {iterations} iterations")

    def test_progress_of_transfers(self):
        for more in ([], ["-f"]):  # one timer around all, a timer around each
            words = command("put_latency", "-m", "65536:65536", *more)
            _, shown, stdout = self.long_enough(words, 100_000)
            self.assertRegex(shown, r"\rhmc_put_latency: 65536 bytes: \d+ %")
            self.assertTrue(shown.endswith("\r\x1b[K"), shown[-20:])
            self.assertEqual(len(Table(stdout).rows), 1)

    def test_progress_on_a_terminal_only(self):
        called, shown, stdout = self.long_enough([program("allreduce"), "-m", "65536:65536"], 500_000)
        self.assertRegex(shown, r"\rhmc_allreduce: 65536 bytes: \d+ %")
        self.assertTrue(shown.endswith("\r\x1b[K"), shown[-20:])  # the line is erased
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
        for name, flag in (("barrier", "-m"), ("broadcast", "-W"), ("put_bw", "-l"), ("broadcast", "-o"), ("hello", "-i"),
                           ("broadcast", "-l"), ("gather", "-t"), ("iallgather", "-o"), ("cas_latency", "-o"), ("fop_latency", "-m")):
            with self.subTest(program=name, flag=flag):
                self.assertTrue(self.check_refused(name, flag, "4"))

    def test_invalid_values(self):
        for args in (["-m", "8:4"], ["-m", "x"], ["-m", "0"], ["-i", "0"], ["-x", "-1"], ["-t", "f99"], ["-o", "mean"],
                     ["-b", "gpu"], ["--json", "--csv"]):
            with self.subTest(args=args):
                self.assertTrue(self.check_refused("allreduce", *args))
        self.assertTrue(self.check_refused("put_bw", "-W", "0"))
        for name in PREFIXES:  # an average over some of the ranks isn't defined
            self.assertTrue(self.check_refused(name, "-o", "avg"))
        for operation in ("compare_swap", "add"):
            self.assertTrue(self.check_refused("fop_latency", "-o", operation))

    def test_only_one_rank_prints(self):
        self.assertEqual(sum("--foo" in line for line in self.check_refused("allreduce", "--foo", ranks=4)), 1)

    def test_transfers_need_two_ranks(self):
        for name in TRANSFERS + ATOMICS:
            with self.subTest(program=name):
                self.assertRegex("".join(self.check_refused(name, ranks=1)), "needs at least 2 ranks")


if __name__ == "__main__":
    main(2)
