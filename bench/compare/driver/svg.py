"""Charts as SVG text: lines on two logarithmic axes, and dots on one. Written by hand: see docs/decisions.md."""

import math
import re
from html import escape

WIDTH, PLOT_HEIGHT = 600, 270
LEFT, RIGHT, TOP, AXIS = 66, 16, 30, 44
LEGEND_ROW = 18
INK, GRID, FAINT = "#222", "#ddd", "#eee"


def _text(x, y, content, anchor="middle", size=12, color=INK, extra=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{color}" {extra}>'
            f"{escape(content)}</text>")


def _line(x1, y1, x2, y2, color, width=1.0, extra=""):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" '
            f'stroke-width="{width}" {extra}/>')


def _marker(x, y, style, hollow, tip):
    fill = "#fff" if hollow else style["color"]
    common = f'fill="{fill}" stroke="{style["color"]}" stroke-width="1.5"'
    title = f"<title>{escape(tip)}</title>"
    shape = style["marker"]
    if shape == "square":
        return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" {common}>{title}</rect>'
    if shape in ("triangle", "diamond"):
        points = [(0, -5), (5, 4), (-5, 4)] if shape == "triangle" else [(0, -5), (5, 0), (0, 5), (-5, 0)]
        where = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in points)
        return f'<polygon points="{where}" {common}>{title}</polygon>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {common}>{title}</circle>'


class LogScale:
    """Maps values to positions; the range is extended to whole ticks."""

    def __init__(self, values, begin, end):
        low, high = min(values), max(values)
        exponents = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
        # Narrow ranges get 1-2-5 ticks, wide ones decades.
        steps = (1, 2, 5) if math.log10(high / low) < 2 else (1,)
        every = [step * 10.0**e for e in exponents for step in steps]
        first = max(tick for tick in every if tick <= low * 1.0001)
        last = min(tick for tick in every if tick >= high * 0.9999)
        if first == last:
            first, last = first / 2, last * 2
        self.ticks = [tick for tick in every if first <= tick <= last]
        self.low, self.high, self.begin, self.end = first, last, begin, end

    def at(self, value):
        share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return self.begin + share * (self.end - self.begin)


def number_name(value):
    if value < 1e-3:
        return f"1e{round(math.log10(value))}" if f"{value:e}".startswith("1.0") else f"{value:.0e}"
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if value >= 1e4 else f"{value:g}"


def _tick_names(scale, y):
    """The labels below an axis: as many as fit, and always 1, the reference for ratios."""
    parts, taken = [], []
    for tick in sorted(scale.ticks, key=lambda one: one != 1):
        half = _text_width(number_name(tick)) / 2 + 3
        x = scale.at(tick)
        if all(abs(x - other) >= half + other_half for other, other_half in taken):
            taken.append((x, half))
            parts.append(_text(x, y, number_name(tick)))
    return parts


def _frame(parts, height, title):
    opening = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
               f'height="{height}" role="img" aria-label="{escape(title)}" font-family="sans-serif">')
    return "\n".join([opening, f"<title>{escape(title)}</title>", *parts, "</svg>"])


def _text_width(content, size=12):
    return len(content) * size * 0.56  # an upper estimate of the mean width of sans-serif letters


