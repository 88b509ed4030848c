#!/usr/bin/python3
"""A wrong result gives no time and a non-zero status: --corrupt SIZE flips a bit of a result before the check."""
import csv
import io
import json
import subprocess
import unittest

from osu_format import Table, check_columns
from programs import ATOMICS, BARRIERS, MEASURING, SHORT, SIZED, launch, main, program

ROWS = ["-m", "16:64"]


def failed(name, *args, ranks=2, nodes=1):
    done = launch(name, *SHORT, "-c", *args, ranks=ranks, nodes=nodes)
    assert done.returncode == 1, (name, args, done.returncode, done.stdout, done.stderr)
    return done.stdout


class Validation(unittest.TestCase):
    def check_table(self, table, bad):
        """`bad`: the first words of the rows that failed; None: all of them."""
        check_columns(table)
        for row, verdict in zip(table.rows, table.column("Validation"), strict=True):
            named = ("Size", "Operation", "Iterations", "Validation")
            numbers = [word for title, word in zip(table.titles, row) if title not in named]
            self.assertTrue(numbers)
            if bad is None or row[0] in bad:
                self.assertEqual((set(numbers), verdict), ({"-"}, "Fail"))
            else:
                self.assertEqual(("-" in numbers, verdict), (False, "Pass"))

    def test_every_program_detects_a_wrong_bit(self):
        for name in MEASURING:
            for ranks, nodes in ((3, 1), (4, 2)):
                with self.subTest(program=name, ranks=ranks, nodes=nodes):
                    if name in SIZED:
                        table = Table(failed(name, *ROWS, "--corrupt", "32", ranks=ranks, nodes=nodes))
                        self.assertEqual(table.column("Size"), ["16", "32", "64"])
                        self.check_table(table, {"32"})
                    else:
                        size = "0" if name in BARRIERS else "8"
                        self.check_table(Table(failed(name, "--corrupt", size, ranks=ranks, nodes=nodes)), None)

    def test_each_atomic_detects_it(self):
        for dtype, size in (("i64", "8"), ("u32", "4")):
            table = Table(failed("atomics", "-t", dtype, "--corrupt", size))
            self.assertEqual(table.column("Validation"), ["Fail"] * 12)
        self.assertEqual(launch("atomics", *SHORT, "-c", "-t", "i64", "--corrupt", "4").returncode, 0)

    def test_with_every_column(self):
        for name in ("put_mr", "get_bw", "allgather", "ireduce"):
            with self.subTest(program=name):
                self.check_table(Table(failed(name, *ROWS, "-f", "-z", "--fresh", "--corrupt", "64")), {"64"})
        for name in ATOMICS + BARRIERS:
            with self.subTest(program=name):
                size = "0" if name in BARRIERS else "8"
                self.check_table(Table(failed(name, "-f", "-z", "--corrupt", size)), None)

    def test_in_place(self):
        for name in ("gather", "scatter", "alltoall", "reduce", "exscan", "iallreduce"):
            with self.subTest(program=name):
                self.check_table(Table(failed(name, *ROWS, "-l", "--corrupt", "32", ranks=3)), {"32"})

    def test_fresh_alone_checks_too(self):
        done = launch("put_latency", *SHORT, *ROWS, "--fresh", "--corrupt", "32")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(Table(done.stdout).numbers("Size"), [16, 32, 64])
        self.assertEqual(Table(done.stdout).rows[1], ["32", "-", "-"])

    def test_without_a_check_is_refused(self):
        for name in MEASURING:
            with self.subTest(program=name):
                done = subprocess.run([program(name), "--corrupt", "32"], capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn("--corrupt", done.stderr)

    def test_other_forms(self):
        rows = json.loads(failed("allreduce", *ROWS, "--corrupt", "32", "--json"))["rows"]
        self.assertEqual([(row["avg_us"] is None, row["validation"]) for row in rows],
                         [(False, "Pass"), (True, "Fail"), (False, "Pass")])
        rows = list(csv.DictReader(io.StringIO(failed("allreduce", *ROWS, "--corrupt", "32", "--csv"))))
        self.assertEqual([(row["avg_us"] == "", row["validation"]) for row in rows],
                         [(False, "Pass"), (True, "Fail"), (False, "Pass")])


if __name__ == "__main__":
    main(2)
