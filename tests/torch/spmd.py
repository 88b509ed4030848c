"""Runs the tests of a program on all ranks of a job, with a barrier after each: the functions test_..., in their order."""
import os
import re
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch.distributed as dist  # noqa: E402


class Skipped(Exception):
    """The test can't run here, for the reason in its text. Every rank raises it."""


def run(tests, patterns=()):
    """tests: the program's globals. patterns: expressions of which a test's name matches one; none: all tests."""
    for name, test in list(tests.items()):
        if not name.startswith("test_") or not (not patterns or any(re.search(pattern, name) for pattern in patterns)):
            continue
        start = time.perf_counter()
        try:
            test()
            text = f"ok {name} {time.perf_counter() - start:.2f} s"
        except Skipped as why:
            text = f"skipped {name}: {why}"
        dist.barrier()
        if dist.get_rank() == 0:
            os.write(1, (text + "\n").encode())  # a line as a whole
