#!/usr/bin/env python3
"""System limits that one rank, every rank or hmcrun reaches: the errors, the ranks that get them, and when.
Usage: limits_test.py HMCRUN PROGRAM [threads]"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

hmcrun, program = sys.argv[1:3]
RANKS = 4
# Without an early error the ranks fail after half the deadline: 60 s. A busy machine may take most of that.
DEADLINE_S = 120
SOON_S = 40
wrong = []


def run(*words, ranks=RANKS, nodes=1, before=""):
    """(exit status, stdout, stderr, seconds) of a job; `before`: shell commands of each rank before the program."""
    command = [program, *words]
    if before:
        command = ["sh", "-c", before + '; exec "$0" "$@"', *command]
    started = time.monotonic()
    job = subprocess.run([hmcrun, "-np", str(ranks), "--nodes", str(nodes), "--timeout", str(DEADLINE_S), *command],
                         capture_output=True, text=True, timeout=DEADLINE_S + 30, check=False,
                         env={**os.environ, "HMC_TIMEOUT_S": str(DEADLINE_S)})
    return job.returncode, job.stdout, job.stderr, time.monotonic() - started


def expect(name, holds, got):
    if not holds:
        wrong.append(f"{name}: {got}")


def every_rank_reports(name, pattern, got, status):
    """Expects a matching line of each rank in time, and hmcrun's status."""
    code, out, err, took = got
    for rank in range(RANKS):
        expect(name, re.search(rf"^rank {rank}: {pattern}", out, re.M), f"rank {rank} has no such error: {out}{err}")
    expect(name, code == status, f"hmcrun ended with {code}, not {status}: {out}{err}")
    expect(name, took < SOON_S, f"it took {took:.1f} s")


def finish():
    for line in wrong:
        print("WRONG:", line, file=sys.stderr)
    sys.exit(1 if wrong else 0)


def a_thread_that_cannot_be_started(folder):
    """The limit doesn't apply to root, so root runs the job as another user, with copies that this user can read."""
    as_other, programs = [], [hmcrun, program]
    if os.geteuid() == 0:
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            print("missing: setpriv, to run as a user for whom RLIMIT_NPROC holds")
            sys.exit(77)
        as_other = [setpriv, "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        os.chmod(folder, 0o777)
        libraries = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout
        for library in set(re.findall(r"=> (/\S*/libhmc\S*) ", libraries)):
            shutil.copy(library, folder)
        programs = [shutil.copy(each, folder) for each in programs]
        for each in Path(folder).iterdir():
            each.chmod(0o755)
    limited = '[ "$HMC_RANK" != 2 ] || exec prlimit --nproc=1:1 "$0" "$@"; exec "$0" "$@"'
    started = time.monotonic()
    job = subprocess.run([*as_other, programs[0], "-np", str(RANKS), "--nodes", "2", "--timeout", str(DEADLINE_S),
                          "sh", "-c", limited, programs[1], "start"],
                         capture_output=True, text=True, timeout=DEADLINE_S + 30, check=False, cwd=folder,
                         env={**os.environ, "HMC_TIMEOUT_S": str(DEADLINE_S), "HMC_CACHE": f"{folder}/cache",
                              "LD_LIBRARY_PATH": folder})
    reports = re.findall(r"^start: .* can't be started: .*RLIMIT_NPROC \(ulimit -u\) is 1 .*peer 2\]", job.stdout, re.M)
    expect("threads", len(reports) == RANKS and job.returncode != 0 and time.monotonic() - started < SOON_S, job)


if sys.argv[3:] == ["threads"]:
    with tempfile.TemporaryDirectory() as copies:
        a_thread_that_cannot_be_started(copies)
    finish()


def limits_of_ranks(nodes):
    no_descriptor = r"rank 2: no descriptor is left for shared memory: RLIMIT_NOFILE \(ulimit -n\) is \d+ .*peer 2\]"
    every_rank_reports(f"create, {nodes} nodes", "Window::create: " + no_descriptor,
                       run("descriptors_create", "2", nodes=nodes), 3)
    code, out, err, _ = run("descriptors_duplicate", "2", nodes=nodes)
    expect(f"duplicate, {nodes} nodes", code == 0, f"a duplicate needs a descriptor: {out}{err}")
    every_rank_reports(f"file size, {nodes} nodes",
                       r"Window::create: \d+ bytes .* RLIMIT_FSIZE \(ulimit -f\) allows: 4096 bytes .*peer 0\]",
                       run("file_size", "0", nodes=nodes), 3)
    for words in (["too_large"], ["too_large_together"]):
        every_rank_reports(f"{words}, {nodes} nodes",
                           r"Window::create: ranks 0-3 need \d{9,} bytes in all, and \d+ bytes are available",
                           run(*words, nodes=nodes), 3)

    # One rank has fewer and fewer descriptors: the job works, or every rank's error names that rank. A rank that can't
    # reach its agent can only print its error.
    name = f"descriptors at the start, {nodes} nodes"
    enough = []
    for descriptors in (4, 6, 8, 10, 12, 13, 40):
        code, out, err, took = run("start", nodes=nodes, before=f'[ "$HMC_RANK" != 2 ] || ulimit -n {descriptors}')
        enough.append(code == 0)
        if code == 0:
            continue
        expect(name, took < SOON_S, f"with {descriptors} it took {took:.1f} s: {out}{err}")
        reports = re.findall(r"^start: .*RLIMIT_NOFILE \(ulimit -n\) is " + str(descriptors), out, re.M)
        expect(name, len(reports) == (RANKS if descriptors > 4 else 1), f"with {descriptors}: {out}{err}")
    expect(name, not enough[0] and enough[-1] and enough == sorted(enough), f"which start: {enough}")

    # Ranks that never close are named once; that alone isn't a failure.
    with tempfile.TemporaryDirectory() as folder:
        code, out, err, _ = run("no_close", folder, nodes=nodes)
    expect(f"without close, {nodes} nodes", (code, err) ==
           (0, "hmcrun: ranks 0-3 ended with status 0 but without Runtime::close\n"), (code, out, err))


# Both layouts at a time: the ranks wait for errors most of the time.
with ThreadPoolExecutor(2) as pool:
    list(pool.map(limits_of_ranks, (1, 2)))

# hmcrun itself.
code, _, err, _ = run("start", ranks=2, nodes=1)
expect("hmcrun", code == 0, err)
started = time.monotonic()
job = subprocess.run(["sh", "-c", 'ulimit -n 12; exec "$0" "$@"', hmcrun, "-np", "2", program, "start"],
                     capture_output=True, text=True, timeout=60, check=False)
expect("hmcrun with 12 descriptors", job.returncode == 125 and time.monotonic() - started < SOON_S and
       re.search(r"needs \d+ descriptors in hmcrun.*RLIMIT_NOFILE \(ulimit -n\) is 12", job.stderr), job)

finish()
