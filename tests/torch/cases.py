"""Runs tests of the backend. Prints a line per test: ok, skipped or FAILED, and its name. The tests behind a failed one run, too.

cases.py FILE[.test_NAME]...               tests that start jobs: the functions of FILE.py
cases.py --ranks N,N... FILE [NAME...]     tests on all ranks of a job: FILE.py runs them (spmd.py). NAME: a part of a test's name
cases.py --hmcrun OPTIONS FILE [NAME...]   the same in a job of hmcrun, e.g. --hmcrun="-np 4 --nodes 2"

Needs an environment with the packages hmc and torch. This process imports torch. The ranks of a job are forks of it, which start
at once; a job of hmcrun starts interpreters, each of which imports torch.
"""
import argparse
import atexit
import faulthandler
import functools
import importlib
import linecache
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import traceback
import weakref

sys.dont_write_bytecode = True  # the repository stays as it is
sys.modules["cases"] = sys.modules[__name__]  # so that tests raise this module's Skipped
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402: not hmc.torch, because its import reads the environment: each job has its own

folder = os.path.dirname(os.path.abspath(__file__))
hmcrun = os.path.join(os.path.dirname(sys.executable), "hmcrun")
finds_backends = hasattr(dist.Backend, "_ensure_backend_registered")  # 2.14: by entry points
old = not hasattr(dist.Backend, "backend_list")  # 1.13: DistributedDataParallel needs Python 3.10
limit_s = 240  # of a job or a command, many times what it takes
compiler_limit_s = 900


class Skipped(Exception):
    """The test can't run here, for the reason in its text."""


def needs_recent_torch(reason):
    if old:
        raise Skipped(f"torch {torch.__version__}: {reason}")


# ---- commands

def outcome(command, environment=None, limit=limit_s):
    """The output and the exit status of a command."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               start_new_session=True, env={**os.environ, **(environment or {})})
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise AssertionError(f"no end after {limit} s: {' '.join(command)}\n{process.communicate()[0]}") from None
    print(f"  {time.monotonic() - start:.1f} s: {' '.join(command)[:150]}", flush=True)
    return output, process.returncode


def run(command, status=0, environment=None, limit=limit_s):
    """The output of a command that ends with this status; None: with any."""
    output, ended = outcome(command, environment, limit)
    assert status is None or ended == status, f"exit status {ended}: {' '.join(command)}\n{output}"
    return output


def python(*words):
    """The command of a program that may name the backend hmc."""
    return [sys.executable, *([] if finds_backends else ["-m", "hmc.torch"]), *words]


# ---- processes that are forks of this one

def fork(work, environment, output, limit):
    """Starts a process that runs work() and ends as an interpreter does."""
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        weakref.finalize._registry.clear()  # the temporary folders of this process stay
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ.update(environment)
        faulthandler.dump_traceback_later(limit - 10)  # where a rank hangs
        try:
            work()
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except BaseException:
            sys.excepthook(*sys.exc_info())
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def end(process):
    """Kills a process of fork(), and those that it has started."""
    try:
        os.killpg(process, signal.SIGKILL)
    except ProcessLookupError:  # before its setsid()
        os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def forked(environments, work, limit=limit_s):
    """Runs work() in one process per environment. Returns their output, and their exit statuses (-9: killed by signal 9). If one
    fails, the others have 60 s to end."""
    deadline = time.monotonic() + limit
    with tempfile.TemporaryFile() as output:
        running = {fork(work, each, output.fileno(), limit): index for index, each in enumerate(environments)}
        statuses = [None] * len(environments)
        try:
            while running and time.monotonic() < deadline:
                for process in list(running):
                    found, status = os.waitpid(process, os.WNOHANG)
                    if not found:
                        continue
                    index = running.pop(process)
                    statuses[index] = os.waitstatus_to_exitcode(status)
                    if statuses[index]:
                        deadline = min(deadline, time.monotonic() + 60)
                time.sleep(0.005)
        finally:
            for process, index in running.items():
                end(process)
                statuses[index] = "no end"
        output.seek(0)
        return output.read().decode(errors="replace"), statuses


def forked_ranks(count, work, environment=None, per_rank=lambda rank: {}):
    """As forked(), in the environment of torchrun's ranks."""
    compile_adapter()
    store = dist.TCPStore("127.0.0.1", 0, count, True, wait_for_workers=False)  # torchrun's agent has it
    common = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port),
              "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0", **(environment or {})}
    return forked([{**common, "RANK": str(rank), "LOCAL_RANK": str(rank), **per_rank(rank)} for rank in range(count)], work)


def succeeded(result, status=0):
    output, statuses = result
    assert status is None or all(each == status for each in statuses), f"exit statuses {statuses}:\n{output}"
    return output


def execute(text, *arguments):
    """Runs a program text as the main program."""
    text = textwrap.dedent(text)
    sys.argv[1:] = arguments
    linecache.cache["<program>"] = len(text), None, text.splitlines(True), "<program>"  # for the lines of tracebacks
    exec(compile(text, "<program>", "exec"), {"__name__": "__main__"})


