#!/usr/bin/env python3
"""Failed entries of a test run, run again: for CI, where one failure of a busy machine among thousands of entries costs a whole run.

unstable.py rerun RESULTS CTEST...   runs each failed entry of ctest's JUnit file RESULTS again, alone, three times, by the command
                                     CTEST... . An entry that passes each time is unstable; RESULTS then says so. Exit 1 unless
                                     every failed entry is unstable. HMC_RERUN=1 tells an entry with many long
                                     checks (vm.suites) to run only those that failed. An entry that didn't run without
                                     having skipped itself (its program is missing) has failed, and a rerun that is skipped
                                     hasn't passed.
unstable.py total RESULTS...         prints the unstable entries with the output of their failure, the failed entries, and a last
                                     line with the numbers of all files. Exit 1 if an entry failed or more than two are unstable.
"""
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from junit import outcome_of

RUNS = 3
MOST_UNSTABLE = 2


def failed_cases(tree):
    return [case for case in tree.iter("testcase") if outcome_of(case) == "failed"]


def passes_alone(name, ctest):
    """(passed, output) of one run of this entry."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        done = subprocess.run([*ctest, "-R", f"^{re.escape(name)}$", "--output-on-failure", "--output-junit", results],
                              env={**os.environ, "HMC_RERUN": "1"}, capture_output=True, text=True, check=False)
        outcomes = [outcome_of(case) for case in ElementTree.parse(results).iter("testcase")] if results.exists() else []
        return done.returncode == 0 and outcomes == ["passed"], done.stdout + done.stderr


def rerun(results, ctest):
    tree = ElementTree.parse(results)
    failed = failed_cases(tree)
    if not failed:
        print(f"{results} has no failed entry: the run failed for another reason")
        return 1
    if len(failed) > MOST_UNSTABLE:
        print(f"{len(failed)} entries failed, more than the {MOST_UNSTABLE} that may be unstable: none is run again")
        return 1
    for case in failed:
        name = case.get("name")
        for _ in range(RUNS):
            passed, output = passes_alone(name, ctest)
            if not passed:
                print(f"{name} fails alone, too:\n{output}")
                break
        else:
            print(f"unstable: {name}: passed {RUNS} times alone")
            case.set("status", "unstable")
    tree.write(results)
    return 1 if failed_cases(tree) else 0


def total(files):
    count = {"passed": 0, "failed": 0, "skipped": 0, "unstable": 0}
    for file in files:
        for case in ElementTree.parse(file).iter("testcase"):
            outcome = outcome_of(case)
            count[outcome] += 1
            if outcome == "unstable":
                print(f"unstable: {case.get('name')}\n{case.findtext('system-out', '')}")
            elif outcome == "failed":
                print(f"failed: {case.get('name')}")
    if count["unstable"] > MOST_UNSTABLE:
        print(f"{count['unstable']} entries are unstable; at most {MOST_UNSTABLE} may be")
    print(f"entries: {count['passed'] + count['unstable']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 1 if count["failed"] or count["unstable"] > MOST_UNSTABLE else 0


if __name__ == "__main__":
    verb, *arguments = sys.argv[1:]
    sys.exit(rerun(arguments[0], arguments[1:]) if verb == "rerun" else total(arguments))
