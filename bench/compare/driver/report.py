"""report.html: one file without external resources and scripts."""

from html import escape

from . import programs, stats, svg, text

STYLES = {
    "floor-window": {"color": "#555555", "dash": "2 3", "width": 1.5, "marker": "square"},
    "floor-private": {"color": "#999999", "dash": "2 3", "width": 1.5, "marker": "diamond"},
    "floor-tcp": {"color": "#555555", "dash": "2 3", "width": 1.5, "marker": "square"},
    "hmc-window": {"color": "#08519c", "dash": "", "width": 2.5, "marker": "circle"},
    "hmc-private": {"color": "#4ea3dd", "dash": "7 3", "width": 2.5, "marker": "circle"},
    "openmpi5": {"color": "#d95f02", "dash": "", "width": 1.5, "marker": "triangle"},
    "mpich5": {"color": "#1b7837", "dash": "", "width": 1.5, "marker": "square"},
    "intelmpi": {"color": "#b8860b", "dash": "", "width": 1.5, "marker": "circle"},
    "openmpi": {"color": "#e6a36a", "dash": "4 3", "width": 1.5, "marker": "triangle"},
    "mpich": {"color": "#7fbf86", "dash": "4 3", "width": 1.5, "marker": "square"},
    "gloo": {"color": "#8e44ad", "dash": "", "width": 1.5, "marker": "diamond"},
}
RATIO_STYLES = {  # by (ratio, contestant)
    ("to_best_peer", "hmc-window"): {"color": "#08519c", "dash": "", "width": 2.5, "marker": "circle"},
    ("to_best_peer", "hmc-private"): {"color": "#4ea3dd", "dash": "7 3", "width": 2.5, "marker": "circle"},
    ("read_to_peer", "hmc-window"): {"color": "#b2182b", "dash": "", "width": 1.5, "marker": "triangle"},
    ("read_to_peer", "hmc-private"): {"color": "#ef8a62", "dash": "7 3", "width": 1.5, "marker": "triangle"},
    ("to_floor", "hmc-window"): {"color": "#555555", "dash": "2 3", "width": 1.5, "marker": "square"},
    ("to_floor", "hmc-private"): {"color": "#999999", "dash": "2 3", "width": 1.5, "marker": "diamond"},
}
RATIO_LABELS = {"to_best_peer": "to the best peer", "read_to_peer": "call and reading, to the best peer",
                "to_floor": "to its bare loop"}

CSS = """
body { font: 15px/1.45 sans-serif; color: #222; background: #fff; margin: 24px auto; max-width: 1260px; padding: 0 16px }
h1 { font-size: 24px } h2 { font-size: 20px; border-bottom: 1px solid #ccc; margin-top: 36px } h3 { font-size: 16px }
.charts { display: flex; flex-wrap: wrap; align-items: flex-start; gap: 16px }
.charts svg { max-width: 100%; height: auto; flex: 0 1 600px }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; margin: 8px 0 20px }
td, th { padding: 2px 9px; text-align: right; border-bottom: 1px solid #e4e4e4 }
.doubt td { background: #fff4e5 } nav ul { columns: 3 } .warn { background: #fff4e5; padding: 6px 10px }
td:first-child, th:first-child, table.words td, table.words th { text-align: left; vertical-align: top }
.wide { overflow-x: auto } .wide td { white-space: nowrap } .wide th { vertical-align: bottom } .noisy { color: #b00 } code { font-size: 12px; overflow-wrap: anywhere }
"""


def _labels(results):
    return {one["name"]: one["label"] for one in results["contestants"]}


def _sized(results, layout, operation):
    return [row for row in results["rows"]
            if row["layout"] == layout["name"] and row["op"] == operation and row["bytes"] > 0]


def latency_chart(results, layout, operation):
    rows, labels, series = _sized(results, layout, operation), _labels(results), []
    for name in layout["contestants"]:
        points = []
        for row in rows:
            if row["us"].get(name, 0) > 0:
                noisy = name in row["noisy"]
                tip = f"{labels[name]}, {text.size_name(row['bytes'])}: {text.time_name(row['us'][name])} us" + (
                    " (noisy)" if noisy else "")
                least = row["least"][name] if row["least"][name] > 0 else row["us"][name]
                points.append((row["bytes"], row["us"][name], least, row["most"][name], noisy, tip))
        if points:
            series.append({"label": labels[name], "style": STYLES[name], "points": points})
    names = {row["bytes"]: text.size_name(row["bytes"]) for row in rows}
    return svg.line_chart(f"{operation}: {layout['title']}", series, "microseconds", names) if series else ""


