#!/usr/bin/env python3
"""check_run_paths.py FOLDER: no program or library below FOLDER searches the current directory for libraries.

The loader takes an empty or relative entry of RPATH and RUNPATH relative to the current directory."""

import os
import re
import subprocess
import sys

OTHERS = ("peers", "CMakeFiles")  # libraries of other projects, and CMake's own probes
OWN_PACKAGES = ("hmc", "_hmc", "hamr", "memfabric", "mf_")  # in a Python environment


def elf_files(folder):
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in OTHERS]
        if os.path.basename(parent) == "site-packages":
            folders[:] = [name for name in folders if name.startswith(OWN_PACKAGES)]
        for path in (os.path.join(parent, name) for name in names):
            if path.endswith(".o") or os.path.islink(path) or not os.path.isfile(path):
                continue
            with open(path, "rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


files = list(elf_files(sys.argv[1]))
if not any(os.path.basename(path) == "hmcrun" for path in files):
    sys.exit(f"{sys.argv[1]}: no hmcrun: the folder is neither a build nor an installation")
wrong = []
for at in range(0, len(files), 100):
    text = subprocess.run(["readelf", "-dW", *files[at:at + 100], sys.executable], capture_output=True, text=True,
                          check=True).stdout
    path = None
    for line in text.splitlines():
        if line.startswith("File: "):
            path = line[len("File: "):]
        entry = re.search(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]$", line)
        if entry and not all(each.startswith(("/", "$ORIGIN", "${ORIGIN}")) for each in entry[1].split(":")):
            wrong.append(f"{path}: {entry[1]!r} has an entry that is relative to the current directory")
print(f"{len(files)} files")
sys.exit("\n".join(wrong) if wrong else 0)
