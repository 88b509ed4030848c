#!/usr/bin/env python3
"""leftover_jobs_test.py HMCRUN PROGRAM COUNT: consecutive jobs of two processes, on one node and on two in turn, leave no
file and no process behind."""
import os
import subprocess
import sys
import time


def our_files():
    return {f"{folder}/{name}" for folder in ("/dev/shm", "/tmp") for name in os.listdir(folder)
            if "hmc" in name or "ucx" in name}


def processes_of(program):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/exe") == program:
                found.append(pid)
        except OSError:  # it has ended, or belongs to another user
            pass
    return found


def main():
    hmcrun, program, count = sys.argv[1], os.path.realpath(sys.argv[2]), int(sys.argv[3])
    before = our_files()
    for job in range(count):
        done = subprocess.run([hmcrun, "-np", "2", "--nodes", str(1 + job % 2), "--timeout", "60", program],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"job {job} ended with {done.returncode}:\n{done.stdout}")
    # Files of other jobs on this machine disappear when those end; files that these jobs left stay.
    limit = time.monotonic() + 30
    while True:
        left = sorted(our_files() - before)
        alive = processes_of(program)
        if not (left or alive) or time.monotonic() > limit:
            break
        time.sleep(0.1)
    print(f"{count} jobs: {len(left)} files and {len(alive)} processes left {left} {alive}")
    sys.exit(bool(left or alive))


main()