def _ratio(row, against, name):
    """The ratio to draw, or None."""
    ratios = row["with_read"].get("to_best_peer", {}) if against == "read_to_peer" else row[against]
    ratio = ratios.get(name)
    return ratio if ratio and ratio["median"] > 0 and ratio["min"] > 0 else None


def ratio_chart(results, layout, operation):
    rows, labels, series = _sized(results, layout, operation), _labels(results), []
    for (against, name), style in RATIO_STYLES.items():
        points = []
        for row in rows:
            ratio = _ratio(row, against, name)
            if ratio:
                tip = f"{labels[name]} {RATIO_LABELS[against]}, {text.size_name(row['bytes'])}: {text.ratio_name(ratio)}"
                points.append((row["bytes"], ratio["median"], ratio["min"], ratio["max"], ratio["noisy"], tip))
        if points:
            series.append({"label": f"{labels[name]}, {RATIO_LABELS[against]}", "style": style, "points": points})
    names = {row["bytes"]: text.size_name(row["bytes"]) for row in rows}
    if not series:
        return ""
    where = f"np={layout['np']}" + (f", {layout['nodes']} nodes" if layout["nodes"] > 1 else "")
    return svg.line_chart(f"{operation}, {where}: HMC's ratio (below 1: faster)", series, "ratio", names, 1.0)


def dots(results, row, layout, title, per_unit, unit):
    labels, rows = _labels(results) | layout.get("labels", {}), []
    for name in layout["contestants"]:
        if row["us"].get(name, 0) > 0:
            noisy = name in row["noisy"]
            value, low, high = (row[key][name] / per_unit for key in ("us", "least", "most"))
            rows.append({"label": labels[name], "style": STYLES[name], "value": value, "low": low if low > 0 else value,
                         "high": high, "noisy": noisy, "text": text.time_name(value) + ("~" if noisy else "")})
    return svg.dot_chart(title, rows, unit)


def ratio_dots(results, operation, title):
    """For an operation without sizes: the ratios of every layout, one below the other."""
    rows = []
    for layout in results["layouts"]:
        where = f"np={layout['np']}" + (f" on {layout['nodes']} nodes" if layout["nodes"] > 1 else "")
        one_form = sum(name.startswith("hmc") for name in layout["contestants"]) == 1
        bare = layout.get("labels", {}).get("floor-private", "its bare loop")
        for row in results["rows"]:
            if row["layout"] != layout["name"] or row["op"] != operation:
                continue
            for (against, name), style in RATIO_STYLES.items():
                ratio = _ratio(row, against, name)
                if ratio:
                    form = "" if one_form else f"{name.replace('hmc-', '')}, "
                    rows.append({"label": f"{where}: {form}to {'best peer' if against == 'to_best_peer' else bare}",
                                 "style": style,
                                 "value": ratio["median"], "low": ratio["min"], "high": ratio["max"],
                                 "noisy": ratio["noisy"], "text": text.ratio_name(ratio)})
    return svg.dot_chart(title, rows, "ratio", 1.0) if rows else ""


def _section_of(results, operation):
    parts = [_heading(operation)]
    for layout in results["layouts"]:
        if operation not in {row["op"] for row in results["rows"] if row["layout"] == layout["name"]}:
            continue
        charts = [latency_chart(results, layout, operation), ratio_chart(results, layout, operation)]
        if any(charts):
            parts.append(f"<div class=charts>{''.join(charts)}</div>")
    return "\n".join(parts)


def _dots_section(results, operation, heading, per_unit, unit):
    charts = []
    for layout in results["layouts"]:
        for row in results["rows"]:
            if row["layout"] == layout["name"] and row["op"] == operation:
                title = layout["title"] if operation == "hello" else f"{operation}: {layout['title']}"
                charts.append(dots(results, row, layout, title, per_unit, unit))
    if not any(charts):
        return ""
    name = "start-up" if operation == "hello" else operation
    charts.append(ratio_dots(results, operation, f"{name}: HMC's time as a multiple (below 1: faster)"))
    return f"{_heading(heading)}<div class=charts>{''.join(charts)}</div>"


