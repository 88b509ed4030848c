"""From samples to results.json: medians, ratios, marks; and the check of a results.json."""

from . import stats
from .contestants import floor_of

FORMAT = 3


def rows(layouts, contestants, samples, missing, withdrawn=None):
    """One row per layout, operation and size. `withdrawn`: cells with a failure in any round; the times of their other
    rounds aren't reported."""
    withdrawn = withdrawn or {}
    kinds = {c.name: c.kind for c in contestants}
    by_cell = {}
    for sample in samples:
        key = (sample["layout"], sample["op"], sample["bytes"])
        by_cell.setdefault(key, {}).setdefault(sample["contestant"], {})[sample["round"]] = sample
    out = []
    for layout in layouts:
        for operation, cells in layout["cells"].items():
            for cell in cells:
                size = int(cell.split(":")[1]) if ":" in cell else 0
                key_of = {name: (layout["name"], name, operation, size) for name in layout["contestants"]}
                here = {name: rounds for name, rounds in by_cell.get((layout["name"], operation, size), {}).items()
                        if key_of[name] not in withdrawn}
                why = {name: withdrawn.get(key) or missing[key] for name, key in key_of.items()
                       if name not in here and (key in withdrawn or key in missing)}
                out.append(_row(layout, operation, size, here, kinds, why))
    return out


def _row(layout, operation, size, here, kinds, why):
    times = {name: {r: sample[layout["figure"]] for r, sample in rounds.items()} for name, rounds in here.items()}
    hurried = {name for name, rounds in here.items() if any(sample.get("hurried") for sample in rounds.values())}
    shares = {name: [sample["others"] for sample in rounds.values() if sample.get("others") is not None]
              for name, rounds in here.items()}
    row = {
        "layout": layout["name"], "op": operation, "bytes": size,
        "us": {name: stats.median(rounds.values()) for name, rounds in times.items()},
        "least": {name: min(rounds.values()) for name, rounds in times.items()},
        "most": {name: max(rounds.values()) for name, rounds in times.items()},
        "spread": {name: stats.spread(list(rounds.values())) for name, rounds in times.items()},
        "rounds": {name: len(rounds) for name, rounds in times.items()},
        "noisy": [name for name, rounds in times.items() if stats.is_noisy(list(rounds.values())) or
                  stats.too_few(len(rounds), layout["rounds"]) or name in hurried],
        "loaded": {name: stats.median(known) for name, known in shares.items() if stats.is_loaded(known)},
        "missing": why, **_against_peers(times, kinds, layout), "to_floor": {}, "with_read": {},
    }
    for name in _ours(times, kinds):
        floor = "floor-private" if operation == "hello" else floor_of(name, layout)
        if floor in times:
            row["to_floor"][name] = stats.ratio(times[name], times[floor], layout["rounds"])
    if operation not in ("barrier", "hello"):
        both = layout["figure"].replace("us_", "us_both_")
        with_read = {name: {r: sample[both] for r, sample in rounds.items()} for name, rounds in here.items()}
        row["with_read"] = {"us": {name: stats.median(rounds.values()) for name, rounds in with_read.items()},
                            **_against_peers(with_read, kinds, layout)}
    return row


def _ours(times, kinds):
    return [name for name in times if kinds[name] == "hmc"]


def _against_peers(times, kinds, layout):
    best_peer = stats.best({name: rounds for name, rounds in times.items() if kinds[name] == "peer"})
    ratios = {name: stats.ratio(times[name], times[best_peer], layout["rounds"]) for name in _ours(times, kinds)
              if best_peer}
    return {"best_peer": best_peer, "to_best_peer": ratios}


NUMBER, TEXT, LIST, TABLE = (int, float), str, list, dict

TOP = {"format": int, "mode": TEXT, "seed": int, "date": TEXT, "commit": TEXT, "machine": TABLE, "rules": LIST, "layouts": LIST,
       "contestants": LIST, "rows": LIST, "samples": LIST, "notes": LIST, "failed": LIST, "elapsed_s": NUMBER}
MACHINE = {"cpu": TEXT, "cores": int, "kernel": TEXT, "system": TEXT, "load_before": NUMBER, "load_after": NUMBER,
           "steal_share": NUMBER}
CONTESTANT = {"name": TEXT, "label": TEXT, "kind": TEXT, "buffers": TEXT, "version": TEXT, "absent": TEXT}
LAYOUT = {"name": TEXT, "title": TEXT, "np": int, "nodes": int, "pinned": bool, "figure": TEXT, "rounds": int, "cpu_list": LIST,
          "contestants": LIST, "commands": TABLE, "settings": TABLE, "cpus": TABLE, "loopback_bytes": TABLE}
ROW = {"layout": TEXT, "op": TEXT, "bytes": int, "us": TABLE, "spread": TABLE, "rounds": TABLE, "noisy": LIST, "loaded": TABLE,
       "to_best_peer": TABLE, "to_floor": TABLE, "with_read": TABLE, "missing": TABLE}
SAMPLE = {"layout": TEXT, "contestant": TEXT, "op": TEXT, "bytes": int, "round": int}


def problems(results):
    """The mistakes of a results.json; an empty list if there are none."""
    found = []
    if not _check("results", results, TOP, found):
        return found
    if results["format"] != FORMAT:
        found.append(f"results: format {results['format']}, not {FORMAT}")
    _check("machine", results["machine"], MACHINE, found)
    for kind, shape in (("contestants", CONTESTANT), ("layouts", LAYOUT), ("rows", ROW), ("samples", SAMPLE)):
        for index, one in enumerate(results[kind]):
            _check(f"{kind}[{index}]", one, shape, found)
    if not found:
        _check_rows(results, found)
    return found


def _check(where, thing, shape, found):
    if not isinstance(thing, dict):
        found.append(f"{where}: isn't an object")
        return False
    before = len(found)
    for key, kind in shape.items():
        if key not in thing:
            found.append(f"{where}: lacks {key}")
        elif not isinstance(thing[key], kind) or (kind is not bool and isinstance(thing[key], bool)):
            found.append(f"{where}: {key} is {thing[key]!r}")
    return len(found) == before


def _check_rows(results, found):
    """Each row has a time for each of its contestants, or the reason why there is none."""
    layouts = {layout["name"]: layout for layout in results["layouts"]}
    for row in results["rows"]:
        where = f"{row['layout']} {row['op']} {row['bytes']}"
        if row["layout"] not in layouts:
            found.append(f"{where}: unknown layout")
            continue
        for name in layouts[row["layout"]]["contestants"]:
            if (name in row["us"]) == (name in row["missing"]):
                found.append(f"{where}: {name} has neither a time nor a reason, or both")
            if name in row["us"] and not row["us"][name] >= 0:
                found.append(f"{where}: {name} took {row['us'][name]}")
