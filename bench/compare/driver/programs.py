"""The programs of bench/apps: their rows, their rounds, and the ratios to the best peer."""

import os
import random

from . import contestants, launch, plan, stats

# (heading, program, size, HMC's modes, MPI's modes). A contestant's time is that of its fastest mode.
ROWS = [
    ("stencil 2-D, 64 x 64", "stencil2d", 64, ("signal", "message"), ("isend", "persistent")),
    ("stencil 2-D, 512 x 512", "stencil2d", 512, ("signal", "message"), ("isend", "persistent")),
    ("stencil 2-D, 1536 x 1536", "stencil2d", 1536, ("signal", "message"), ("isend", "persistent")),
    ("stencil 3-D, 32^3", "stencil3d", 32, ("signal", "message"), ("isend", "persistent")),
    ("stencil 3-D, 128^3", "stencil3d", 128, ("signal", "message"), ("isend", "persistent")),
    ("sort, 2000 keys", "sort", 2000, ("alltoallv",), ("alltoallv",)),
    ("sort, 200000 keys", "sort", 200000, ("alltoallv",), ("alltoallv",)),
    *((f"training {size}, {mode}", "training", size, (mode,), (mode,))
      for size in (128, 512) for mode in ("blocking", "overlapped", "persistent")),
    ("FFT 2-D, 512 x 512", "fft2d", 512, ("alltoall",), ("alltoall",)),
    ("FFT 3-D, 64^3", "fft3d", 64, ("alltoall",), ("alltoall",)),
    ("hash table, one at a time", "table", 1024, ("single",), ("single",)),
    ("hash table, batches", "table", 1024, ("batched",), ("batched",)),
]
# Programs that one start runs. Within a round the contestants' times for a group are measured one after the other.
GROUPS = (("stencil2d", "stencil3d"), ("sort",), ("training",), ("fft2d", "fft3d"), ("table",))
NAMES = tuple(name for group in GROUPS for name in group)
FIGURES = ("total", "exposed", "exchange", "wait", "rest", "compute")
ROUNDS, CELL_S, LIMIT_S = 9, 0.12, 60.0

RULES = [
    "Each program is one source, compiled with HMC and with each MPI; only the exchange differs. Before it is measured, "
    "every rank compares its data with a serial computation.",
    "total: time of a step. compute: time of a step without its exchanges. exposed: total less compute. exchange: time in "
    "the library's calls. wait: the part of it before the arrival of the last rank on which the call depends, from the "
    "ranks' time stamps. rest: exchange less wait.",
    "Blocks of steps with and without exchanges alternate. With a core per rank the times are each rank's median step, "
    "averaged over the ranks; with more ranks than cores they are means over whole blocks.",
    "The ratios are medians of the rounds' ratios, to the peer with the lowest median of that figure.",
]


def layouts(cpus, ranks, nodes, names):
    out = []
    for count in (2, 4, 8):
        for node_count in (1, 2):
            if (ranks and count not in ranks) or node_count not in nodes:
                continue
            title = f"{count} ranks on {len(cpus)} cores, " + ("one node" if node_count == 1 else "two nodes over loopback")
            out.append({"name": f"programs-np{count}" + ("-nodes2" if node_count == 2 else ""), "title": title, "np": count,
                        "nodes": node_count, **plan.placed(count, cpus), "rounds": 0, "commands": {}, "settings": {},
                        "contestants": plan.only(["hmc-window", "hmc-private", *plan.MPIS], names)})
    return out


def words_of(rows, contestant):
    modes = 3 if contestant.kind == "hmc" else 4
    return [f"{row[1]}/{mode}:{row[2]}" for row in rows for mode in row[modes]]


def participants(build):
    """The contestants of bench/compare that have these programs."""
    found = [one for one in contestants.everyone(build) if one.kind == "hmc" or one.name in plan.MPIS]
    for one in found:
        one.program = os.path.join(build, "bin", "bench", "apps", "hmc" if one.kind == "hmc" else one.name)
    return found


def command(contestant, layout, words, cpus):
    found = contestant.command(layout, words, cpus)
    if layout["nodes"] == 1 and contestant.name == "openmpi" and any(word.startswith("table/") for word in words):
        found[1:1] = ["--mca", "osc", "^rdma"]  # its default crashes in MPI_Compare_and_swap on vader
    return found


def measure(settings, say):
    """`settings`: build, rounds, seed, cell_s, names (of programs), layouts, chosen. Returns samples and notes."""
    by_name = {one.name: one for one in participants(settings["build"]) if one.name in settings["chosen"]}
    found = {"samples": [], "notes": [], "failed": set()}
    for layout in settings["layouts"]:
        for number in range(settings["rounds"]):
            for index, group in enumerate(GROUPS):
                rows = [row for row in ROWS if row[1] in group and row[1] in settings["names"]]
                order = [by_name[name] for name in layout["contestants"] if name in by_name and _is_here(by_name[name], layout, found)]
                random.Random(f"{settings['seed']}/{layout['name']}/{number}/{index}").shuffle(order)
                for contestant in order if rows else ():
                    say(f"{layout['title']}: round {number + 1} of {settings['rounds']}, {'/'.join(group)}, {contestant.label}")
                    _once(layout, contestant, rows, number, settings["cell_s"], found)
            layout["rounds"] += 1
    found["failed"] = sorted(found["failed"])
    found["versions"] = {name: one.version for name, one in by_name.items() if one.version}
    return found


def _note(found, text):
    if text not in found["notes"]:
        found["notes"].append(text)