def _html_table(header, lines):
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join(("<tr class=doubt>" if line[-1] else "<tr>") + "".join(_cell(cell) for cell in line) + "</tr>"
                   for line in lines)
    return f"<div class=wide><table><tr>{head}</tr>{body}</table></div>"


def _cell(content):
    return f'<td class="noisy">{escape(content)}</td>' if content.endswith("~") else f"<td>{escape(content)}</td>"


def _words(lines):
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in line) + "</tr>" for line in lines)
    return f"<table class=words>{body}</table>"


def _tables(results):
    return "\n".join(f"<h3>{escape(heading)}</h3>{_html_table(header, lines)}"
                     for heading, header, lines in text.tables(results))


def _programs(results):
    """Whole programs: tables, and how they were measured."""
    found = results.get("programs")
    if not found or not found["rows"]:
        return ""
    tables = programs.tables(found, text.SHORT, text.time_name, text.ratio_name)
    return _heading("Programs") + _list(found["rules"]) + "\n".join(
        f"<h3>{escape(heading)}</h3>{_html_table(header, [[*line, ''] for line in lines])}" for heading, header, lines in tables)


def _who(results):
    lines = []
    for one in results["contestants"]:
        settings = {}  # what was set -> in which layouts
        for layout in results["layouts"]:
            if one["name"] in layout["settings"]:
                settings.setdefault(layout["settings"][one["name"]], []).append(layout["name"])
        version = one["absent"] or one["version"] or "not run"
        lines.append([escape(one["label"]), escape(version),
                      "<br>".join(escape(f"{', '.join(names)}: {what}") for what, names in settings.items())])
    return _words(lines)


def _commands(results):
    lines = []
    for layout in results["layouts"]:
        for name, command in layout["commands"].items():
            carried = layout["loopback_bytes"].get(name)
            proof = f"{carried / 1e6:.1f} MB crossed loopback during its calls" if carried is not None else ""
            lines.append([escape(layout["title"]), f"<code>{escape(command)}</code>", proof])
    return _words(lines)


def _machine(results):
    machine = results["machine"]
    facts = [("date", results["date"]), ("HMC's commit", results["commit"]),
             ("mode", f"{results['mode']}, {results['elapsed_s']:.0f} s"),
             ("processor", f"{machine['cpu']}, {machine['cores']} cores{', virtual' if machine['virtual'] else ''}"),
             ("memory", f"{machine['memory_gib']} GiB; huge pages: {machine['huge_pages']}, shared: "
                        f"{machine['shared_huge_pages']}"),
             ("system", f"{machine['system']}, Linux {machine['kernel']}"),
             ("load", f"{machine['load_before']:.2f} before, {machine['load_after']:.2f} after; "
                      f"{machine['steal_share'] * 100:.1f} % of the processor time stolen")]
    return _words([[escape(key), escape(value)] for key, value in facts])


def _list(lines):
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def _heading(text_of_it):
    return f'<h2 id="{_anchor(text_of_it)}">{escape(text_of_it)}</h2>'


def _anchor(heading):
    return "".join(letter if letter.isalnum() else "-" for letter in heading.lower())


def _contents(headings):
    return "<nav><ul>" + "".join(f'<li><a href="#{_anchor(one)}">{escape(one)}</a></li>' for one in headings) + "</ul></nav>"


def _verdicts(results, layout):
    """(operation and size, HMC's better ratio to the best peer, doubtful) of each row of the layout with a ratio."""
    found = []
    for row in results["rows"]:
        if row["layout"] != layout["name"]:
            continue
        ratios = [ratio for ratio in row["to_best_peer"].values() if ratio]
        if ratios:
            best = min(ratios, key=lambda ratio: ratio["median"])
            name = row["op"] + (f" {text.size_name(row['bytes'])}" if row["bytes"] else "")
            found.append((name, best["median"], best["noisy"] or bool(text.marks(row, layout))))
    return found


