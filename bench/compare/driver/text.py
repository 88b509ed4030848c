"""Tables for the terminal."""

from . import programs, stats

SHORT = {"floor-window": "bare loop win", "floor-private": "bare loop priv", "floor-tcp": "bare loop tcp",
         "hmc-window": "HMC win", "hmc-private": "HMC priv", "openmpi5": "Open MPI 5", "mpich5": "MPICH 5",
         "intelmpi": "Intel MPI", "openmpi": "Open MPI deb", "mpich": "MPICH deb", "gloo": "Gloo"}


def size_name(size):
    for unit, letter in ((1 << 20, "M"), (1 << 10, "K")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)


def time_name(us):
    if us >= 1000:
        return f"{us:.0f}"
    if us >= 10:
        return f"{us:.1f}"
    return f"{us:.3f}" if us < 1 else f"{us:.2f}"


def ratio_name(ratio):
    if ratio is None:
        return "-"
    value = ratio["median"]
    text = f"{value:.0f}" if value >= 100 else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"
    return text + ("~" if ratio["noisy"] else "")


def _hmc_names(layout):
    return [name for name in layout["contestants"] if name.startswith("hmc")]


def _cells_of(row, layout, first, per_unit):
    cells = list(first)
    for name in layout["contestants"]:
        if name in row["us"]:
            rounds = row["rounds"][name]
            cells.append(time_name(row["us"][name] / per_unit) + ("~" if name in row["noisy"] else "") +
                         (f" {rounds}/{layout['rounds']}" if rounds < layout["rounds"] else ""))
        else:
            cells.append("-")
    ours = _hmc_names(layout)
    cells += [ratio_name(row["to_best_peer"].get(name)) for name in ours]
    if _has_reads(layout):
        cells += [ratio_name(row["with_read"].get("to_best_peer", {}).get(name)) for name in ours]
    cells += [ratio_name(row["to_floor"].get(name)) for name in ours]
    cells.append(SHORT.get(row["best_peer"], "-"))
    cells.append(_worst(row["spread"].get(name) for name in ours))
    cells.append(_worst((row["to_best_peer"].get(name) or {}).get("spread") for name in ours))
    cells.append(marks(row, layout))
    return cells


def marks(row, layout):
    """Reasons to doubt a row's times: too few rounds, or a machine that other processes used."""
    found = []
    fewest = min(row["rounds"].values(), default=layout["rounds"])
    if row["rounds"] and stats.too_few(fewest, layout["rounds"]):
        found.append(f"few rounds: {fewest}")
    if row["loaded"]:
        found.append(f"loaded: {max(row['loaded'].values()) * 100:.0f}%")
    return ", ".join(found)


def _worst(shares):
    known = [share for share in shares if share is not None]
    return f"{max(known) * 100:.0f}%" if known else "-"


def _has_reads(layout):
    return layout["figure"] != "us"


def _header_of(layout, first):
    short = SHORT | layout.get("labels", {})
    ours = [SHORT[name].replace("HMC ", "") for name in _hmc_names(layout)]
    if len(ours) == 1:
        ours = ["HMC"]
    return (list(first) + [short[name] for name in layout["contestants"]] + [f"{o}/peer" for o in ours] +
            ([f"{o}+read/peer" for o in ours] if _has_reads(layout) else []) + [f"{o}/bare" for o in ours] +
            ["best peer", "spread", "of ratio", "marks"])


FIGURES = {"us_p50": "median call, each rank on a core of its own",
           "us_mean": "mean call, rank r on core r modulo their number, including the wait for a core"}


def tables(results):
    """(heading, header, lines) of each layout, and of all start-ups together."""
    hello = None
    for layout in results["layouts"]:
        rows = [row for row in results["rows"] if row["layout"] == layout["name"]]
        if layout["figure"] == "us":
            hello = hello or ("start, one barrier, stop; milliseconds, median of the rounds", _header_of(layout, ["np"]), [])
            hello[2].extend(_cells_of(row, layout, [str(layout["np"])], 1000.0) for row in rows)
            continue
        heading = f"{layout['title']}; microseconds, {FIGURES[layout['figure']]}, median of {layout['rounds']} rounds"
        lines = [_cells_of(row, layout, [row["op"], size_name(row["bytes"]) if row["bytes"] else "-"], 1.0)
                 for row in rows]
        yield heading, _header_of(layout, ["op", "bytes"]), lines
    if hello:
        yield hello


def omissions(results):
    """One line for each contestant, layout and reason: the cells without a time, and the reason."""
    labels = {one["name"]: one["label"] for one in results["contestants"]}
    absent = {one["name"] for one in results["contestants"] if one["absent"]}
    titles = {layout["name"]: layout["title"] for layout in results["layouts"]}
    found = {}
    for row in results["rows"]:
        for name, why in row["missing"].items():
            if name not in absent:
                sizes = found.setdefault((labels[name], titles[row["layout"]], why), {}).setdefault(row["op"], [])
                sizes += [size_name(row["bytes"])] if row["bytes"] else []
    return [f"{label}, {title}: no time for {', '.join(' '.join([op, *sizes]) for op, sizes in cells.items())}: {why}"
            for (label, title, why), cells in found.items()]


def aligned(header, lines):
    lines = [header] + lines
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join("  ".join(cell.ljust(widths[i]) if i == 0 else cell.rjust(widths[i])
                               for i, cell in enumerate(line)).rstrip() for line in lines)


def whole(results):
    machine = results["machine"]
    text = [f"# HMC and its peers, {results['date']}, commit {results['commit']}, mode {results['mode']}",
            f"# {machine['cpu']}, {machine['cores']} cores, {machine['system']}, Linux {machine['kernel']}; load "
            f"{machine['load_before']:.1f} before and {machine['load_after']:.1f} after, "
            f"{machine['steal_share'] * 100:.1f} % stolen",
            "# x/peer: median of the rounds' ratios to the best peer (below 1: HMC is faster); x+read/peer: of call plus",
            "# reading the result; x/bare: to the bare loop. ~: varied by more than 30 % between rounds, or too few rounds;",
            "# 3/5: 3 of 5 rounds have a time. spread: of HMC's times; of ratio: of x/peer. -: none, see the notes.",
            f"# marks: few rounds: fewer than {stats.LEAST_ROUNDS}, or than {stats.LEAST_SHARE * 100:.0f} % of them; loaded: the share of "
            f"the CPUs' time that others used, if above {stats.LOADED_ABOVE * 100:.0f} %.", ""]
    if results.get("programs"):
        for heading, header, lines in programs.tables(results["programs"], SHORT, time_name, ratio_name):
            text += [f"# Programs: {heading}", aligned(header, lines), ""]
    for heading, header, lines in tables(results):
        text += [f"# {heading}", aligned(header, lines), ""]
    text.append("# Contestants")
    for one in results["contestants"]:
        text.append(f"#   {one['label']}: {one['absent'] or one['version'] or 'not run'}")
    text.append("# Notes")
    text += [f"#   {note}" for note in results["notes"] + omissions(results)] or ["#   none"]
    return "\n".join(text)
