#!/usr/bin/python3
"""hmc-sim's command line. Usage: cli_test.py PROGRAM"""
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
HMCINFO = Path(PROGRAM).with_name("hmcinfo")
os.environ["HMC_CACHE"] = "off"  # so that parameters measured on this machine aren't used
# More than ten times the time on an idle machine; sanitizers are as much slower.
MILLION_RANKS_S = float(os.environ.get("MILLION_RANKS_S", "60"))


def run(*words, code=0):
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stdout + done.stderr


def document(*words):
    return json.loads(run(*words, "--json"))


def estimates(survey):
    """Estimates by algorithm, and the library's choice."""
    return ({line["name"]: (line["estimate_us"], line.get("pieces", 1)) for line in survey["algorithms"]
             if "estimate_us" in line}, [line["name"] for line in survey["algorithms"] if line.get("chosen")])


def explained(*words, **environment):
    """The same from hmcinfo explain, and the origin of its parameters."""
    done = subprocess.run([HMCINFO, "explain", *words, "--json"], capture_output=True, text=True, check=True, timeout=30,
                          env={**os.environ, **environment})
    facts = json.loads(done.stdout)
    return ({each["algorithm"]: (each["microseconds"], each["pieces"]) for each in facts["candidates"]
             if not each["why_not"]}, [facts["chosen"]]), facts["parameters"]


def simulated(*words, **environment):
    done = subprocess.run([PROGRAM, *words, "--json"], capture_output=True, text=True, check=True, timeout=120,
                          env={**os.environ, **environment})
    answer = json.loads(done.stdout)
    return estimates(answer["surveys"][0]), answer["parameters"]


def times(survey):
    return {line["name"]: line["us"] for line in survey["algorithms"]}


def children_cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def write_figures(file, machine):
    link = {"latency_ns": 900, "overhead_ns": 210, "gap_ns": 33, "byte_ns": 0.3}
    file.write_text(json.dumps({"hmc_model": 2, "machine": machine, "wire": "tcp", "one_machine": False, "node": link,
                                "network": link, "copy_byte_ns": 0.05, "reduce_byte_ns": 0.07, "cores": 0}),
                    encoding="utf-8")
    return file


