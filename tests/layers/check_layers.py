#!/usr/bin/python3
"""Reads every #include and fails on an arrow that points back; see ALLOWED for the arrows.

Also: each top-level folder has a README of at most 80 lines. Usage: check_layers.py [repository]
"""
import re
import sys
from pathlib import Path

# ---- the arrows: who may include whom. A file belongs to the longest room that its path starts with,
# and may always include its own room. `*` stands for one folder: each wire is a room of its own. A room
# may also be one file, where that file alone may do more than its folder.
PUBLIC = "include/hmc"
CORE = ["runtime/base", "runtime/memory", "runtime/topology", "runtime/observe"]
ANY = ["*"]

ALLOWED = {
    "include/hmc": [],
    "runtime/base": [PUBLIC],
    "runtime/memory": [PUBLIC, "runtime/base"],
    "runtime/topology": [PUBLIC, "runtime/base"],
    "runtime/observe": [PUBLIC, "runtime/base"],
    "runtime/transport": [PUBLIC, *CORE],
    "runtime/transport/wires.cpp": [PUBLIC, *CORE, "runtime/transport", "runtime/transport/*", "runtime/transport/tcp",
                                    "runtime/transport/ucx"],  # lists the wires
    "runtime/transport/*": [PUBLIC, *CORE, "runtime/transport"],
    "runtime/transport/messages": [PUBLIC, *CORE, "runtime/transport"],
    "runtime/transport/tcp": [PUBLIC, *CORE, "runtime/transport", "runtime/transport/messages"],  # carry messages
    "runtime/transport/ucx": [PUBLIC, *CORE, "runtime/transport", "runtime/transport/messages"],
    "runtime/window": [PUBLIC, *CORE, "runtime/transport"],  # its abstract headers, never a wire
    "collectives": [PUBLIC, "runtime/base", "runtime/window", "collectives/schedule", "collectives/select"],
    # never transport
    "collectives/select": [PUBLIC, "runtime/base", "collectives/schedule"],  # pure: hmcinfo asks it, too
    "bootstrap": [PUBLIC, "runtime/base"],  # never transport
    "collectives/schedule": [PUBLIC, "runtime/base"],  # pure: no wire, no window, no clock
    "verify": [PUBLIC, "runtime/base", "collectives/schedule"],
    "sim": [PUBLIC, "runtime/base", "collectives/schedule", "collectives/select", "runtime/job/machine_model.hpp"],
    "runtime/job": ANY,  # the composition root
    "runtime/job/machine_model.hpp": ANY,  # what hmcinfo and hmc-sim ask of it
    "launcher": [PUBLIC, "runtime/base", "runtime/topology", "bootstrap"],  # never window
    "launcher/info": [PUBLIC, *CORE, "bootstrap", "runtime/transport", "launcher",  # hmcinfo: what was found
                      "collectives/schedule", "collectives/select", "runtime/job/machine_model.hpp"],  # and what would be taken
    "examples": [PUBLIC],
    "bench": [PUBLIC],
    "bench/micro": ANY,  # one step of the internals at a time
    "python": [PUBLIC],
    "tests": ANY,
}

# ---- libraries of others: who may include their headers.
LIBRARIES = {
    "fmt/": ["runtime", "collectives", "bootstrap", "launcher", "verify", "sim", "bench", "tests"],
    "hwloc": ["runtime/topology", "tests"],
    "ucp/": ["runtime/transport/ucx", "tests", "bench"],
    "uct/": ["runtime/transport/ucx", "tests"],
    "ucs/": ["runtime/transport/ucx", "tests"],
    "openssl/": ["bootstrap", "tests"],
    "CLI/": ["launcher", "verify", "sim", "bench"],
    "nlohmann/": ["launcher", "sim", "bench", "tests", "collectives/select"],
    "gtest/": ["tests"],
    "gmock/": ["tests"],
    "benchmark/": ["bench"],
    "mpi.h": ["bench", "tests"],
}

