"""hmcinfo: what it tells, for people and for programs."""

import json
import os
import subprocess

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

    def test_wires_are_here_or_say_why_not(self):
        wires = {wire["name"]: wire for wire in self.facts["wires"]}
        self.assertTrue(wires["shm"]["available"])
        self.assertIn("ucx", wires)
        self.assertTrue(all(wire["available"] or wire["why"] for wire in wires.values()))

    def test_memory_providers(self):
        self.assertTrue(any(provider["available"] for provider in self.facts["memory"]))

    def test_launchers_say_why(self):
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

    def test_a_wrong_value_is_told(self):
        done = info("--json", HMC_LOG="loud")
        self.assertEqual(done.returncode, 0)
        self.assertIn("HMC_LOG", json.loads(done.stdout)["environment_error"])
        self.assertIn("HMC_LOG='loud'", info(HMC_LOG="loud").stdout)

    def test_text_has_every_section(self):
        text = info().stdout
        for word in ("HMC ", "build", "features", "machine", "wires", "memory", "launchers", "environment", "HMC_RANK"):
            self.assertIn(word, text)

    def test_an_unknown_option_is_refused(self):
        self.assertNotEqual(info("--nonsense").returncode, 0)


main()
