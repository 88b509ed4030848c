"""A wrong command line: every program exits with 2 and prints a usage line that names it."""

import os
import subprocess

from common import HMCINFO, LauncherTest, main

FOLDER = os.path.dirname(HMCINFO)


def run(program, *words):
    return subprocess.run([os.path.join(FOLDER, program), *words], capture_output=True, text=True, timeout=60)


class Usage(LauncherTest):
    def check(self, usage, program, *words):
        done = run(program, *words)
        self.assertEqual((done.returncode, done.stdout), (2, ""), (program, words, done.stderr))
        self.assertTrue(done.stderr.startswith(f"{program}: "), done.stderr)
        self.assertIn(usage, done.stderr)

    def test_hmcrun(self):
        for words in ([], ["--nonsense"], ["-np", "0", "true"], ["-np", "2"], ["-np", "1", "-x", "HMC_RANK=1", "true"]):
            self.check("usage: hmcrun -np N", "hmcrun", *words)

    def test_hmcinfo(self):
        for words in (["--nonsense"], ["explane"], ["devices", "--nonsense"]):
            self.check("Usage: hmcinfo ", "hmcinfo", *words)

    def test_hmcinfo_explain_has_a_usage_line_of_its_own(self):
        for words in ([], ["allreduce", "8Q"], ["nothing"], ["allreduce", "8", "--type", "f31"],
                      ["allreduce", "8", "--ranks", "0"], ["allreduce", "8", "--ranks", "x"]):
            self.check("Usage: hmcinfo explain [OPTIONS] collective", "hmcinfo", "explain", *words)

    def test_hmc_sim(self):
        for words in ([], ["--nonsense"], ["allredeuce"], ["allreduce", "--bytes", "1X"], ["allreduce", "--ranks", "0"]):
            self.check("Usage: hmc-sim ", "hmc-sim", *words)

    def test_hmc_verify(self):
        for words in (["--nonsense"], ["--threads", "0"]):
            self.check("Usage: hmc-verify ", "hmc-verify", *words)

    def test_help_is_not_an_error_and_names_the_program(self):
        for program in ("hmcrun", "hmcinfo", "hmc-sim", "hmc-verify"):
            done = run(program, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""), program)
            self.assertIn(f"Usage: {program} ", done.stdout)

    def test_other_errors_exit_with_another_status(self):
        self.assertEqual(run("hmcinfo", "explain", "allreduce", "8", "--parameters", "/nowhere").returncode, 1)
        self.assertEqual(run("hmcrun", "-np", "1", "/nowhere/program").returncode, 127)

main()