class OneModel(unittest.TestCase):
    """hmc-sim and hmcinfo explain give the same answer to the same question."""

    def check(self, collective, size, ranks, per_node, *more, **environment):
        team = ("--ranks", str(ranks), "--per-node", str(per_node), *more)
        simulation = simulated(collective, "--bytes", size, *team, "--most-steps", "2000000", **environment)
        explanation = explained(collective, size, *team, **environment)
        self.assertEqual(simulation, explanation, (collective, size, ranks, per_node))
        self.assertTrue(simulation[0][0])

    def test_with_built_in_parameters(self):
        for collective, size in (("barrier", "0"), ("broadcast", "64K"), ("allreduce", "8"), ("allreduce", "1M"),
                                 ("allreduce", "16M"), ("allgather", "4K"), ("reduce_scatter", "64K"), ("alltoall", "1K"),
                                 ("gather", "100K"), ("scan", "12")):
            for ranks, per_node in ((2, 1), (5, 2), (64, 8)):
                self.check(collective, size, ranks, per_node)

    def test_of_emulated_nodes(self):
        self.check("allreduce", "1M", 8, 4, "--one-machine")

    def test_without_any_option(self):
        self.assertEqual(simulated("allreduce"), explained("allreduce"))
        self.assertEqual(simulated("barrier"), explained("barrier"))

    def test_with_parameters_of_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            file = write_figures(Path(folder) / "figures.json", "another machine")
            self.check("allreduce", "64K", 16, 4, "--parameters", str(file))
            self.assertNotEqual(explained("allreduce", "64K", "--parameters", str(file))[0], explained("allreduce", "64K")[0])

    def test_with_parameters_that_a_job_measured(self):
        with tempfile.TemporaryDirectory() as cache:
            machine = f"{os.uname().nodename}, {os.uname().machine}, {os.sysconf('SC_NPROCESSORS_ONLN')} cpus"
            hashed = 0xcbf29ce484222325  # FNV-1a
            for byte in machine.encode():
                hashed = (hashed ^ byte) * 0x100000001b3 % 2**64
            file = write_figures(Path(cache) / f"model-tcp-{hashed:016x}.json", machine)
            self.check("allreduce", "64K", 16, 4, HMC_CACHE=cache, HMC_TRANSPORT="tcp")
            _, origin = simulated("allreduce", HMC_CACHE=cache, HMC_TRANSPORT="tcp")
            self.assertEqual(origin, f"measured here: {file}")

    def test_with_settings_of_the_environment(self):
        self.check("allreduce", "1M", 16, 4, HMC_DETERMINISTIC="1")
        with tempfile.TemporaryDirectory() as folder:
            rows = Path(folder) / "rows.json"
            rows.write_text('[{"collective": "broadcast", "algorithm": "binomial"}]', encoding="utf-8")
            for collective, environment in (("allreduce", {"HMC_COLL": "allreduce:ring"}),
                                            ("broadcast", {"HMC_COLL_FILE": str(rows)})):
                self.check(collective, "8", 16, 4, **environment)
                chosen = simulated(collective, "--bytes", "8", "--ranks", "16", **environment)[0][1]
                self.assertEqual(chosen, ["ring" if collective == "allreduce" else "binomial"])

    def test_a_prediction_is_not_kept_for_elements_of_another_size(self):
        # 1023 bytes are bytes, 4092 are floats: equal counts.
        both = document("allreduce", "--bytes", "1023,4092", "--ranks", "8")["surveys"]
        alone = document("allreduce", "--bytes", "4092", "--ranks", "8")["surveys"][0]
        self.assertEqual(times(both[1]), times(alone))
        self.assertNotEqual(times(both[0]), times(alone))

    def test_the_replay_is_near_the_estimate(self):
        for collective in ("allreduce", "broadcast"):
            for line in document(collective, "--ranks", "16", "--per-node", "4")["surveys"][0]["algorithms"]:
                if "estimate_us" in line:
                    self.assertTrue(0.4 < line["us"] / line["estimate_us"] < 1.9, line)


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
            self.assertEqual(len(re.findall(r'class="curve"[^>]*d="M[^"]*L[^"]*L', svg)), 4)  # two of HMC, two libraries

    def test_a_million_ranks(self):
        begin = children_cpu_s()
        out = run("allreduce", "--bytes", "8", "--ranks", "1000000", "--per-node", "8", "--algorithms",
                  "recursive_doubling")
        self.assertIn("1000000 ranks", out)
        self.assertNotIn("~", out)
        self.assertLess(children_cpu_s() - begin, MILLION_RANKS_S)
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 4 << 20)  # KiB

    def test_accepts_the_model_that_it_measures(self):
        flags = run("--measure").split()
        self.assertEqual(flags[::2], [f"--node-{letter}" for letter in "LogG"] + ["--copy", "--reduce"] +
                         [f"--network-{letter}" for letter in "LogG"])
        self.assertTrue(all(float(value) >= 0 for value in flags[1::2]), flags)
        self.assertIn("dissemination", run("barrier", "--per-node", "8", *flags))

    def test_reports_mistakes(self):
        for words, what in ((["allredeuce"], "isn't a collective"), (["allreduce", "--bytes", "1X"], "isn't a number"),
                            (["allreduce", "--algorithms", "magic"], "no algorithm of that name"),
                            (["allreduce", "--nonsense"], "--nonsense"), ([], "collective is missing")):
            out = run(*words, code=2)
            self.assertTrue(out.startswith("hmc-sim: "), out)
            self.assertIn(what, out)
            self.assertIn("Usage: hmc-sim [OPTIONS]", out)
        self.assertIn("can't write", run("barrier", "--plot", "/nowhere/plot.svg", code=1))


if __name__ == "__main__":
    unittest.main()
