"""Runs the comparison's smoke mode with this build's contestants, and checks its files."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import support
from driver import plan, results

BUILD = sys.argv.pop(1)


class Smoke(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        run = os.path.join(support.ROOT, "bench", "compare", "run")
        cls.done = subprocess.run([run, "--smoke", "--peers", "all", "--build", BUILD, "--output", cls.folder.name], capture_output=True,
                                  text=True, timeout=280, check=False)
        path = os.path.join(cls.folder.name, "results.json")
        cls.results = {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                cls.results = json.load(file)

    def test_ends_well(self):
        self.assertEqual(self.done.returncode, 0, self.done.stdout + self.done.stderr)

    def test_results_are_valid(self):
        self.assertEqual(results.problems(self.results), [])

    def test_hmc_and_the_bare_loops_have_every_time(self):
        for row in self.results["rows"]:
            reasons = {name: why for name, why in row["missing"].items() if name.startswith(("hmc", "floor"))}
            self.assertEqual(reasons, {}, row)

    def test_every_peer_has_times_or_a_line_that_it_is_absent(self):
        for one in self.results["contestants"]:
            if one["kind"] != "peer":
                continue
            rows = [row for row in self.results["rows"] if one["name"] in row["us"]]
            if one["absent"]:
                self.assertEqual(rows, [])
                self.assertTrue(any(note.startswith(f"{one['label']}: absent") for note in self.results["notes"]))
            else:
                lacked = {"put", "get", "reduce_scatter", "scan", "exscan", *plan.V_FORMS} if one["name"] == "gloo" else set()
                self.assertEqual({row["op"] for row in rows}, {*plan.OPERATIONS, "hello"} - lacked, one["name"])

    def test_all_contestants_run_on_the_same_cpus(self):
        for layout in self.results["layouts"]:
            self.assertLessEqual(len({str(cpus) for cpus in layout["cpus"].values()}), 1, layout["cpus"])

    def test_settings_of_the_network_are_named(self):
        network = next(layout for layout in self.results["layouts"] if layout["nodes"] == 2)["settings"]
        self.assertIn("UCX_TLS=" if os.environ.get("HMC_TRANSPORT") == "ucx" else "TCP sockets", network["hmc-window"])
        for name, word in (("openmpi", "osc=pt2pt"), ("openmpi5", "osc=rdma"), ("mpich", "MPIR_CVAR_NUM_CLIQUES=2"),
                           ("mpich5", "MPIR_CVAR_NUM_CLIQUES=2"), ("intelmpi", "FI_PROVIDER=tcp"), ("hmc-window", "HMC_TCP_CONGESTION=system")):
            self.assertTrue(name not in network or word in network[name], network)

    def test_every_operation_is_there(self):
        self.assertLessEqual({*plan.OPERATIONS, "hello"}, {row["op"] for row in self.results["rows"]})

    def test_hmc_takes_memory_on_a_node_and_tcp_between_nodes(self):
        wires = {layout["name"]: layout["settings"]["hmc-window"] for layout in self.results["layouts"]
                 if "hmc-window" in layout["settings"]}
        self.assertIn("wire shm; window buffers", wires["memory-np2"])
        self.assertIn("wire tcp", wires["network-np2"])

    def test_the_report_is_complete(self):
        with open(os.path.join(self.folder.name, "report.html"), encoding="utf-8") as file:
            page = file.read()
        self.assertTrue(page.startswith("<!DOCTYPE html>") and page.endswith("</body></html>\n"))

    def test_the_table_is_printed_and_progress_is_not(self):
        self.assertIn("allreduce", self.done.stdout)
        self.assertNotIn("\r", self.done.stdout + self.done.stderr)


if __name__ == "__main__":
    unittest.main()
