#!/usr/bin/python3
"""The include graph between folders, and its picture in docs/include_graph.md.

A folder's own files are a node apart from its sub-folders. An arrow a -> b: a file of a includes a file of b.
Usage: include_graph.py [--check] [repository]. Without --check it writes the picture.
"""
import re
import sys
from pathlib import Path

SOURCES = {".cpp", ".hpp", ".c", ".h", ".cu", ".cuh", ".inl", ".in"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
# Outside the library a program may name its own files from its own folder, or from one above it.
OWN_FOLDERS = ["bench", "examples", "tests"]
# The top-level folders whose sub-folders must make no cycle.
GRAPH_FOLDERS = ["bench", "bootstrap", "collectives", "launcher", "runtime", "sim", "verify"]

# ---- arrows that close a cycle today: (from, to) and the reason. The check fails on an entry that no longer closes a
# cycle, so this table only shrinks.
KNOWN_BACK_ARROWS = {}

PICTURE = Path("docs/include_graph.md")
HEAD = """# Include graph between folders

Written by `tests/layers/include_graph.py`; `ctest -R layers` fails if this page is out of date.

- `a --> b`: a file of folder a includes a file of folder b. A folder and its sub-folders are separate nodes.
- An arrow that a longer path implies isn't drawn. Public headers (`include/hmc`) are omitted.
- A dotted arrow closes a known cycle: `KNOWN_BACK_ARROWS` in the script states the reason.
"""


def find_target(root, source, name):
    """The file that a quoted include names, as a path from the root; None if there is none."""
    folders = [Path()]
    if source.parts[0] in OWN_FOLDERS:
        folders += list(source.parents)[:-1]
    return next((folder / name for folder in folders if (root / folder / name).is_file()), None)


def includes_of(file):
    """Yields (line number, line, bracket, name); bracket and name are None where the line includes nothing."""
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        yield number, line, *(match.groups() if match else (None, None))


def read_graph(root):
    """{folder: {included folder: "file:line" of one such include}}"""
    graph = {}
    for folder in GRAPH_FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in SOURCES:
                continue
            source = file.relative_to(root)
            arrows = graph.setdefault(str(source.parent), {})
            for number, _, bracket, name in includes_of(file):
                target = find_target(root, source, name) if bracket == '"' else None
                if target and target.parent != source.parent and target.parts[0] in GRAPH_FOLDERS:
                    arrows.setdefault(str(target.parent), f"{source}:{number}")
    return graph


def without(graph, arrows):
    return {a: {b: where for b, where in targets.items() if (a, b) not in arrows} for a, targets in graph.items()}


def find_path(graph, start, goal):
    """A shortest path [start, ..., goal]; None if there is none."""
    came_from = {start: None}
    queue = [start]
    for node in queue:
        if node == goal:
            path = [node]
            while came_from[path[-1]] is not None:
                path.append(came_from[path[-1]])
            return path[::-1]
        for target in sorted(graph.get(node, {})):
            if target not in came_from:
                came_from[target] = node
                queue.append(target)
    return None


def check_cycles(graph, known):
    """One complaint per cycle that isn't known, and per known arrow that closes no cycle."""
    rest = without(graph, known)
    complaints, seen = [], set()
    for a, targets in sorted(rest.items()):
        for b in sorted(targets):
            path = find_path(rest, b, a)
            if path is None or frozenset(path) in seen:
                continue
            seen.add(frozenset(path))
            cycle = [a, *path]
            places = ", ".join(rest[one][other] for one, other in zip(cycle, cycle[1:]))
            complaints.append(f"cycle of includes: {' -> '.join(cycle)} ({places})")
    for a, b in known:
        if b not in graph.get(a, {}) or find_path(rest, b, a) is None:
            complaints.append(f"{a} -> {b} closes no cycle: delete its line in KNOWN_BACK_ARROWS")
    return complaints


def picture_of(graph, known):
    """The page docs/include_graph.md: a Mermaid flowchart."""
    rest = without(graph, known)
    nodes = sorted(set(graph) | {target for targets in graph.values() for target in targets})
    lines = [HEAD, "```mermaid", "flowchart TD"]
    for top in GRAPH_FOLDERS:
        inside = [node for node in nodes if node.split("/")[0] == top]
        if inside:
            lines += [f"  subgraph {top}_", *(f"    {node.replace('/', '_')}[{node}]" for node in inside), "  end"]
    for a, targets in sorted(rest.items()):
        for b in sorted(targets):
            if not any(find_path(rest, other, b) for other in targets if other != b):
                lines.append(f"  {a.replace('/', '_')} --> {b.replace('/', '_')}")
    lines += [f"  {a.replace('/', '_')} -.-> {b.replace('/', '_')}" for a, b in sorted(known) if b in graph.get(a, {})]
    return "\n".join([*lines, "```", ""])


def main(arguments, known):
    check = arguments[:1] == ["--check"]
    rest = arguments[1:] if check else arguments
    root = Path(rest[0] if rest else Path(__file__).parents[2]).resolve()
    file, text = root / PICTURE, picture_of(read_graph(root), known)
    if not check:
        file.write_text(text, encoding="utf-8")
    elif not file.is_file() or file.read_text(encoding="utf-8") != text:
        print(f"{PICTURE} is out of date: run tests/layers/include_graph.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], KNOWN_BACK_ARROWS))
