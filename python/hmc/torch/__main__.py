"""python -m hmc.torch build: compiles the adapter. python -m hmc.torch PROGRAM [ARGUMENT...]: registers the backend, then
runs a Python program, for releases of torch that don't find backends themselves."""

import os
import runpy
import sys


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__, file=sys.stderr)
        return 2
    if sys.argv[1:] == ["build"]:
        from hmc.torch import _build

        print(_build.path())
        return 0
    if sys.argv[1:] == ["-m"]:
        print("python -m hmc.torch: the module after -m is missing", file=sys.stderr)
        return 2
    import hmc.torch  # noqa: F401

    del sys.argv[0]
    if sys.argv[0] == "-m":
        del sys.argv[0]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        if not getattr(sys.flags, "safe_path", sys.flags.isolated):  # as Python does for a program
            sys.path[0] = os.path.dirname(os.path.realpath(sys.argv[0]))
        runpy.run_path(sys.argv[0], run_name="__main__")
    return 0


sys.exit(main())
