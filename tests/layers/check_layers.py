#!/usr/bin/python3
"""Reads every #include, forward declaration and downcast. Fails on an arrow that ALLOWED doesn't contain, on a cycle
between folders, and on a cast to a type whose base belongs to another folder: that folder keeps what it may not know.

A declaration of a type is an arrow to the file that defines it, as an #include of that file would be.
Sub-folders are nodes of their own in the search for cycles: see include_graph.py.
Also: each top-level folder has a README of at most 80 lines. Usage: check_layers.py [repository]
"""
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the repository stays as it is
import declarations  # pylint: disable=wrong-import-position
import include_graph  # pylint: disable=wrong-import-position

# ---- the allowed includes: room -> rooms. A room is a folder with its sub-folders. A file belongs to the longest room
# that is a prefix of its path, and may always include its own room. `*` matches one folder: each wire is a separate
# room. A room may also be one file, if that file may include more than its folder, or more rooms may include it.
PUBLIC = "include/hmc"
OLDER_SOURCES = "include/hmc/older/src"
CORE = ["runtime/base", "runtime/memory", "runtime/topology", "runtime/observe", "runtime/progress"]
SCHEDULE = ["collectives/schedule", "collectives/schedule/algorithms"]  # not parts: only algorithms build from them
ANY = ["*"]

ALLOWED = {
    "include/hmc": [],
    "runtime/base": [PUBLIC],
    "runtime/control": [PUBLIC, "runtime/base"],
    "runtime/memory": [PUBLIC, "runtime/base", "runtime/memory/kernels"],
    "runtime/memory/kernels": [PUBLIC],  # device code and its arguments
    "runtime/memory/vendors": [PUBLIC, "runtime/base", "runtime/memory"],
    "runtime/topology": [PUBLIC, "runtime/base"],
    "runtime/observe": [PUBLIC, "runtime/base"],
    "runtime/progress": [PUBLIC, "runtime/base"],
    "runtime/transport": [PUBLIC, *CORE],
    "runtime/transport/*": [PUBLIC, *CORE, "runtime/transport"],
    "runtime/transport/shm/peer_reads.hpp": [PUBLIC, "runtime/base"],  # process_vm_readv; needs no wire
    "runtime/transport/am": [PUBLIC, *CORE, "runtime/transport"],
    "runtime/transport/am/tcp": [PUBLIC, *CORE, "runtime/transport", "runtime/transport/am"],  # carry messages
    "runtime/transport/ucx": [PUBLIC, *CORE, "runtime/transport", "runtime/transport/am"],
    "runtime/rma": [PUBLIC, *CORE, "runtime/transport"],  # its abstract headers, never a wire
    "runtime/device": [PUBLIC, *CORE, "runtime/transport", "runtime/rma"],
    "runtime/p2p": [PUBLIC, *CORE, "runtime/transport", "runtime/rma", "runtime/device"],
    "runtime/pool": [PUBLIC, *CORE, "runtime/transport", "runtime/rma", "runtime/transport/shm/peer_reads.hpp"],
    "collectives": [PUBLIC, "runtime/base", "runtime/progress", "runtime/rma", "runtime/device", *SCHEDULE, "collectives/select",
                    "collectives/mismatch", "collectives/args/signature.hpp",
                    "runtime/transport/shm/peer_reads.hpp"],  # no other part of transport
    "collectives/mismatch": [PUBLIC, "runtime/base", "runtime/progress", "runtime/rma", "collectives/args/signature.hpp"],
    "collectives/args/signature.hpp": [PUBLIC, "runtime/base"],
    "collectives/select": [PUBLIC, "runtime/base", *SCHEDULE],  # pure: hmcinfo calls it too
    "collectives/schedule": [PUBLIC, "runtime/base"],  # pure: no wire, no window, no clock
    "collectives/schedule/parts": [PUBLIC, "runtime/base", "collectives/schedule"],
    "collectives/schedule/algorithms": [PUBLIC, "runtime/base", "collectives/schedule", "collectives/schedule/parts"],
    "bootstrap": [PUBLIC, "runtime/base", "runtime/control"],  # never transport
    "bootstrap/tcp": [PUBLIC, "runtime/base", "runtime/control", "bootstrap"],
    "bootstrap/launchers": [PUBLIC, "runtime/base", "runtime/control", "bootstrap", "bootstrap/tcp"],
    "bootstrap/detect": [PUBLIC, "runtime/base", "runtime/control", "bootstrap", "bootstrap/tcp", "bootstrap/launchers"],
    "verify": [PUBLIC, "runtime/base", *SCHEDULE],
    "sim": [PUBLIC, "runtime/base", *SCHEDULE, "collectives/select", "job/machine_model.hpp"],
    "job": ANY,  # the composition root
    "capi": [PUBLIC, "runtime/base"],
    "include/hmc.h": [PUBLIC],  # the older API; mem.h and status.h are other names of it
    "compat/hmc": [PUBLIC, *CORE, "runtime/transport", "runtime/rma", "runtime/control", "job/wires.hpp"],
    "compat/hamr": [PUBLIC],  # headers that are installed
    "compat/memfabric": [PUBLIC],  # a library of its own
    "job/machine_model.hpp": ANY,  # called by hmcinfo and hmc-sim
    "job/wires.hpp": ANY,  # called by hmcinfo
    "launcher": [PUBLIC, "runtime/base", "runtime/control", "runtime/topology", "bootstrap", "bootstrap/tcp"],  # never window
    "launcher/info": [PUBLIC, *CORE, "bootstrap", "bootstrap/detect", "launcher",
                      *SCHEDULE, "collectives/select", "job/machine_model.hpp", "job/wires.hpp"],
    "examples": [PUBLIC],
    "bench": [PUBLIC],
    "bench/micro": ANY,  # one step of the internals at a time
    "python": [PUBLIC],
    "tests": ANY,
}

