"""Parses the output format of the OSU programs as users' scripts do, and checks the columns exactly."""
import re

SIZE_WIDTH = 10
OPERATION_WIDTH = 20
VALUE_WIDTH = 20
COUNT_WIDTH = 12
BARRIER_WIDTH = 17
IBARRIER_WIDTH = 13
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
        # Titles contain single blanks. Columns are separated by more, or a title begins where its column begins.
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


def widths_of(titles, value_width):
    first = {"Size": SIZE_WIDTH, "Operation": OPERATION_WIDTH, "Avg Latency(us)": BARRIER_WIDTH,
             "Overall(us)": IBARRIER_WIDTH}[titles[0]]
    return [first] + [COUNT_WIDTH if title == "Iterations" else value_width for title in titles[1:]]


def cells_of(line, widths):
    cells, at = [], 0
    for width in widths:
        cells.append(line[at : at + width])
        if len(cells[-1]) < width and len(cells) > 1:
            raise AssertionError(f"the last column is narrow: {line!r}")
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


def check_header(titles, header):
    """A title is aligned like the values of its column."""
    assert header[0].startswith("# "), header
    for title, cell in zip(titles, header, strict=True):
        if cell is header[0]:
            assert cell.rstrip() == "# " + title, f"not to the left: {cell!r}"
        else:
            assert cell == title.rjust(len(cell)), f"not to the right: {cell!r}"


def check_columns(table, value_width=VALUE_WIDTH):
    """Every line of the table matches OSU's columns exactly, which are `value_width` wide."""
    widths = widths_of(table.titles, value_width)
    check_header(table.titles, cells_of(table.header, widths))
    for line in table.data_lines:
        for title, cell in zip(table.titles, cells_of(line, widths), strict=True):
            check_cell(title, cell)
