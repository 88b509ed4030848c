#!/usr/bin/python3
"""Names of tests and of ctest entries follow the convention of tests/README.md. Usage: test_names.py ROOT CTEST BUILD"""
import json
import re
import subprocess
import sys
from pathlib import Path

TEST = re.compile(r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST|HMC_SPMD_TEST)\(\s*(\w+),\s*(\w+)\s*\)", re.M)
SUITE = re.compile(r"[A-Z][A-Za-z0-9]*")
NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)+")  # at least two words
ENTRY = re.compile(r"[a-z][a-z0-9_]*(\.[A-Za-z0-9_/]+)+")  # the folder, then the subject
# Names state what the code does, in the terms of the field.
AVOIDED = set("""anybody everybody everyone nobody who whoever whom whose what whatever wherever
    bring brings come comes gave give gives go goes lie lies say says take takes taken tell tells told turn turns way ways
    heard hear knocks talk talks stranger strangers""".split())


def faults(text):
    """Yields (suite, name, reason)."""
    for suite, name in TEST.findall(text):
        if not SUITE.fullmatch(suite):
            yield suite, name, "the suite isn't PascalCase"
        elif not NAME.fullmatch(name):
            yield suite, name, "the name isn't a snake_case sentence"
        elif words := AVOIDED & set(name.split("_")):
            yield suite, name, f"plainer words exist for: {', '.join(sorted(words))}"


def entry_fault(entry):
    """The reason why a ctest entry is misnamed, or None."""
    if entry.endswith("_NOT_BUILT"):  # by gtest_discover_tests, for a program that isn't built yet
        return None
    if not ENTRY.fullmatch(entry):
        return "not FOLDER.SUBJECT..."
    words = AVOIDED & set(re.split(r"[._/]", entry))
    return f"plainer words exist for: {', '.join(sorted(words))}" if words else None


def self_test():
    planted = """
TEST(Wait, deadline_ends_the_wait) {
TEST(wait, deadline_ends_the_wait) {
TEST_F(Wait, DeadlineEndsIt) {
HMC_SPMD_TEST(Wait, deadline) {
TEST_P(Wait, rank_is_told_who_died) {
"""
    found = [(suite, name) for suite, name, _ in faults(planted)]
    assert found == [("wait", "deadline_ends_the_wait"), ("Wait", "DeadlineEndsIt"), ("Wait", "deadline"),
                     ("Wait", "rank_is_told_who_died")], found
    assert entry_fault("multirank.teams.threads.np3.nodes1") is None
    assert entry_fault("teams") and entry_fault("Wait.deadline_ends") and entry_fault("fault.who_died.np2")


def main(root, ctest, build):
    self_test()
    count = 0
    bad = 0
    for path in sorted((Path(root) / "tests").rglob("*.cpp")):
        text = path.read_text(encoding="utf-8")
        count += len(TEST.findall(text))
        for suite, name, reason in faults(text):
            print(f"{path.relative_to(root)}: {suite}.{name}: {reason}")
            bad += 1
    listed = subprocess.run([ctest, "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True)
    # Without the parameters that GoogleTest appends: "  # GetParam() = 1", "<int>".
    entries = [re.split(r"  # |<", test["name"])[0] for test in json.loads(listed.stdout)["tests"]]
    for entry in entries:
        if reason := entry_fault(entry):
            print(f"{entry}: {reason}")
            bad += 1
    assert count > 0 and entries, "no tests found"
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