def _legend(series, top):
    """Two columns if the names are short enough."""
    room = WIDTH - LEFT - RIGHT
    widest = max(_text_width(one["label"]) for one in series) + 38 + 16
    columns = 2 if 2 * widest <= room else 1
    parts = []
    for index, one in enumerate(series):
        x = LEFT + (index % columns) * room / 2
        y = top + (index // columns) * LEGEND_ROW
        dash = f'stroke-dasharray="{one["style"]["dash"]}"' if one["style"]["dash"] else ""
        parts.append(_line(x, y, x + 30, y, one["style"]["color"], one["style"]["width"], dash))
        parts.append(_marker(x + 15, y, one["style"], False, one["label"]))
        parts.append(_text(x + 38, y + 4, one["label"], "start"))
    return parts, math.ceil(len(series) / columns) * LEGEND_ROW


def _spread_bar(x1, y1, x2, y2, color):
    """A bar from the best to the worst round, with ends that are visible beside the marker."""
    across = (4, 0) if x1 == x2 else (0, 4)
    parts = [_line(x1, y1, x2, y2, color, 1.5, 'class="spread"')]
    for x, y in ((x1, y1), (x2, y2)):
        parts.append(_line(x - across[0], y - across[1], x + across[0], y + across[1], color, 1.5))
    return parts


def line_chart(title, series, y_label, x_names, reference=None, x_label="bytes per rank"):
    """`series`: [{label, style, points: [(x, y, low, high, noisy, tip)]}]; `x_names`: {x: its label}.
    `reference`: a y that is marked by a line."""
    points = [point for one in series for point in one["points"]]
    if not points:
        return ""
    lows = [value for point in points for value in (point[1], point[2], point[3]) if value > 0]
    if not lows:
        return ""
    bottom = TOP + PLOT_HEIGHT
    y_scale = LogScale(lows + ([reference] if reference else []), bottom, TOP)
    xs = sorted(x_names)
    x_low, x_high = math.log2(xs[0]) - 0.5, math.log2(xs[-1]) + 0.5

    def at_x(x):
        return LEFT + (math.log2(x) - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT)

    parts = [_text(LEFT, 18, title, "start", 14, INK, 'font-weight="bold"')]
    for tick in y_scale.ticks:
        parts.append(_line(LEFT, y_scale.at(tick), WIDTH - RIGHT, y_scale.at(tick), GRID))
        parts.append(_text(LEFT - 8, y_scale.at(tick) + 4, number_name(tick), "end"))
    for x in xs:
        parts.append(_line(at_x(x), TOP, at_x(x), bottom, FAINT))
        parts.append(_text(at_x(x), bottom + 16, x_names[x]))
    parts.append(_line(LEFT, bottom, WIDTH - RIGHT, bottom, INK))
    parts.append(_line(LEFT, TOP, LEFT, bottom, INK))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, bottom + 34, x_label))
    parts.append(_text(16, (TOP + bottom) / 2, y_label, "middle", 12, INK,
                       f'transform="rotate(-90 16 {(TOP + bottom) / 2:.1f})"'))
    if reference:
        parts.append(_line(LEFT, y_scale.at(reference), WIDTH - RIGHT, y_scale.at(reference), INK, 1.5))
    for one in series:
        parts += _one_line(one, at_x, y_scale)
    return _frame(parts, bottom + AXIS, title)


def legend(title, series):
    """`series`: [{label, style}]. One legend for all charts of a kind."""
    parts, height = _legend(series, 20)
    return _frame(parts, 20 + height, title)


def _one_line(one, at_x, y_scale):
    style, parts = one["style"], []
    where = [(at_x(x), y_scale.at(y)) for x, y, *_ in one["points"]]
    dash = f'stroke-dasharray="{style["dash"]}"' if style["dash"] else ""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in where)
    parts.append(f'<polyline points="{path}" fill="none" stroke="{style["color"]}" stroke-width="{style["width"]}" '
                 f'{dash}/>')
    for (x, y), (_, _, low, high, noisy, tip) in zip(where, one["points"]):
        parts += _spread_bar(x, y_scale.at(low), x, y_scale.at(high), style["color"])
        parts.append(_marker(x, y, style, noisy, tip))
    return parts


def dot_chart(title, rows, x_label, reference=None):
    """`rows`: [{label, style, value, low, high, noisy, text}], one below the other. `reference`: an x that is marked by
    a line."""
    values = [value for row in rows for value in (row["value"], row["low"], row["high"]) if value > 0]
    if not values:
        return ""
    left, right, row_height = 20 + max(_text_width(row["label"]) for row in rows), 76, 26
    bottom = TOP + 8 + row_height * len(rows)
    scale = LogScale(values + ([reference] if reference else []), left, WIDTH - right)
    parts = [_text(12, 18, title, "start", 14, INK, 'font-weight="bold"')]
    for tick in scale.ticks:
        parts.append(_line(scale.at(tick), TOP, scale.at(tick), bottom, GRID))
    parts += _tick_names(scale, bottom + 16)
    parts.append(_line(left, bottom, WIDTH - right, bottom, INK))
    parts.append(_text((left + WIDTH - right) / 2, bottom + 34, x_label))
    if reference:
        parts.append(_line(scale.at(reference), TOP, scale.at(reference), bottom, INK, 1.5))
    for index, row in enumerate(rows):
        y = TOP + 8 + row_height * (index + 0.5)
        parts.append(_text(left - 10, y + 4, row["label"], "end"))
        parts.append(_line(left, y, WIDTH - right, y, FAINT))
        parts += _spread_bar(scale.at(row["low"]), y, scale.at(row["high"]), y, row["style"]["color"])
        parts.append(_marker(scale.at(row["value"]), y, row["style"], row["noisy"], f"{row['label']}: {row['text']}"))
        parts.append(_text(WIDTH - right + 8, y + 4, row["text"], "start"))
    return _frame(parts, bottom + AXIS, title)


def stacked(charts):
    """One chart above the other, as one document."""
    top, parts = 0, []
    for chart in charts:
        parts.append(chart.replace("<svg ", f'<svg y="{top}" ', 1))
        top += int(re.search(r'height="(\d+)"', chart).group(1))
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}">',
                      '<rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>", ""])
