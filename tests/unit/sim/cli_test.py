#!/usr/bin/python3
"""hmc-sim as its users meet it. Usage: cli_test.py PROGRAM"""
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

PROGRAM = sys.argv.pop(1)
# More than ten times what an idle machine takes; sanitizers are as much slower.
MILLION_RANKS_S = float(os.environ.get("MILLION_RANKS_S", "60"))


def run(*words, code=0):
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stdout + done.stderr


def document(*words):
    return json.loads(run(*words, "--json"))


def times(survey):
    return {line["name"]: line["us"] for line in survey["algorithms"]}


def children_cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class HmcSim(unittest.TestCase):
    def test_prints_a_table_with_all_algorithms_and_both_libraries(self):
        out = run("allreduce", "--bytes", "1M", "--ranks", "256", "--per-node", "8", "--algorithms", "all")
        self.assertTrue(out.startswith("allreduce of 1M on 256 ranks, 8 per node\n"), out)
        for word in ("ring", "rabenseifner", "recursive_doubling", "open mpi: ", "mpich: "):
            self.assertIn(word, out)

    def test_prints_the_same_twice(self):
        words = ("alltoall", "--bytes", "256", "--ranks", "100", "--per-node", "8", "--fat-tree", "--leaf-nodes", "2")
        self.assertEqual(run(*words), run(*words))

    def test_a_dissemination_barrier_is_rounds_of_l_plus_2o(self):
        survey = document("barrier", "--ranks", "1000", "--network-L", "2000", "--network-o", "250")["surveys"][0]
        self.assertAlmostEqual(times(survey)["dissemination"], 10 * 2.5)

    def test_takes_lists(self):
        surveys = document("broadcast", "--bytes", "8,4K", "--ranks", "4,16", "--algorithms", "binomial")["surveys"]
        self.assertEqual([(s["ranks"], s["bytes"]) for s in surveys], [(4, 8), (4, 4096), (16, 8), (16, 4096)])
        self.assertEqual([list(times(s)) for s in surveys], [["binomial"]] * 4)

    def test_oversubscription_costs(self):
        words = ("alltoall", "--bytes", "64K", "--ranks", "64", "--algorithms", "pairwise", "--copy", "0", "--fat-tree",
                 "--leaf-nodes", "8")
        one, four = (times(document(*words, "--oversubscription", n)["surveys"][0])["pairwise"] for n in ("1", "4"))
        self.assertGreater(four, 1.5 * one)

    def test_plots_over_bytes_or_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "plot.svg"
            run("allreduce", "--ranks", "64", "--per-node", "8", "--plot", str(file))
            svg = file.read_text(encoding="utf-8")
            xml.etree.ElementTree.fromstring(svg)
            self.assertIn("predicted microseconds over bytes", svg)
            self.assertIn(">mpich<", svg)
            run("barrier", "--ranks", "16,256,4K", "--plot", str(file))
            svg = file.read_text(encoding="utf-8")
            xml.etree.ElementTree.fromstring(svg)
            self.assertIn("predicted microseconds over ranks", svg)
            self.assertEqual(len(re.findall(r'class="curve"[^>]*d="M[^"]*L[^"]*L', svg)), 4)  # two of ours, two libraries

    def test_a_million_ranks(self):
        begin = children_cpu_s()
        out = run("allreduce", "--bytes", "8", "--ranks", "1000000", "--per-node", "8", "--algorithms",
                  "recursive_doubling")
        self.assertIn("1000000 ranks", out)
        self.assertNotIn("~", out)
        self.assertLess(children_cpu_s() - begin, MILLION_RANKS_S)
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 4 << 20)  # KiB

    def test_measures_a_model_that_it_takes(self):
        flags = run("--measure").split()
        self.assertEqual(flags[::2], [f"--node-{letter}" for letter in "LogG"] + ["--copy", "--reduce"] +
                         [f"--network-{letter}" for letter in "LogG"])
        self.assertTrue(all(float(value) >= 0 for value in flags[1::2]), flags)
        self.assertIn("dissemination", run("barrier", "--per-node", "8", *flags))

    def test_says_what_is_wrong(self):
        self.assertIn("is no collective", run("allredeuce", code=1))
        self.assertIn("is no number", run("allreduce", "--bytes", "1X", code=1))
        self.assertIn("no algorithm of that name", run("allreduce", "--algorithms", "magic", code=1))
        self.assertIn("can't write", run("barrier", "--plot", "/nowhere/plot.svg", code=1))


if __name__ == "__main__":
    unittest.main()
