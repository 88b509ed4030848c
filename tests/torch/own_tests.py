"""Runs torch's own distributed_test with a backend, and prints one line per test: ok, skipped or FAILED, and its name.

own_tests.py BACKEND [--ranks N] [--expect COUNT] [--except FILE] [NAME...]

BACKEND: gloo (torch's), hmc, hmc-as-gloo (by HMC_TORCH_ALIAS) or hmc-as-mpi (the tests for MPI). COUNT: at least as many
tests must run and pass. FILE: tests that may fail, one a line, and the reason. NAME: part of a test's name; none: all.
"""

import argparse
import dataclasses
import logging
import multiprocessing
import os
import socket
import sys
import tempfile
import time
import traceback
import unittest
from datetime import timedelta

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

from torch.testing._internal.common_distributed import TEST_SKIPS, DistTestCases  # noqa: E402
from torch.testing._internal.common_utils import set_rng_seed  # noqa: E402

if mode == "hmc":
    for feature in ("ddp", "subgroup"):
        DistTestCases.backend_feature[feature].add("hmc")
import torch.testing._internal.distributed.distributed_test as torchs  # noqa: E402




class OwnTests(torchs.TestDistBackend, torchs.DistributedTest._DistTestBase):
    pass


# The tests that fail a group on purpose, or whose group has a timeout of its own, have a group of their own.
OWN_GROUP = "monitored_barrier", "barrier_timeout", "destroy"
default_timeout_s = 100
limit_s = 240  # of a test, far above the timeouts of groups


class Ranks:
    """Forks of this process: torch is already imported. They run the tests one by one in one default group."""

    def __init__(self, count):
        self.pipes, self.processes = [], []
        for rank in range(count):
            mine, its = multiprocessing.Pipe()
            self.pipes.append(mine)
            self.processes.append(multiprocessing.get_context("fork").Process(target=rank_main, args=(rank, its)))
            self.processes[-1].start()
            its.close()
        self.group_timeout_s = None

    def run(self, name):
        """The results of all ranks: (ok, skipped or FAILED, why)."""
        timeout_s = torchs.CUSTOM_PG_TIMEOUT.get(name, default_timeout_s)
        own = timeout_s != default_timeout_s or any(part in name for part in OWN_GROUP)
        file_name = None
        if own or self.group_timeout_s != default_timeout_s:
            with tempfile.NamedTemporaryFile(delete=False) as file:
                file_name = file.name
        self.group_timeout_s = None if own else timeout_s
        deadline = time.monotonic() + limit_s
        for pipe in self.pipes:
            pipe.send((name, file_name, timeout_s))
        results = []
        for rank, pipe in enumerate(self.pipes):
            try:
                ended = pipe.poll(max(0, deadline - time.monotonic()))
                results.append(pipe.recv() if ended else ("FAILED", f"rank {rank} has not ended after {limit_s} s"))
            except EOFError:
                self.processes[rank].join()
                results.append(("FAILED", f"rank {rank} has ended with exit status {self.processes[rank].exitcode}"))
            if results[-1][0] == "FAILED":
                deadline = min(deadline, time.monotonic() + 20)
        return results

    def end(self):
        """Returns what is wrong with the end of the ranks, or None."""
        for pipe in self.pipes:
            pipe.send(None)
        for process in self.processes:
            process.join(limit_s)
        statuses = [process.exitcode for process in self.processes]
        self.kill()
        return f"exit statuses {statuses}" if any(each != 0 for each in statuses) else None

    def kill(self):
        for process in self.processes:
            process.kill()
            process.join()


def rank_main(rank, pipe):
    while (order := pipe.recv()) is not None:
        name, file_name, timeout_s = order
        try:
            if file_name:
                if dist.is_initialized():
                    dist.destroy_process_group()
                dist.init_process_group(backend=torchs.BACKEND, init_method=f"file://{file_name}", rank=rank, timeout=timedelta(seconds=timeout_s),
                                        world_size=int(os.environ["WORLD_SIZE"]))
            torchs.Barrier.barrier_id = 0
            set_rng_seed(1234)  # as each test's setUp
            test = OwnTests(name)
            test.rank, test.file_name = rank, file_name
            getattr(test, name)()
            result = "ok", ""
        except unittest.SkipTest as why:
            result = "skipped", str(why)
        except SystemExit as end:
            skip = [each.message for each in TEST_SKIPS.values() if each.exit_code == end.code]
            result = ("skipped", skip[0]) if skip else ("FAILED", f"exit status {end.code}")
        except BaseException:
            result = "FAILED", traceback.format_exc()
        pipe.send(result)
    if dist.is_initialized():
        dist.destroy_process_group()


def main():
    names = unittest.TestLoader().getTestCaseNames(OwnTests)
    if arguments.names:
        names = [each for each in names if any(part in each for part in arguments.names)]
    exceptions = {}
    if arguments.exceptions:
        with open(arguments.exceptions, encoding="utf-8") as file:
            exceptions = dict(line.strip().split(": ", 1) for line in file if ": " in line)
    counts = dict.fromkeys(("ok", "skipped", "known", "FAILED"), 0)
    ranks = None
    OwnTests.setUpClass()
    logging.disable(logging.INFO)
    for name in names:
        start = time.monotonic()
        method = getattr(OwnTests, name)
        if getattr(method, "__unittest_skip__", False):
            counts["skipped"] += 1
            print(f"skipped      0.0 {name}  # {method.__unittest_skip_why__}")
            continue
        if ranks is None:
            torchs.initialize_temp_directories()
            ranks = Ranks(arguments.ranks)
        torchs.Barrier.init()  # no rank uses its files now
        results = ranks.run(name)
        kinds = {kind for kind, _ in results}
        kind = "FAILED" if len(kinds) > 1 else kinds.pop()
        whys = dict.fromkeys(why for each, why in results if each == kind or len(kinds) > 1)
        if kind == "FAILED":
            ranks.kill()
            ranks = None
            if name in exceptions:
                kind, whys = "known", [exceptions[name]]
        counts[kind] += 1
        why = "\n".join(whys) if arguments.v else " | ".join(" | ".join(whys).split("\n"))[-800:]
        print(f"{kind:8} {time.monotonic() - start:6.1f} {name}{why and '  # '}{why}", flush=True)
    wrong = ranks and ranks.end()
    if wrong:
        print(f"FAILED the end of the ranks: {wrong}")
    print(f"{len(names)} tests, {counts['ok']} passed, {counts['FAILED']} failed", flush=True)
    return 1 if wrong or counts["FAILED"] or counts["ok"] < arguments.expect else 0


if __name__ == "__main__":
    sys.exit(main())
