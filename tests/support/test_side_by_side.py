#!/usr/bin/env python3
"""jobs.py and side_by_side.py: a case that fails is named, the others run, and the status tells."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = f"""
import sys, unittest
sys.path.insert(0, {str(HERE)!r})
from side_by_side import main
class First(unittest.TestCase):
    def test_well(self): pass
    def test_skips(self): self.skipTest("there is no device")
class Second(unittest.TestCase):
    def test_wrong(self): self.assertEqual("a", "b")
    def test_exits(self): sys.exit(5)
    def test_well(self): pass
main(2)
"""


def run(*words):
    done = subprocess.run([sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                          check=False)
    return done.returncode, done.stdout


def jobs(*words):
    return run(str(HERE / "jobs.py"), *words)


class Jobs(unittest.TestCase):
    def test_all_run_and_those_that_fail_are_named(self):
        status, output = jobs(":::", "bad", "sh", "-c", "echo wrong sum; exit 3", ":::", "good", "echo", "hidden",
                              ":::", "absent", "sh", "-c", "echo missing: x; exit 77", ":::", "killed", "sh", "-c", "kill -9 $$")
        self.assertEqual(status, 1, output)
        for line in (r"wrong sum\nFAILED .* bad \(status 3\)", r"ok .* good", r"missing: x\nskipped .* absent",
                     r"FAILED .* killed \(status -9\)", r"2 of 4 passed\nFAILED: bad\nFAILED: killed"):
            self.assertRegex(output, line)
        self.assertNotIn("hidden", output)

    def test_statuses(self):
        self.assertEqual(jobs("a", "true", ":::", "b", "sh", "-c", "exit 77")[0], 0)
        self.assertEqual(jobs("--at-once", "1", "a", "sh", "-c", "exit 77")[0], 77)
        self.assertNotEqual(jobs()[0], 0)
        self.assertNotEqual(jobs("a", "true", ":::", "a", "true")[0], 0)

    def test_commands_run_at_the_same_time(self):
        # Each of the two waits for the other's file.
        with tempfile.TemporaryDirectory() as place:
            meet = 'touch "$0/$1"; until [ -e "$0/$2" ]; do sleep 0.01; done'
            status, output = jobs("--at-once", "2", "a", "sh", "-c", meet, place, "a", "b",
                                  ":::", "b", "sh", "-c", meet, place, "b", "a")
        self.assertEqual(status, 0, output)


class SideBySide(unittest.TestCase):
    def test_all_run_and_those_that_fail_are_named(self):
        with tempfile.TemporaryDirectory() as place:
            program = Path(place, "tests.py")
            program.write_text(TESTS, encoding="utf-8")
            status, output = run(str(program))
            self.assertEqual(status, 1, output)
            for line in ("ok     First.test_well", "ok     Second.test_well", "skipped: there is no device",
                         "AssertionError: 'a' != 'b'", "SystemExit: 5", "3 of 5 tests passed", "FAILED: Second.test_wrong",
                         "FAILED: Second.test_exits"):
                self.assertIn(line, output)
            self.assertEqual(run(str(program), "First")[0], 0)
            self.assertEqual(run(str(program), "Second.test_wrong")[0], 1)


if __name__ == "__main__":
    unittest.main()
