#!/usr/bin/env python3
"""long_tests_test.py CTEST BUILD_DIR: CI skips tests labelled long, so each such test names a short form
(hmc_long_test in tests/support/LongTests.cmake), which exists and isn't long itself."""
import json
import subprocess
import sys
from pathlib import Path

ctest, build = sys.argv[1:]


def labels_of(test):
    return next((each["value"] for each in test.get("properties", []) if each["name"] == "LABELS"), [])


listed = subprocess.run([ctest, "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True)
labels = {test["name"]: labels_of(test) for test in json.loads(listed.stdout)["tests"]}
short_forms = dict(line.split() for line in Path(build, "long_tests.txt").read_text(encoding="utf-8").splitlines() if line)
in_ci = [name for name in labels if "long" not in labels[name]]

wrong = []
for name in labels:
    short = short_forms.get(name)
    if "long" not in labels[name]:
        continue
    if short is None:
        wrong.append(f"{name} has the label long without hmc_long_test(), so it names no short form")
    elif not any(each == short or each.startswith(short + ".") for each in in_ci):
        wrong.append(f"{name} names {short} as its short form, but CI runs no such test")
print("\n".join(wrong) or f"{len(labels) - len(in_ci)} long tests, each with a short form")
sys.exit(bool(wrong) or not labels)
