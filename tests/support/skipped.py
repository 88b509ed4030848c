#!/usr/bin/env python3
"""skipped.py RESULTS: prints a line for each reason for skipped tests in ctest's JUnit file, with the tests."""
import re
import sys
import xml.etree.ElementTree

from junit import outcome_of


def reason_of(output):
    """The reasons printed by SPMD programs, GoogleTest and the entries of OptionalTests.cmake."""
    for pattern in (r"^\[ skip \] rank \d+: \S+: (.+)$", r": Skipped\n(.+)$", r"^missing: (.+)$"):
        found = dict.fromkeys(re.findall(pattern, output, re.MULTILINE))
        if found:
            return "; ".join(found)
    return "it gives no reason"


tests = {}
for case in xml.etree.ElementTree.parse(sys.argv[1]).iter("testcase"):
    if outcome_of(case) == "skipped" and case.get("status") != "disabled":
        tests.setdefault(reason_of(case.findtext("system-out", "")), []).append(case.get("name"))
for reason, names in sorted(tests.items()):
    print(f"skipped: {', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}: {reason}")