def _summary(results):
    """HMC compared with the best peer of each row, by layout; and reasons to doubt the run."""
    header = ["", "compared", "HMC faster", "slower", "median ratio", "best", "worst", "of these doubtful"]
    lines = []
    for layout in results["layouts"]:
        verdicts = _verdicts(results, layout)
        if not verdicts:
            continue
        ratios = sorted(verdicts, key=lambda one: one[1])
        faster = sum(ratio < 1 for _, ratio, _ in verdicts)
        ends = [f"{name}: {text.ratio_name({'median': ratio, 'noisy': doubt})}" for name, ratio, doubt in (ratios[0], ratios[-1])]
        lines.append([layout["title"], str(len(verdicts)), str(faster), str(len(verdicts) - faster),
                      f"{stats.median([ratio for _, ratio, _ in verdicts]):.2f}", *ends,
                      str(sum(doubt for _, _, doubt in verdicts))])
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
    machine, said = results["machine"], []
    said.append(f"{results['date']}, commit {results['commit']}, mode {results['mode']}, {machine['cpu']}, {machine['cores']} cores.")
    loaded = sum(bool(row["loaded"]) for row in results["rows"])
    few = sum(text.marks(row, layout).startswith("few") for layout in results["layouts"] for row in results["rows"]
              if row["layout"] == layout["name"])
    table = f"<div class=wide><table><tr>{head}</tr>{body}</table></div>" if lines else "<p>No peer has a time.</p>"
    warning = ""
    if loaded or few:
        warning = (f"<p class=warn>Doubtful: of {len(results['rows'])} rows {loaded} were measured while other processes used the "
                   f"machine (load {machine['load_before']:.1f} before, {machine['load_after']:.1f} after), and {few} in too few "
                   "rounds. They are marked in the tables.</p>")
    failures = f"{len(results['failed'])} contestants failed somewhere, {sum(bool(one['absent']) for one in results['contestants'])} are absent."
    return (f"<p>{escape(' '.join(said))} {failures}</p>{warning}{table}"
            "<p>A ratio is HMC's time divided by the best peer's time, with the faster of HMC's two kinds of buffers. Below 1 HMC "
            "is faster.</p>")


def _legends(results):
    """The legends of all charts."""
    shown = {name for row in results["rows"] for name in row["us"]}
    labels = _labels(results)
    times = [{"label": labels[name], "style": style} for name, style in STYLES.items() if name in shown]
    ratios = [{"label": f"{labels[name]}, {RATIO_LABELS[against]}", "style": style}
              for (against, name), style in RATIO_STYLES.items()
              if any(_ratio(row, against, name) for row in results["rows"])]
    charts = [svg.legend(title, series) for title, series in (("Legend: times", times), ("Legend: ratios", ratios)) if series]
    return (f"<div class=charts>{''.join(charts)}</div><p>Hollow points and ~ mark times that varied by more than 30 % between rounds, "
            "or were measured in too few rounds. Bars extend from the best round to the worst. Only times of the same run can "
            "be compared with each other.</p>")


def page(results):
    operations = []
    for row in results["rows"]:
        if row["bytes"] > 0 and row["op"] not in operations:
            operations.append(row["op"])
    remarks = results["notes"] + text.omissions(results)
    notes = _list(remarks) if remarks else "<p>No contestant failed or was absent.</p>"
    start_up = "start-up: from the launcher's start to its end"
    sections = [("Programs", _programs(results)), ("Legend", _heading("Legend") + _legends(results))]
    sections += [(operation, _section_of(results, operation)) for operation in operations]
    sections += [("barrier", _dots_section(results, "barrier", "barrier", 1.0, "microseconds")),
                 (start_up, _dots_section(results, "hello", start_up, 1000.0, "milliseconds"))]
    sections += [(heading, _heading(heading) + content) for heading, content in (
        ("Figures", _tables(results)), ("How it was measured", _list(results["rules"]) + _commands(results)),
        ("Machine", _machine(results)), ("Contestants", _who(results)), ("Failures, absences, remarks", notes))]
    sections = [(heading, content) for heading, content in sections if content]
    parts = [
        "<!DOCTYPE html><html lang=en><head><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width, initial-scale=1">',
        f"<title>HMC and its peers, {escape(results['date'])}</title><style>{CSS}</style></head><body>",
        f"<h1>HMC and its peers</h1>{_heading('Summary')}{_summary(results)}",
        f"{_heading('Contents')}{_contents([heading for heading, _ in sections])}",
        *[content for _, content in sections],
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"