# ---- names that come in through a header that a room may include, and still aren't its business.
FORBIDDEN_NAMES = {
    "collectives": re.compile(r"\btransport::"),  # window's verbs are all that collectives know of wires
}

# Outside the library a program may name its own files from its own folder, or from one above it.
OWN_FOLDERS = ["bench", "examples", "tests"]

SOURCES = {".cpp", ".hpp", ".c", ".h", ".cu", ".cuh"}
TOP_FOLDERS = ["bench", "bootstrap", "cmake", "collectives", "docs", "examples", "include", "launcher", "python",
               "runtime", "sim", "tests", "verify"]
README_LINES = 80
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def rooms_of(path):
    """Every room that `path` lies in, as its table name, longest first, and of those the ones without `*`."""
    found = [str(path)] if str(path) in ALLOWED else []
    for room in ALLOWED:
        parts = room.split("/")
        if len(path.parts) > len(parts) and all(want in ("*", got) for want, got in zip(parts, path.parts)):
            found.append(room)
    return sorted(found, key=lambda room: (-len(room.split("/")), "*" in room))


def place_of(path, room):
    """The folder that stands for `room` here: runtime/transport/shm for runtime/transport/*."""
    return "/".join(path.parts[: len(room.split("/"))])


def is_allowed(source, target):
    source_rooms, target_rooms = rooms_of(source), rooms_of(target)
    if not source_rooms or not target_rooms:
        return False
    allowed, target_room = ALLOWED[source_rooms[0]], target_rooms[0]
    same = place_of(source, source_rooms[0]) == place_of(target, target_room)
    alike = [room for room in target_rooms if len(room.split("/")) == len(target_room.split("/"))]
    return same or allowed == ANY or any(room in allowed for room in alike)


def find_target(root, source, name):
    """The file that this quoted include means, as a path from the root; None if there is none."""
    folders = [Path()]
    if source.parts[0] in OWN_FOLDERS:
        folders += list(source.parents)[:-1]
    return next((folder / name for folder in folders if (root / folder / name).is_file()), None)


def complaint_about(root, source, bracket, name):
    """Why this include is wrong, or None."""
    if name.startswith("hmc/"):
        target = Path("include") / name
        if not (root / target).is_file():
            return f"<{name}>: no such public header"
        if bracket == '"':
            return f'"{name}": public headers are included as <{name}>'
        return None
    if bracket == "<":
        for prefix, rooms in LIBRARIES.items():
            if name.startswith(prefix) and not any(source.is_relative_to(room) for room in rooms):
                return f"<{name}>: only {', '.join(rooms)} may include this library"
        return None
    target = find_target(root, source, name)
    if target is None:
        if (root / source.parent / name).is_file():
            return f'"{name}": internal headers are included by their path from the root'
        return f'"{name}": no such file'
    if not is_allowed(source, target):
        return f'"{name}": {source.parent} may not include {target.parent}'
    return None


def complaint_about_names(source, line):
    for room, names in FORBIDDEN_NAMES.items():
        found = names.search(line.split("//")[0]) if source.is_relative_to(room) else None
        if found:
            return f"{found.group()}: {room} may not name it"
    return None


def check_includes(root):
    complaints = []
    for folder in sorted({room.split("/")[0] for room in ALLOWED}):
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in SOURCES:
                continue
            source = file.relative_to(root)
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                match = INCLUDE.match(line)
                why = complaint_about(root, source, *match.groups()) if match else complaint_about_names(source, line)
                if why:
                    complaints.append(f"{source}:{number}: {why}")
    return complaints


def check_readmes(root):
    complaints = []
    for folder in TOP_FOLDERS:
        readme = root / folder / "README.md"
        if not (root / folder).is_dir():
            continue
        if not readme.is_file():
            complaints.append(f"{folder}: has no README.md")
        elif len(readme.read_text(encoding="utf-8").splitlines()) > README_LINES:
            complaints.append(f"{folder}/README.md: more than {README_LINES} lines")
    return complaints


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()
    complaints = check_includes(root) + check_readmes(root)
    print("\n".join(complaints) if complaints else "every include points the right way")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
