"""Reads what OSU's programs print, as people's scripts do, and checks the columns to the letter."""
import re

SIZE_WIDTH = 10
OPERATION_WIDTH = 20
VALUE_WIDTH = 20
COUNT_WIDTH = 12
BARRIER_WIDTH = 17
NUMBER = re.compile(r"\d+\.\d\d$")


class Table:
    """titles: of the columns. rows: lists of words. comments: the lines that begin with '#'."""

    def __init__(self, text):
        self.lines = text.splitlines()
        self.comments = [line for line in self.lines if line.startswith("#")]
        data = [line for line in self.lines if line.strip() and not line.startswith("#")]
        self.rows = [line.split() for line in data]
        self.data_lines = data
        self.header = self.comments[-1]
        # Titles hold single blanks; between columns there are more, or a title's start is its column's.
        self.titles = re.split(r"\s{2,}", self.header.lstrip("# ").strip())

    def column(self, title):
        index = self.titles.index(title)
        return [row[index] for row in self.rows]

    def numbers(self, title):
        return [float(word) for word in self.column(title)]

    def note(self, title):
        for line in self.comments:
            if line.startswith(f"# {title}: "):
                return line.split(": ", 1)[1]
        raise KeyError(title)


def widths_of(titles):
    first = {"Size": SIZE_WIDTH, "Operation": OPERATION_WIDTH, "Avg Latency(us)": BARRIER_WIDTH}[titles[0]]
    return [first] + [COUNT_WIDTH if title == "Iterations" else VALUE_WIDTH for title in titles[1:]]


def cells_of(line, widths):
    cells, at = [], 0
    for width in widths:
        cells.append(line[at : at + width])
        at += width
    if line[at:]:
        raise AssertionError(f"beyond the last column: {line!r}")
    return cells


def check_cell(title, cell):
    word = cell.strip()
    if title in ("Size", "Operation"):
        assert cell == word.ljust(len(cell)), f"not to the left: {cell!r}"
        return
    assert cell == word.rjust(len(cell)), f"not to the right: {cell!r}"
    if title == "Iterations":
        assert word.isdigit(), cell
    elif title == "Validation":
        assert word in ("Pass", "Fail"), cell
    else:
        assert word == "-" or NUMBER.match(word), cell


def check_columns(table):
    """Every line of the table stands exactly in OSU's columns."""
    widths = widths_of(table.titles)
    header = cells_of(table.header, widths)
    assert table.header.startswith("# "), table.header
    assert [cell.lstrip("# ").strip() for cell in header] == table.titles, header
    for line in table.data_lines:
        for title, cell in zip(table.titles, cells_of(line, widths), strict=True):
            check_cell(title, cell)
