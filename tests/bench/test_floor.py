#!/usr/bin/python3
"""hmc_floor runs, and every row has a limit. Whether limits are met isn't tested, since load changes times."""
import os
import re
import subprocess
import unittest
from pathlib import Path

FLOOR = Path(os.environ["HMC_BIN"]) / "bench" / "hmc_floor"
ROW = re.compile(r"\| (?P<name>\S.*?) +\| +[\d.]+ [nu]s \| +[\d.]+ [nu]s \| +[\d.]+ \| +[\d.]+ "
                 r"\| (?:<= [\d.]+|[+-][\d.]+ ns of \+\d+)  (?P<verdict>ok|MISSED)$")
COPIES = [f"{verb} {size}" for size in ("4 KiB", "4 KiB, moving", "64 KiB, moving", "1 MiB, moving", "4 MiB, moving")
          for verb in ("put", "get")]
ALLREDUCES = [f"allreduce {size}, {where}" for where in ("windows", "private") for size in ("64 KiB", "1 MiB", "4 MiB", "16 MiB")]
SMALL = ["barrier", "allreduce 8 B"]


class Floor(unittest.TestCase):
    def check_run(self, names, *args):
        done = subprocess.run([FLOOR, "--rounds", "1", "--check", *args], capture_output=True, text=True, timeout=200, check=False)
        self.assertEqual(done.stderr, "")
        lines = [line for line in done.stdout.splitlines() if line.startswith("| ")][1:]
        rows = [ROW.match(line) for line in lines]
        self.assertNotIn(None, rows, lines)
        self.assertEqual([row["name"] for row in rows], names)
        self.assertEqual(done.returncode, int(any(row["verdict"] == "MISSED" for row in rows)), done.stdout)

    def test_every_row_has_a_limit(self):
        self.check_run(["put 8 B", *COPIES, "ping-pong 8 B", *SMALL, *ALLREDUCES])

    def test_with_new_data_in_each_call(self):
        self.check_run(["allreduce 64 KiB, windows", "allreduce 64 KiB, private"], "--fresh", "--filter", "allreduce 64 KiB")

    def test_more_ranks(self):
        self.check_run(SMALL, "-n", "3")


if __name__ == "__main__":
    unittest.main()
