"""unstable.py: an entry that fails once is unstable, one that fails again has failed, and a third unstable entry is too much."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
CMAKE, CTEST = os.environ["HMC_CMAKE"], os.environ["HMC_CTEST"]
# An entry fails in its first FAILURES runs. `a.b` is no prefix of a name by accident: -R takes an expression.
PROJECT = """cmake_minimum_required(VERSION 3.22)
project(unstable NONE)
enable_testing()
add_test(NAME passes COMMAND ${CMAKE_COMMAND} -E true)
add_test(NAME absent COMMAND ${CMAKE_BINARY_DIR}/program)
add_test(NAME skipped COMMAND sh -c "exit 77")
add_test(NAME skipped_again COMMAND sh -c "test -f again && exit 77; echo run >again; false")
set_tests_properties(skipped skipped_again PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME axb COMMAND sh -c "echo run >>other_runs; false")
foreach(entry a.b:1 always:9 third_run:2 one:1 two:1)
  string(REPLACE ":" ";" entry ${entry})
  list(GET entry 0 name)
  list(GET entry 1 failures)
  add_test(NAME ${name} COMMAND sh -c "echo run >>${name}_runs; echo output of ${name}; test $(wc -l <${name}_runs) -gt ${failures}")
endforeach()
"""
# A ./dev whose tests don't reach ctest, because a build fails.
DEV = """#!/bin/sh
[ "$1" != test ] || { echo "the build fails"; exit 1; }
"""


class Unstable(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = Path(folder.name)
        (self.tree / "CMakeLists.txt").write_text(PROJECT)
        subprocess.run([CMAKE, "-S", self.tree, "-B", self.tree], capture_output=True, check=True)
        self.results = self.tree / "tests.xml"

    def ctest(self, *entries):
        subprocess.run([CTEST, "--test-dir", self.tree, "--output-junit", self.results, "-R", f"^({'|'.join(entries)})$"],
                       capture_output=True, check=False)

    def unstable(self, *arguments):
        return subprocess.run([sys.executable, SUPPORT / "unstable.py", *arguments], capture_output=True, text=True, check=False)

    def rerun(self):
        return self.unstable("rerun", self.results, CTEST, "--test-dir", self.tree)

    def test_an_entry_that_fails_once_is_unstable_and_its_output_is_printed(self):
        self.ctest("passes", r"a\.b")
        self.assertEqual(self.rerun().returncode, 0)
        self.assertEqual((self.tree / "a.b_runs").read_text().count("run"), 4)
        self.assertFalse((self.tree / "other_runs").exists())
        total = self.unstable("total", self.results)
        self.assertEqual(total.returncode, 0)
        self.assertIn("unstable: a.b\noutput of a.b\n", total.stdout)
        self.assertEqual(total.stdout.splitlines()[-1], "entries: 2 passed, 0 failed, 0 skipped")

    def test_an_entry_that_fails_again_has_failed(self):
        for entry in ("always", "third_run"):
            self.ctest("passes", entry)
            again = self.rerun()
            self.assertEqual(again.returncode, 1)
            self.assertIn(f"output of {entry}", again.stdout)
            total = self.unstable("total", self.results)
            self.assertEqual(total.returncode, 1)
            self.assertEqual(total.stdout.splitlines()[-2:], [f"failed: {entry}", "entries: 1 passed, 1 failed, 0 skipped"])

    def test_more_than_two_unstable_entries_are_a_failure(self):
        self.ctest("one", "two", r"a\.b")
        self.assertEqual(self.rerun().returncode, 1)
        for file in (self.tree / "first.xml", self.tree / "second.xml"):  # two runs, each with two
            (self.tree / "one_runs").unlink()
            (self.tree / "two_runs").unlink()
            self.ctest("one", "two")
            self.assertEqual(self.rerun().returncode, 0)
            self.results.rename(file)
        self.assertEqual(self.unstable("total", self.tree / "first.xml").returncode, 0)
        both = self.unstable("total", self.tree / "first.xml", self.tree / "second.xml")
        self.assertEqual(both.returncode, 1)
        self.assertEqual(both.stdout.splitlines()[-1], "entries: 4 passed, 0 failed, 0 skipped")

    def test_an_entry_without_its_program_has_failed(self):
        self.ctest("one", "absent", "skipped")
        self.assertEqual(self.rerun().returncode, 1)
        total = self.unstable("total", self.results)
        self.assertEqual(total.returncode, 1)
        self.assertIn("failed: absent\n", total.stdout)
        self.assertEqual(total.stdout.splitlines()[-1], "entries: 1 passed, 1 failed, 1 skipped")
        skipped = subprocess.run([sys.executable, SUPPORT / "skipped.py", self.results], capture_output=True, text=True, check=True)
        self.assertEqual(skipped.stdout, "skipped: skipped: it gives no reason\n")

    def test_an_entry_that_is_skipped_when_it_runs_again_has_failed(self):
        self.ctest("skipped_again")
        again = self.rerun()
        self.assertEqual(again.returncode, 1, again.stdout)
        self.assertEqual(self.unstable("total", self.results).returncode, 1)

    def test_a_run_without_a_failed_entry_failed_for_another_reason(self):
        self.ctest("passes")
        self.assertEqual(self.rerun().returncode, 1)

    def test_a_build_that_fails_runs_no_entries_of_an_earlier_run_again(self):
        self.ctest("one")
        root = self.tree / "project"
        shutil.copytree(SUPPORT, root / "tests/support")
        (root / ".ci").mkdir()
        shutil.copy(SUPPORT.parents[1] / ".ci/run", root / ".ci/run")
        for build in ("build", "build-asan", "build-tsan"):
            (root / build).mkdir()
            shutil.copy(self.results, root / build / "tests.xml")
        programs = root / "build/bin"
        programs.mkdir()
        for file, text in ((root / "dev", DEV), (programs / "hmc-verify", "#!/bin/sh\n"),
                           (programs / "ctest", f"#!/bin/sh\nshift 2; exec {CTEST} --test-dir {self.tree} \"$@\"\n")):
            file.write_text(text)
            file.chmod(0o755)
        ci = subprocess.run([root / ".ci/run"], env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}, capture_output=True,
                            text=True, check=False)
        self.assertEqual(ci.returncode, 1, ci.stdout)
        for step in ("test", "asan", "tsan"):
            self.assertRegex(ci.stdout, rf"FAILED +{step} ")
        self.assertNotIn("unstable", ci.stdout)


if __name__ == "__main__":
    unittest.main()
