"""Optional groups of tests never vanish silently: OptionalTests.cmake in a small project, and skipped.py's summary."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
CMAKE, CTEST = os.environ["HMC_CMAKE"], os.environ["HMC_CTEST"]
PROJECT = f"""cmake_minimum_required(VERSION 3.22)
project(optional NONE)
enable_testing()
include({SUPPORT}/OptionalTests.cmake)
set(HERE /usr/bin/true)
hmc_optional_tests(here IF HERE MISSING "no tool of here")
hmc_optional_tests(absent IF ABSENT MISSING "no tool of absent")
add_test(NAME always COMMAND ${{CMAKE_COMMAND}} -E true)
add_test(NAME at_run COMMAND sh -c "echo missing: no right to mount; exit 77")
hmc_test_may_skip(at_run mounts)
hmc_check_expected_tests()
"""
RESULTS = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="Linux-c++" tests="6" failures="0" disabled="1" skipped="5" hostname="" time="0" timestamp="">
  <testcase name="passes" classname="passes" time="0.1" status="run"><system-out>missing: nothing
</system-out></testcase>
  <testcase name="missing.spin" classname="missing.spin" time="0.1" status="notrun">
    <skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/><system-out>missing: no spin: models
</system-out></testcase>
  <testcase name="spmd.a" classname="spmd.a" time="0.1" status="notrun">
    <skipped message="SKIP_RETURN_CODE=77"/><system-out>[ skip ] rank 0: room.one: no peers
[ skip ] rank 0: room.two: no peers
0 passed, 2 skipped, 0 failed
</system-out></testcase>
  <testcase name="spmd.b" classname="spmd.b" time="0.1" status="notrun">
    <skipped message="SKIP_RETURN_CODE=77"/><system-out>[ skip ] rank 0: room.one: no peers
</system-out></testcase>
  <testcase name="gtest" classname="gtest" time="0.1" status="notrun">
    <skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/><system-out>a_test.cpp:12: Skipped
no device

[  SKIPPED ] Room.one (0 ms)
</system-out></testcase>
  <testcase name="silent" classname="silent" time="0.1" status="notrun">
    <skipped message="SKIP_RETURN_CODE=77"/><system-out></system-out></testcase>
  <testcase name="off" classname="off" time="0" status="disabled"><skipped message="Disabled"/></testcase>
</testsuite>
"""


def skipped(results):
    done = subprocess.run([sys.executable, SUPPORT / "skipped.py", results], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


class OptionalTests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = Path(folder.name)
        (self.tree / "CMakeLists.txt").write_text(PROJECT, encoding="utf-8")

    def configure(self, expected):
        return subprocess.run([CMAKE, "-G", "Ninja", "-S", self.tree, "-B", self.tree / "build", f"-DHMC_EXPECT_TESTS={expected}"],
                              capture_output=True, text=True, check=False)

    def run_tests(self, expected):
        """ctest's exit status and output, and the lines of skipped.py."""
        made = self.configure(expected)
        self.assertEqual(made.returncode, 0, made.stderr)
        results = self.tree / "results.xml"
        done = subprocess.run([CTEST, "--test-dir", self.tree / "build", "--output-junit", results],
                              capture_output=True, text=True, check=False)
        self.assertNotIn("missing.here", done.stdout)
        return done.returncode, done.stdout, skipped(results)

    def test_a_missing_group_that_is_expected_fails(self):
        status, out, lines = self.run_tests("here;absent;mounts")
        self.assertNotEqual(status, 0, out)
        self.assertRegex(out, r"missing\.absent .*Failed")
        self.assertEqual(lines, [])

    def test_a_missing_group_is_skipped_with_its_reason(self):
        for expected in ("", "here"):
            status, out, lines = self.run_tests(expected)
            self.assertEqual(status, 0, out)
            self.assertRegex(out, r"missing\.absent .*Skipped")
            self.assertEqual(lines, ["skipped: at_run: no right to mount", "skipped: missing.absent: no tool of absent"])

    def test_a_test_that_cannot_run_fails_if_its_group_is_expected(self):
        status, out, lines = self.run_tests("here;mounts")
        self.assertNotEqual(status, 0, out)
        self.assertRegex(out, r"at_run .*Failed")
        self.assertEqual(lines, ["skipped: missing.absent: no tool of absent"])

    def test_an_unknown_group_stops_the_configuration(self):
        made = self.configure("here;absnet")
        self.assertNotEqual(made.returncode, 0)
        self.assertIn("no optional tests named 'absnet'", made.stderr)


class Summary(unittest.TestCase):
    def test_reasons_of_every_kind_of_program(self):
        with tempfile.TemporaryDirectory() as folder:
            results = Path(folder, "results.xml")
            results.write_text(RESULTS, encoding="utf-8")
            self.assertEqual(skipped(results), [
                "skipped: silent: it gives no reason",
                "skipped: gtest: no device",
                "skipped: spmd.a, spmd.b: no peers",
                "skipped: missing.spin: no spin: models",
            ])

    def test_many_tests_of_one_reason_are_counted(self):
        with tempfile.TemporaryDirectory() as folder:
            results = Path(folder, "results.xml")
            case = ('<testcase name="t{}" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>'
                    '<system-out>missing: no tool</system-out></testcase>')
            results.write_text(f"<testsuite>{''.join(case.format(i) for i in range(5))}</testsuite>", encoding="utf-8")
            self.assertEqual(skipped(results), ["skipped: t0, t1, t2 and 2 more: no tool"])


if __name__ == "__main__":
    unittest.main()
