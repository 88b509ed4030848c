"""Runs torch's own distributed_test with a backend, and prints one line per test: ok, skipped or FAILED, and its name.

own_tests.py BACKEND [--ranks N] [--expect COUNT] [--except FILE] [NAME...]

BACKEND: gloo (torch's), hmc, hmc-as-gloo (by HMC_TORCH_ALIAS) or hmc-as-mpi (the tests for MPI). COUNT: at least as many
tests must run and pass. FILE: tests that may fail, one a line, and the reason. NAME: part of a test's name; none: all.
"""

import argparse
import dataclasses
import multiprocessing
import os
import socket
import sys
import tempfile
import time
import unittest

parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument("backend", choices=["gloo", "hmc", "hmc-as-gloo", "hmc-as-mpi"])
parser.add_argument("--ranks", type=int, default=4)
parser.add_argument("--expect", type=int, default=1)
parser.add_argument("--except", dest="exceptions")
parser.add_argument("-v", action="store_true", help="print tracebacks")
parser.add_argument("names", nargs="*")

# The ranks are children that import this file: they get the arguments by the environment.
if __name__ == "__main__":
    arguments = parser.parse_intermixed_args()
    os.environ["OWN_TESTS_BACKEND"] = arguments.backend
    os.environ["WORLD_SIZE"] = str(arguments.ranks)
    os.environ.setdefault("TEMP_DIR", tempfile.mkdtemp(prefix="own-tests-"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        os.environ["MASTER_PORT"] = str(free.getsockname()[1])
mode = os.environ["OWN_TESTS_BACKEND"]
os.environ["BACKEND"] = {"gloo": "gloo", "hmc": "hmc", "hmc-as-gloo": "gloo", "hmc-as-mpi": "mpi"}[mode]
os.environ["INIT_METHOD"] = "env://"
if mode == "hmc-as-gloo":
    os.environ["HMC_TORCH_ALIAS"] = "gloo"

if sys.version_info >= (3, 11):
    # torch 1.13 is older than Python 3.11, which refuses its dataclasses: DistributedDataParallel can't be imported.
    get_field = dataclasses._get_field

    def get_hashable_field(cls, name, *others):
        default = getattr(cls, name, None)
        default = getattr(default, "default", default)  # of dataclasses.field
        if dataclasses.is_dataclass(default) and default.__class__.__hash__ is None:
            default.__class__.__hash__ = object.__hash__
        return get_field(cls, name, *others)

    dataclasses._get_field = get_hashable_field

import torch.distributed as dist  # noqa: E402

if mode != "gloo":
    import hmc.torch
if mode == "hmc-as-mpi":
    init = dist.init_process_group

    def init_process_group(*positional, backend, **named):
        return init(*positional, backend="hmc" if backend == "mpi" else backend, **named)

    backend = dist.get_backend
    dist.init_process_group = init_process_group
    dist.get_backend = lambda group=None: backend(group).replace("hmc", "mpi")
    # The tests look for the profiler's events of this name.
    create_as = hmc.torch._register.create_as
    hmc.torch._register.create_as = lambda name, options: create_as("mpi", options)
    dist.distributed_c10d.is_mpi_available = dist.is_mpi_available = lambda: True

from torch.testing._internal.common_distributed import DistTestCases  # noqa: E402

if mode == "hmc":
    for feature in ("ddp", "subgroup"):
        DistTestCases.backend_feature[feature].add("hmc")
import torch.testing._internal.distributed.distributed_test as torchs  # noqa: E402


class OwnTests(torchs.TestDistBackend, torchs.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        # Forked ranks start faster: torch is already imported.
        self._start_processes(multiprocessing.get_context("fork").Process)


class Lines(unittest.TestResult):
    failed = passed = 0
    exceptions = {}

    def startTest(self, test):
        super().startTest(test)
        self.start = time.monotonic()

    def line(self, test, result, why=""):
        name = test.id().split(".")[-1]
        print(f"{result:8} {time.monotonic() - self.start:6.1f} {name}{why and '  # '}{why}", flush=True)

    def addSuccess(self, test):
        self.passed += 1
        self.line(test, "ok")

    def addSkip(self, test, reason):
        self.line(test, "skipped", reason.strip().replace("\n", " "))

    def addFailure(self, test, error):
        known = self.exceptions.get(test.id().split(".")[-1])
        if known:
            return self.line(test, "known", known)
        self.failed += 1
        self.line(test, "FAILED", self._exc_info_to_string(error, test) if arguments.v else str(error[1]).replace("\n", " | ")[-800:])

    addError = addFailure


def main():
    names = unittest.TestLoader().getTestCaseNames(OwnTests)
    if arguments.names:
        names = [each for each in names if any(part in each for part in arguments.names)]
    result = Lines()
    if arguments.exceptions:
        with open(arguments.exceptions, encoding="utf-8") as file:
            result.exceptions = dict(line.strip().split(": ", 1) for line in file if ": " in line)
    unittest.TestSuite(OwnTests(each) for each in names).run(result)
    print(f"{result.testsRun} tests, {result.passed} passed, {result.failed} failed", flush=True)
    return 1 if result.failed or result.passed < arguments.expect else 0


if __name__ == "__main__":
    sys.exit(main())
