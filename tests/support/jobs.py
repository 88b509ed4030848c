#!/usr/bin/env python3
"""jobs.py [--at-once N] NAME WORD... [::: NAME WORD...]...: runs independent commands in one entry of ctest, N (3) at
a time, because most of the time their processes wait. A failed command doesn't stop the others.

Prints a line for each command with its name, and the output of those that fail. Exits with 1 if one fails, and with 77
if all are skipped (77).
"""
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

SKIPPED = 77


def parse(words):
    """(commands at a time, {name: words})."""
    at_once = 3
    if words[:1] == ["--at-once"]:
        at_once, words = int(words[1]), words[2:]
    commands, command = {}, []
    for word in [*words, ":::"]:
        if word != ":::":
            command.append(word)
            continue
        if not command:  # a list may begin with the separator
            continue
        name, *command = command
        assert command and name not in commands, f"'{name}' needs a command and a name of its own"
        commands[name], command = command, []
    return at_once, commands


def run(name, command):
    """Its status. The time limit is ctest's, which shows the names of the commands that have ended."""
    start = time.monotonic()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False)
    result = {0: "ok", SKIPPED: "skipped"}.get(done.returncode, "FAILED")
    lines = [f"{result:8} {time.monotonic() - start:6.1f} s  {name}"]
    if result != "ok":
        lines = [done.stdout.rstrip(), f"{lines[0]} (status {done.returncode})"]
    print("\n".join(lines), flush=True)
    return done.returncode


def main():
    at_once, commands = parse(sys.argv[1:])
    with ThreadPoolExecutor(at_once) as pool:
        statuses = dict(zip(commands, pool.map(run, commands, commands.values())))
    failed = [name for name, status in statuses.items() if status not in (0, SKIPPED)]
    print(f"{len(statuses) - len(failed)} of {len(statuses)} passed", *(f"FAILED: {name}" for name in failed), sep="\n")
    return 1 if failed or not statuses else SKIPPED if set(statuses.values()) == {SKIPPED} else 0


sys.exit(main())
