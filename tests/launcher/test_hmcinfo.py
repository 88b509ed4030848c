"""hmcinfo's output as text and as JSON."""

import json
import os
import subprocess
import tempfile

from common import HMCINFO, LauncherTest, main


def info(*words, **variables):
    return subprocess.run([HMCINFO, *words], env=dict(os.environ, **variables), capture_output=True, text=True,
                          timeout=30)


class Info(LauncherTest):
    def setUp(self):
        self.facts = json.loads(info("--json").stdout)

    def test_version(self):
        self.assertRegex(self.facts["version"], r"^\d+\.\d+\.\d+$")
        self.assertIn(self.facts["version"], info("--version").stdout)

    def test_build(self):
        self.assertTrue(self.facts["build"]["compiler"])
        self.assertTrue(any(feature.startswith("hwloc") for feature in self.facts["build"]["features"]))

    def test_machine(self):
        self.assertGreaterEqual(self.facts["machine"]["cores"], 1)
        self.assertGreaterEqual(self.facts["machine"]["numa_nodes"], 1)

    def test_wires_are_available_or_have_a_reason(self):
        wires = {wire["name"]: wire for wire in self.facts["wires"]}
        self.assertTrue(wires["shm"]["available"])
        self.assertTrue(wires["tcp"]["available"])
        self.assertIn("ucx", wires)
        self.assertTrue(all(wire["available"] or wire["why"] for wire in wires.values()))

    def test_memory_providers(self):
        self.assertTrue(any(provider["available"] for provider in self.facts["memory"]))

    def test_launchers_have_a_reason(self):
        self.assertTrue(all(launcher["why"] for launcher in self.facts["launchers"]))
        self.assertEqual([launcher["name"] for launcher in self.facts["launchers"] if launcher["available"]], ["alone"])

    def test_every_variable_with_its_meaning(self):
        variables = {variable["name"]: variable for variable in self.facts["environment"]}
        for name in ("HMC_RANK", "HMC_SIZE", "HMC_STORE", "HMC_SECRET", "HMC_TRANSPORT", "HMC_LOG", "HMC_TIMEOUT_S"):
            self.assertTrue(variables[name]["meaning"])

    def test_present_values(self):
        facts = json.loads(info("--json", HMC_LOG="debug").stdout)
        values = {variable["name"]: variable["value"] for variable in facts["environment"]}
        self.assertEqual((values["HMC_LOG"], values["HMC_TRANSPORT"]), ("debug", None))
        self.assertIn("= debug", info(HMC_LOG="debug").stdout)

    def test_the_secret_is_not_shown(self):
        secret = "ab" * 32
        for words in ([], ["--json"]):
            self.assertNotIn(secret, info(*words, HMC_SECRET=secret).stdout)

    def test_a_wrong_value_is_reported(self):
        done = info("--json", HMC_LOG="loud")
        self.assertEqual(done.returncode, 0)
        self.assertIn("HMC_LOG", json.loads(done.stdout)["environment_error"])
        self.assertIn("HMC_LOG='loud'", info(HMC_LOG="loud").stdout)

    def test_text_has_every_section(self):
        text = info().stdout
        for word in ("HMC ", "build", "features", "machine", "wires", "memory", "launchers", "environment", "HMC_RANK"):
            self.assertIn(word, text)


class Explain(LauncherTest):
    def explain(self, *words, **variables):
        variables.setdefault("HMC_CACHE", "off")
        result = info("explain", *words, "--json", **variables)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_the_cheapest_candidate_is_chosen(self):
        facts = self.explain("allreduce", "1M", "--ranks", "64", "--per-node", "8")
        able = [each for each in facts["candidates"] if not each["why_not"]]
        self.assertEqual(facts["chosen"], min(able, key=lambda each: each["microseconds"])["algorithm"])
        self.assertEqual((facts["bytes"], facts["why"]), (1 << 20, "the cheapest by the model"))
        self.assertIn("hierarchical_halving", [each["algorithm"] for each in able])

    def test_an_algorithm_that_does_not_apply_has_a_reason(self):
        facts = self.explain("allreduce", "8", "--ranks", "4", HMC_DETERMINISTIC="1")
        reasons = {each["algorithm"]: each["why_not"] for each in facts["candidates"]}
        self.assertTrue(reasons["ring"])
        self.assertFalse(reasons["fold_slices"])

    def test_the_origin_of_the_choice(self):
        self.assertEqual(self.explain("allreduce", "8", HMC_COLL="allreduce:ring")["why"], "forced by HMC_COLL")
        with tempfile.NamedTemporaryFile("w", suffix=".json") as rows:
            rows.write('[{"collective": "scan", "algorithm": "fold"}, {"collective": "allreduce", "algorithm": "swing"}]')
            rows.flush()
            facts = self.explain("allreduce", "8", HMC_COLL_FILE=rows.name)
            self.assertEqual((facts["chosen"], facts["why"]), ("swing", "row 2 of HMC_COLL_FILE"))

    def test_one_node_uses_load_and_store(self):
        self.assertTrue(self.explain("allreduce", "8", "--ranks", "4", "--per-node", "4")["direct"])
        self.assertFalse(self.explain("allreduce", "8", "--ranks", "4", "--per-node", "4",
                                      HMC_COLL="allreduce:ring")["direct"])
        self.assertFalse(self.explain("allreduce", "8", "--ranks", "4", "--per-node", "2")["direct"])

    def test_parameters_change_the_answer(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as figures:
            link = {"latency_ns": 1, "overhead_ns": 1, "gap_ns": 0, "byte_ns": 100}
            json.dump({"hmc_model": 2, "machine": "", "wire": "", "one_machine": False, "node": link, "network": link,
                       "copy_byte_ns": 0.01, "reduce_byte_ns": 0.01, "cores": 0}, figures)
            figures.flush()
            facts = self.explain("allreduce", "64K", "--ranks", "16", "--parameters", figures.name)
            self.assertNotIn(facts["chosen"], ("recursive_doubling", "recursive_multiplying"))
            self.assertEqual(facts["parameters"], figures.name)

    def test_text(self):
        text = info("explain", "broadcast", "64K", "--ranks", "8", HMC_CACHE="off").stdout
        self.assertRegex(text, r"(?m)^chosen +\w+: the cheapest by the model$")
        self.assertRegex(text, r"(?m)^\* \w+ +[\d.]+")

    def test_mistakes_are_reported(self):
        for status, words in ((2, ["nothing", "8"]), (2, ["allreduce", "8", "--type", "f31"]),
                              (2, ["allreduce", "8", "--ranks", "0"]),
                              (1, ["allreduce", "8", "--parameters", "/nowhere"])):
            result = info("explain", *words, HMC_CACHE="off")
            self.assertEqual(result.returncode, status, words)
            self.assertIn("hmcinfo: ", result.stderr)

main()