def program_text(text, *arguments, environment=None, status=0):
    """The output of a program text in a process of its own."""
    return succeeded(forked([environment or {}], lambda: execute(text, *arguments)), status)


@functools.lru_cache(maxsize=None)
def compile_adapter():
    """Before the first job, whose limit isn't for a compiler. Without a compiler the jobs say why they fail, or need none."""
    succeeded(forked([{}], lambda: execute("from hmc.torch import _build; _build.path()"), compiler_limit_s), None)


# ---- jobs

PREAMBLE = textwrap.dedent("""
    import os, signal, sys, threading, time
    from datetime import timedelta
    import torch
    import torch.distributed as dist
    import hmc.torch
    torch.set_num_threads(1)
    dist.init_process_group("hmc", timeout=timedelta(seconds=100))
    rank, ranks = dist.get_rank(), dist.get_world_size()
    def say(*words):
        os.write(1, (" ".join(str(each) for each in words) + "\\n").encode())  # a line as a whole
    """)


def job(count, program, status=0, environment=None, per_rank=lambda rank: {}):
    """Runs a program text on every rank, with `rank`, `ranks` and the default group; returns its output. All ranks end with the
    status; None: with any."""
    text = PREAMBLE + textwrap.dedent(program)
    return succeeded(forked_ranks(count, lambda: execute(text), environment, per_rank), status)


def hmcrun_job(count, program, *options, status=0, environment=None):
    """As job(), by hmcrun: for what a launcher does, or the end of an interpreter."""
    compile_adapter()
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(PREAMBLE + textwrap.dedent(program))
        file.flush()
        return run([hmcrun, "-np", str(count), "--timeout", "120", *options, sys.executable, file.name], status, environment)


def main_program(path, *arguments):
    """What a rank runs: a program of the user, as python -m hmc.torch does."""
    import hmc.torch  # noqa: F401

    sys.argv = [path, *arguments]
    sys.path[0] = os.path.dirname(path)
    runpy.run_path(path, run_name="__main__")


# ---- the tests of files

def run_tests(words):
    """Of files: each is a function that starts jobs. Returns the names of those that failed."""
    failed, skipped, passed = [], [], 0
    for word in words:
        file, _, wanted = word.partition(".")
        tests = vars(importlib.import_module(file))
        names = [wanted] if wanted else [name for name in tests if name.startswith("test_")]
        assert names, f"{file} has no tests"
        for name in names:
            start = time.monotonic()
            print(f"{file}.{name}:", flush=True)
            try:
                tests[name]()
            except Skipped as why:
                skipped.append(why)
                print(f"skipped {name}: {why}", flush=True)
            except Exception:
                failed.append(name)
                print(f"{traceback.format_exc()}FAILED {name} after {time.monotonic() - start:.1f} s", flush=True)
            else:
                passed += 1
                print(f"ok {name} {time.monotonic() - start:.1f} s", flush=True)
    if skipped and not passed and not failed:
        print(f"missing: {skipped[0]}")
        sys.exit(77)
    return failed


def run_on_ranks(file, words, start):
    """start(names): runs these tests of a file on the ranks of a job; returns its output and exit statuses."""
    path = os.path.join(folder, file + ".py")
    with open(path, encoding="utf-8") as source:
        names = re.findall(r"^def (test_\w+)", source.read(), re.M)
    names = [name for name in names if not words or any(word in name for word in words)]
    assert names, f"{file} has no test {words}"
    failed = []
    while names:
        output, statuses = start(path, names)
        print(output, end="", flush=True)
        ended = re.findall(r"^(?:\[.*\] )?(?:ok|skipped) (test_\w+)", output, re.M)
        names = [name for name in names if name not in ended]
        if not any(statuses) and not names:
            break
        failed.append(names.pop(0) if names else "the end of the job")
        print(f"FAILED {failed[-1]}, exit statuses {statuses}", flush=True)
        if len(failed) == 5 and names:  # something that all tests need
            failed.append(f"not run: {' '.join(names)}")
            break
    return failed


def exactly(names):
    return [f"^{name}$" for name in names]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--ranks", type=lambda text: [int(each) for each in text.split(",")])
    parser.add_argument("--hmcrun", type=shlex.split)
    parser.add_argument("words", nargs="+")
    arguments = parser.parse_args()
    file, *words = arguments.words
    if arguments.hmcrun:
        def start(path, names):
            output, status = outcome([hmcrun, *arguments.hmcrun, sys.executable, path, *exactly(names)])
            return output, [status]
        failed = run_on_ranks(file, words, start)
    elif arguments.ranks:
        failed = []
        for count in arguments.ranks:
            print(f"{file} on {count} ranks:", flush=True)
            failed += [f"{name} on {count} ranks" for name in run_on_ranks(
                file, words, lambda path, names: forked_ranks(count, lambda: main_program(path, *exactly(names))))]
    else:
        failed = run_tests(arguments.words)
    if failed:
        print(f"{len(failed)} FAILED: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
