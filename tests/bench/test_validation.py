#!/usr/bin/python3
"""A wrong result gives no number and ends non-zero: --corrupt SIZE spoils the result of one size before it is checked."""
import csv
import io
import json
import unittest

from osu_format import Table, check_columns
from programs import SHORT, SIZED, launch

ROWS = ["-m", "16:64"]


def failed(name, *args, ranks=2, nodes=1):
    done = launch(name, *SHORT, "-c", *args, ranks=ranks, nodes=nodes)
    assert done.returncode == 1, (name, args, done.returncode, done.stdout, done.stderr)
    return done.stdout


class Validation(unittest.TestCase):
    def check_table(self, table, bad):
        check_columns(table)
        for row, verdict in zip(table.rows, table.column("Validation"), strict=True):
            numbers = [word for title, word in zip(table.titles[1:], row[1:]) if title not in ("Iterations", "Validation")]
            if row[0] in bad:
                self.assertEqual((set(numbers), verdict), ({"-"}, "Fail"))
            else:
                self.assertEqual(("-" in numbers, verdict), (False, "Pass"))

    def test_every_sized_program(self):
        for name in SIZED:
            for ranks, nodes in ((2, 1), (4, 1), (2, 2)):
                with self.subTest(program=name, ranks=ranks, nodes=nodes):
                    table = Table(failed(name, *ROWS, "--corrupt", "32", ranks=ranks, nodes=nodes))
                    self.assertEqual(table.column("Size"), ["16", "32", "64"])
                    self.check_table(table, {"32"})

    def test_with_every_column(self):
        for name in ("put_mr", "get_bw", "allgather"):
            with self.subTest(program=name):
                self.check_table(Table(failed(name, *ROWS, "-f", "-z", "--fresh", "--corrupt", "64")), {"64"})

    def test_barrier(self):
        table = Table(failed("barrier", "--corrupt", "0", ranks=4))
        check_columns(table)
        self.assertEqual(table.rows, [["-", "Fail"]])

    def test_atomics(self):
        table = Table(failed("atomics", "--corrupt", "8"))
        check_columns(table)
        self.assertEqual(table.column("Validation"), ["Fail"] * 12)
        self.assertEqual(set(table.column("Latency (us)")), {"-"})

    def test_fresh_alone_looks_too(self):
        done = launch("put_latency", *SHORT, *ROWS, "--fresh", "--corrupt", "32")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(Table(done.stdout).numbers("Size"), [16, 32, 64])
        self.assertEqual(Table(done.stdout).rows[1], ["32", "-", "-"])

    def test_other_forms(self):
        rows = json.loads(failed("allreduce", *ROWS, "--corrupt", "32", "--json"))["rows"]
        self.assertEqual([(row["avg_us"] is None, row["validation"]) for row in rows],
                         [(False, "Pass"), (True, "Fail"), (False, "Pass")])
        rows = list(csv.DictReader(io.StringIO(failed("allreduce", *ROWS, "--corrupt", "32", "--csv"))))
        self.assertEqual([(row["avg_us"] == "", row["validation"]) for row in rows],
                         [(False, "Pass"), (True, "Fail"), (False, "Pass")])


if __name__ == "__main__":
    unittest.main()