# ---- external libraries, and the folders that may include their headers.
LIBRARIES = {
    "fmt/": ["runtime", "collectives", "bootstrap", "job", "capi", "compat", "launcher", "verify", "sim", "bench", "tests"],
    "hwloc": ["runtime/topology", "tests"],
    "infiniband/": ["runtime/transport/rdma", "tests"],
    "ucp/": ["runtime/transport/ucx", "tests", "bench"],
    "uct/": ["runtime/transport/ucx", "tests"],
    "ucs/": ["runtime/transport/ucx", "tests"],
    "pmix.h": ["bootstrap/launchers"],
    "openssl/": ["runtime/control", "runtime/base/tls.cpp", "runtime/transport/keystream.cpp", "tests"],
    "CLI/": ["launcher", "verify", "sim", "bench"],
    "nanobind/": ["python"],
    "nlohmann/": ["launcher", "sim", "bench", "tests", "collectives/select"],
    "gtest/": ["tests"],
    "gmock/": ["tests"],
    "benchmark/": ["bench"],
    "mpi.h": ["bench", "tests", "include/hmc/mpi.hpp"],
}

# ---- names that a room must not use, although an allowed header declares them.
FORBIDDEN_NAMES = {
    "collectives": re.compile(r"\btransport::(?!(PeerReads|ReadProbe)\b)"),  # collectives use window's verbs
}

# ---- a public class names the type behind it, and includes nothing of it.
DECLARES_ANY = [PUBLIC]

# ---- casts to a type whose base belongs to another folder: (file, type) and the reason. The check fails on an entry
# without such a cast, so this table only shrinks.
KNOWN_DOWNCASTS = {}
SEES_ALL = ["bench", "tests"]  # they look into other rooms' objects

TOP_FOLDERS = ["bench", "bootstrap", "capi", "cmake", "collectives", "compat", "docs", "examples", "include", "job", "launcher", "python",
               "runtime", "sim", "tests", "verify"]
README_LINES = 80


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
    same = source.parent == target.parent or place_of(source, source_rooms[0]) == place_of(target, target_room)
    alike = [room for room in target_rooms if len(room.split("/")) == len(target_room.split("/"))]
    return same or allowed == ANY or any(room in allowed for room in alike)


def complaint_about(root, source, bracket, name):
    """The reason why this include isn't allowed, or None."""
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
    if source.parent == Path("python/hmc/torch/adapter") and (root / source.parent / name).is_file():
        return None  # compiled on the user's machine, where this folder has no root above it
    if source.is_relative_to("tests") and name.startswith("../src/") and (root / OLDER_SOURCES / name).is_file():
        return None  # as the older library's programs name them; OLDER_SOURCES is on their include path
    target = include_graph.find_target(root, source, name)
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
            if file.suffix not in include_graph.SOURCES:
                continue
            source = file.relative_to(root)
            for number, line, bracket, name in include_graph.includes_of(file):
                why = complaint_about(root, source, bracket, name) if name else complaint_about_names(source, line)
                if why:
                    complaints.append(f"{source}:{number}: {why}")
    return complaints


def check_declarations(tree):
    return [
        f"{source}:{line}: {name}: {source.parent} may not declare a type of {target}"
        for source, line, name, target in tree.declarations()
        if not is_allowed(source, target) and not any(source.is_relative_to(room) for room in DECLARES_ANY)
    ]


def check_downcasts(tree, known):
    complaints, met = [], set()
    for source, line, name, target, below in tree.downcasts():
        if source.parts[0] in SEES_ALL:
            continue
        met.add((str(source), name))
        if (str(source), name) not in known:
            complaints.append(f"{source}:{line}: {name}: a cast to a type of {target} whose base is of {below}")
    return complaints + [f"{file} has no cast to {name}: delete its line in KNOWN_DOWNCASTS"
                         for file, name in known if (file, name) not in met]


def read_graph(root, tree):
    """The include graph, with the declarations of types as further arrows."""
    graph = include_graph.read_graph(root)
    for source, line, _, target in tree.declarations():
        if source.parent != target.parent and {source.parts[0], target.parts[0]} <= set(include_graph.GRAPH_FOLDERS):
            graph.setdefault(str(source.parent), {}).setdefault(str(target.parent), f"{source}:{line}")
    return graph


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


def check(root, known_arrows, known_downcasts):
    tree = declarations.Tree(root, sorted({room.split("/")[0] for room in ALLOWED}), include_graph.SOURCES)
    return (check_includes(root) + check_declarations(tree) + check_downcasts(tree, known_downcasts)
            + include_graph.check_cycles(read_graph(root, tree), known_arrows) + check_readmes(root))


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()
    complaints = check(root, include_graph.KNOWN_BACK_ARROWS, KNOWN_DOWNCASTS)
    print("\n".join(complaints) if complaints else "no include, declaration or cast points back, and no folders include each other")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
