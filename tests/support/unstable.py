#!/usr/bin/env python3
"""Failed entries of a test run, run again: for CI, where one failure of a busy machine among thousands of entries costs a whole run.

unstable.py rerun RESULTS CTEST...   runs each failed entry of ctest's JUnit file RESULTS again, alone, three times, by the command
                                     CTEST... . An entry that passes each time is unstable; RESULTS then says so. Exit 1 unless
                                     every failed entry is unstable. HMC_RERUN=1 tells an entry with many long
                                     checks (vm.suites) to run only those that failed.
unstable.py total RESULTS...         prints the unstable entries with the output of their failure, the failed entries, and a last
                                     line with the numbers of all files. Exit 1 if an entry failed or more than two are unstable.
"""
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

RUNS = 3
MOST_UNSTABLE = 2


def failed_cases(tree):
    return [case for case in tree.iter("testcase") if case.get("status") == "fail"]


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
        done = subprocess.run([*ctest, "-R", f"^{re.escape(name)}$", "--repeat", f"until-fail:{RUNS}", "--no-tests=error",
                               "--output-on-failure"],
                              env={**os.environ, "HMC_RERUN": "1"}, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            print(f"unstable: {name}: passed {RUNS} times alone")
            case.set("status", "unstable")
        else:
            print(f"{name} fails alone, too:\n{done.stdout}{done.stderr}")
    tree.write(results)
    return 1 if failed_cases(tree) else 0


def total(files):
    passed, skipped, failed, unstable = 0, 0, 0, 0
    for file in files:
        for case in ElementTree.parse(file).iter("testcase"):
            status = case.get("status")
            if status == "unstable":
                unstable += 1
                print(f"unstable: {case.get('name')}\n{case.findtext('system-out', '')}")
            elif status == "fail":
                failed += 1
                print(f"failed: {case.get('name')}")
            skipped += status in ("notrun", "disabled")
            passed += status in ("run", "unstable")
    if unstable > MOST_UNSTABLE:
        print(f"{unstable} entries are unstable; at most {MOST_UNSTABLE} may be")
    print(f"entries: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or unstable > MOST_UNSTABLE else 0


if __name__ == "__main__":
    verb, *arguments = sys.argv[1:]
    sys.exit(rerun(arguments[0], arguments[1:]) if verb == "rerun" else total(arguments))
