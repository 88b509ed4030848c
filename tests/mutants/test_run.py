"""./dev mutants on a small project: which entries count as having noticed an error."""
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
# A patch changes a word of `source`. `by_chance` fails in its second run only, which is the first one with a mutant.
PROJECT = """cmake_minimum_required(VERSION 3.22)
project(mutants NONE)
enable_testing()
add_test(NAME mutants.every_patch_applies COMMAND ${CMAKE_SOURCE_DIR}/tests/mutants/run --check)
add_test(NAME broken COMMAND false)
add_test(NAME by_chance COMMAND sh -c "echo run >>runs; test $(wc -l <runs) -ne 2")
add_test(NAME skipped COMMAND sh -c "exit 77")
add_test(NAME sees_one COMMAND grep one ${CMAKE_SOURCE_DIR}/source)
add_test(NAME sees_two COMMAND grep two ${CMAKE_SOURCE_DIR}/source)
add_test(NAME sees_three COMMAND grep three ${CMAKE_SOURCE_DIR}/source)
set_tests_properties(mutants.every_patch_applies PROPERTIES LABELS "mutants;quick")
set_tests_properties(broken by_chance skipped sees_one PROPERTIES LABELS quick SKIP_RETURN_CODE 77)
set_tests_properties(sees_two sees_three PROPERTIES LABELS unit)
"""
PRESETS = """{
  "version": 3,
  "configurePresets": [{"name": "release", "generator": "Ninja", "binaryDir": "${sourceDir}/build"}],
  "testPresets": [{"name": "release", "configurePreset": "release"}]
}"""
WORDS = ["one", "two", "three", "four"]


def patch(word):
    lines = "".join(f"-{each}\n+no\n" if each == word else f" {each}\n" for each in WORDS)
    first = "sees_t" if word == "two" else "sees_one"
    return f"What: {word}\nEntries: unit\nFirst: {first}\n\n--- a/source\n+++ b/source\n@@ -1,4 +1,4 @@\n{lines}"


class Mutants(unittest.TestCase):
    def test_only_entries_that_notice_the_error_count(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            mutants = root / "tests/mutants"
            mutants.mkdir(parents=True)
            shutil.copy(HERE / "run", mutants)
            (root / "tests/support").mkdir()
            shutil.copy(HERE.parent / "support/junit.py", root / "tests/support")
            (root / "CMakeLists.txt").write_text(PROJECT, encoding="utf-8")
            (root / "CMakePresets.json").write_text(PRESETS, encoding="utf-8")
            (root / ".gitignore").write_text("build-mutants/\n", encoding="utf-8")
            (root / "source").write_text("".join(f"{word}\n" for word in WORDS), encoding="utf-8")
            for number, word in enumerate(WORDS):
                (mutants / f"m{number}.patch").write_text(patch(word), encoding="utf-8")
            subprocess.run(["git", "init", "-q"], cwd=root, check=True)
            subprocess.run(["git", "add", "-A"], cwd=root, check=True)
            done = subprocess.run([sys.executable, mutants / "run"], capture_output=True, text=True, check=False)
        table = [line.split()[:2] for line in done.stdout.splitlines()]
        # By the tests that the patch names, by the other entries of its folder, and by none.
        self.assertIn(["m0", "sees_one"], table, done.stdout + done.stderr)
        self.assertIn(["m1", "sees_two"], table, done.stdout)
        self.assertIn(["m2", "sees_three"], table, done.stdout)
        self.assertIn(["m3", "survives"], table, done.stdout)
        self.assertRegex(done.stdout, "1 entries fail and are left out: broken\n")
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (1, "4 mutants, 1 not caught"))


if __name__ == "__main__":
    unittest.main()
