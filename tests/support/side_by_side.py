"""Runs the tests of a unittest program in several processes: for tests that wait most of the time."""

import io
import multiprocessing
import sys
import traceback
import unittest


def each_test(tests):
    for test in tests:
        if isinstance(test, unittest.TestSuite):
            yield from each_test(test)
        else:
            yield test


def run_one(name):
    """(name, passed, output) of a test of __main__."""
    stream = io.StringIO()
    try:
        test = unittest.defaultTestLoader.loadTestsFromName(name, sys.modules["__main__"])
        result = unittest.TextTestRunner(stream, verbosity=0).run(test)
        return name, result.wasSuccessful(), "".join(f"skipped: {why}\n" for _, why in result.skipped) or stream.getvalue()
    except BaseException:  # also an exit of the test
        return name, False, stream.getvalue() + traceback.format_exc()


def main(at_once=3):
    """As unittest.main(). With arguments, the names of tests, they run one after another."""
    if len(sys.argv) > 1 or at_once == 1:
        unittest.main(verbosity=2)
    names = [test.id().partition(".")[2] for test in each_test(unittest.defaultTestLoader.loadTestsFromModule(
        sys.modules["__main__"]))]
    failed = []
    with multiprocessing.get_context("fork").Pool(at_once) as pool:
        for name, passed, output in pool.imap_unordered(run_one, names):
            print("ok    " if passed else "FAILED", name, flush=True)
            if not passed or output.startswith("skipped"):
                print(output, flush=True)
            if not passed:
                failed.append(name)
    print(f"{len(names) - len(failed)} of {len(names)} tests passed", *(f"FAILED: {name}" for name in failed), sep="\n")
    sys.exit(1 if failed or not names else 0)
