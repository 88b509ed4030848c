"""Runs test functions of modules on every rank of a job: hmcrun -np 4 python spmd.py MODULE... [--filter TEXT].

A test is a function test_...(rt). All ranks run the tests in the modules' order, with a barrier after each.
"""
import importlib
import os
import sys
import time
import traceback

sys.dont_write_bytecode = True  # the repository stays as it is
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import hmc  # pylint: disable=wrong-import-position


class Skip(Exception):
    """The test can't run here, for the reason in its text. Every rank raises it."""


def main():
    sys.modules["spmd"] = sys.modules["__main__"]  # so that tests raise this module's Skip
    modules, wanted = sys.argv[1:], ""
    if "--filter" in modules:
        at = modules.index("--filter")
        modules, wanted = modules[:at], modules[at + 1]
    tests = {name: test for module in map(importlib.import_module, modules) for name, test in vars(module).items()
             if name.startswith("test_") and wanted in name}
    assert tests, f"no test matches '{wanted}'"
    rt = hmc.init()
    for name, test in tests.items():
        begin = time.monotonic()
        try:
            test(rt)
        except Skip as skip:
            if rt.rank == 0:
                print(f"[ skip ] rank 0: {name}: {skip}")
            continue
        except BaseException:
            traceback.print_exc()
            print(f"[ FAIL ] rank {rt.rank}: {name}", flush=True)
            rt.abort(1, f"{name} failed on rank {rt.rank}")
            sys.exit(1)
        rt.world.barrier()
        if rt.rank == 0:
            print(f"[  ok  ] {name} {time.monotonic() - begin:.2f} s", flush=True)
    rt.close()


if __name__ == "__main__":
    main()