def _is_here(contestant, layout, found):
    why = contestant.missing() or contestant.missing_in(layout)
    if why:
        _note(found, f"{contestant.label}, programs, {layout['title']}: {why}")
    return not why


def _once(layout, contestant, rows, number, cell_s, found):
    words = [f"--cell-s={cell_s}", *words_of(rows, contestant)]
    started = command(contestant, layout, words, layout["cpu_list"])
    given = contestant.environment(layout)
    layout["commands"].setdefault(contestant.name, " ".join([*(f"{key}={value}" for key, value in given.items()), *started]))
    outcome = launch.run(started, timeout_s=LIMIT_S, environment=given)
    for line in outcome.lines:
        if "version" in line:
            contestant.version = line["version"]
            layout["settings"][contestant.name] = line["settings"]
        elif "total_p50" in line:
            if layout["nodes"] > 1 and line["loopback_bytes"] < 8 * line["steps"]:
                found["failed"].add(contestant.name)
                _note(found, f"{contestant.label}, {layout['title']}, {line['program']}: its bytes didn't go over loopback")
                continue
            found["samples"].append({"layout": layout["name"], "round": number, "contestant": contestant.name, **{
                key: line[key] for key in line if key not in ("contestant", "np")}})
        elif "lacks" in line:
            _note(found, f"{contestant.label}: {line['program']}/{line['mode']}: {line['lacks']}")
    if outcome.failure:
        found["failed"].add(contestant.name)
        _note(found, f"{contestant.label}, {layout['title']}, {rows[0][1]}: {outcome.failure}")


def rows(layouts_of_run, samples, kinds):
    """One row per layout and program. Each figure has, by contestant, the median and the spread; each contestant of HMC
    has its ratio to the best peer."""
    out = []
    for layout in layouts_of_run:
        suffix = layout["figure"].replace("us", "")
        for heading, program, size, *modes in ROWS:
            times = {}  # contestant -> mode -> round -> sample
            for sample in samples:
                if (sample["layout"], sample["program"], sample["size"]) == (layout["name"], program, size) and (
                        sample["mode"] in modes[0 if kinds[sample["contestant"]] == "hmc" else 1]):
                    times.setdefault(sample["contestant"], {}).setdefault(sample["mode"], {})[sample["round"]] = sample
            if times:
                out.append(_row(layout, heading, {name: _fastest(of_mode, suffix) for name, of_mode in times.items()}, suffix, kinds))
    return out


def _fastest(by_mode, suffix):
    return min(by_mode.values(), key=lambda rounds: stats.median([one["total" + suffix] for one in rounds.values()]))


def _row(layout, heading, times, suffix, kinds):
    row = {"layout": layout["name"], "program": heading, "us": {}, "spread": {}, "best_peer": {}, "to_best_peer": {},
           "modes": {name: next(iter(rounds.values()))["mode"] for name, rounds in times.items()}}
    for figure in FIGURES:
        values = {name: {number: one[figure + suffix] for number, one in rounds.items()} for name, rounds in times.items()}
        row["us"][figure] = {name: stats.median(rounds.values()) for name, rounds in values.items()}
        row["spread"][figure] = {name: stats.spread(list(rounds.values())) for name, rounds in values.items()}
        best = stats.best({name: rounds for name, rounds in values.items() if kinds[name] == "peer"})
        row["best_peer"][figure] = best
        row["to_best_peer"][figure] = {name: stats.ratio(rounds, values[best], layout["rounds"]) for name, rounds in values.items()
                                       if best and kinds[name] == "hmc"}
    return row


def run(chosen, options, rounds, cpus, say):
    """The programs' part of results.json."""
    kinds = {one.name: one.kind for one in participants(options.build)}
    settings = {"build": options.build, "rounds": rounds, "seed": options.seed, "cell_s": CELL_S, "names": options.app or NAMES,
                "chosen": chosen, "layouts": layouts(cpus, options.np, options.nodes, chosen)}
    found = measure(settings, say)
    return {"layouts": settings["layouts"], "rows": rows(settings["layouts"], found["samples"], kinds), "rules": RULES, **found}


# ---- tables, for the terminal and for the report
HEADER = ["program", "HMC", "total", "exposed", "exchange", "wait", "rest", "peer's total", "exposed", "rest", "total/peer", "spread",
          "exposed/peer", "rest/peer", "spread"]


def tables(found, short, time_name, ratio_name):
    """(heading, header, lines) of each layout."""
    for layout in found["layouts"]:
        lines = []
        for row in found["rows"]:
            if row["layout"] != layout["name"]:
                continue
            for name in [one for one in layout["contestants"] if one.startswith("hmc") and one in row["us"]["total"]]:
                lines.append(_cells(row, name, short, time_name, ratio_name))
        if lines:
            yield f"{layout['title']}; us per step, median of {layout['rounds']} rounds", HEADER, lines


def _cells(row, name, short, time_name, ratio_name):
    cells = [row["program"], name.replace("hmc-", "")]
    cells += [time_name(row["us"][figure][name]) for figure in ("total", "exposed", "exchange", "wait", "rest")]
    for figure in ("total", "exposed", "rest"):
        best = row["best_peer"][figure]
        cells.append(f"{time_name(row['us'][figure][best])} {short[best]}" if best else "-")
    for figure in ("total", "exposed", "rest"):
        ratio = row["to_best_peer"][figure].get(name)
        cells.append(ratio_name(ratio) if ratio and ratio["median"] > 0 else "-")
        if figure != "exposed":
            cells.append(f"{ratio['spread'] * 100:.0f}%" if ratio else "-")
    return cells
