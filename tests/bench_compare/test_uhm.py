"""./dev bench --uhm on the fake of CUDA's driver: few sizes, on a node and between two."""

import contextlib
import csv
import io
import os
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

from support import ROOT  # noqa: F401: adds the driver to the path
from driver import uhm

BUILD = sys.argv.pop(1)
SIZES = (65536, 400_004, 4 << 20)


def run(*words):
    """The exit code, standard output, standard error, and the files by name."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out, \
            contextlib.redirect_stderr(io.StringIO()) as err:
        code = uhm.main(["--rounds", "3", "--output", folder, *words], BUILD)
        files = {}
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                files[name] = file.read()
    return code, out.getvalue(), err.getvalue(), files


def short(*words):
    # Chunks of 100 kB, of which three are in flight: the last one is shorter, and slots are used again.
    return run("--memory", "fake", "--chunk", "100000", "--in-flight", "3", *words,
               *(word for size in SIZES for word in ("--size", str(size))))


class Uhm(unittest.TestCase):
    def check(self, code, out, err, files):
        self.assertEqual((code, err), (0, ""), out)
        rows = list(csv.reader(io.StringIO(files["uhm.csv"])))
        self.assertEqual(rows[0], ["Mode", "Data Size (MB)", "Time(us)", "Bandwidth(Gbps)"])
        self.assertEqual([row[:2] for row in rows[1:]], [[mode, f"{size / 2**20:g}"] for mode in uhm.MODES for size in SIZES])
        for _, megabytes, us, bandwidth in rows[1:]:
            # Times have one decimal.
            self.assertAlmostEqual(float(us), float(megabytes) * 2**20 * 8 / float(bandwidth) / 1e3, delta=0.06 + 0.001 * float(us))
        ElementTree.fromstring(files["uhm.svg"])
        self.assertIn("From device to device (fake driver)", files["uhm.svg"])
        self.assertEqual(files["uhm.svg"].count("<polyline"), len(uhm.MODES))

    def test_modes_have_times_on_a_node(self):
        code, out, err, files = short("--nodes", "1")
        self.check(code, out, err, files)
        self.assertIn("one node; device memory: a fake of CUDA's driver", out)
        self.assertIn("to its host memory: shm", out)

    def test_modes_have_times_between_nodes(self):
        code, out, err, files = short("--nodes", "2")
        self.check(code, out, err, files)
        self.assertIn("to its host memory: tcp", out)

    def test_ratios_are_those_of_the_rounds(self):
        times = {65536: {mode: {1: 10.0 * k, 2: 20.0 * k, 3: 40.0 * k} for k, mode in enumerate(uhm.MODES, 1)}}
        line = uhm.table(times, 3).splitlines()[1].split()
        self.assertEqual(line[:7], ["64K", "20.0", "40.0", "60.0", "80.0", "100.0", "26.2"])
        self.assertEqual(line[7:], ["2.00", "3.00", "4.00", "5.00"])

    def test_failure_is_reported(self):
        code, out, err, _ = run("--memory", "fake", "--size", "65537", "--size", "65536")
        self.assertEqual(code, 1)
        self.assertIn("65537: exit", err)
        self.assertIn("64K", out)


if __name__ == "__main__":
    unittest.main()
