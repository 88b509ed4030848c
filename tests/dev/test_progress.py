"""cmake/progress: reads ninja's output, writes one progress line and all of the compiler's output."""

import os
import pty
import re
import select
import subprocess
import time
import unittest
from pathlib import Path

PROGRESS = Path(__file__).resolve().parents[2] / "cmake" / "progress"

WARNING = """/src/collectives/b.cpp: In function ‘int b()’:
/src/collectives/b.cpp:1:13: warning: unused variable ‘unused’ [-Wunused-variable]
    1 | int b(){int unused; return 0;}
      |             ^~~~~~
"""
ERROR = """FAILED: runtime/window/CMakeFiles/window.dir/bad.cpp.o 
/usr/bin/c++   -Wall -o runtime/window/CMakeFiles/window.dir/bad.cpp.o -c /src/runtime/window/bad.cpp
/src/runtime/window/bad.cpp: In function ‘int bad()’:
/src/runtime/window/bad.cpp:1:18: error: ‘missing’ was not declared in this scope
    1 | int bad(){return missing;}
      |                  ^~~~~~~
ninja: build stopped: subcommand failed.
"""
# Recorded from ninja 1.11 with one job; the times are made longer.
BEGIN = f"""progress 0/1 0.012 Re-checking globbed directories...
progress 1/8 2.000 Building CXX object CMakeFiles/app.dir/main.cpp.o
progress 2/8 4.000 Building CXX object collectives/CMakeFiles/collectives.dir/a.cpp.o
progress 3/8 12.500 Building CXX object collectives/CMakeFiles/collectives.dir/b.cpp.o
{WARNING}progress 4/8 13.000 Linking CXX static library collectives/libcollectives.a
progress 5/8 31.999 Building CXX object runtime/window/CMakeFiles/window.dir/w.cpp.o
"""
BUILT = BEGIN + """progress 6/8 33.000 Building CXX object runtime/window/CMakeFiles/window.dir/bad.cpp.o
progress 7/8 44.044 Linking CXX static library runtime/window/libwindow.a
progress 8/8 45.000 Linking CXX executable app
"""
BROKEN = BEGIN + "progress 6/8 33.000 Building CXX object runtime/window/CMakeFiles/window.dir/bad.cpp.o\n" + ERROR


def start(line_fd, **popen):
    return subprocess.Popen(["bash", "-c", f'"$0" 1 3>&{line_fd}', PROGRESS], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[line_fd],
                            env={**os.environ, "TERM": "xterm"}, **popen)


def in_a_file(ninja):
    """The output on the progress line's descriptor, and on stderr."""
    read, write = os.pipe()
    process = start(write)
    os.close(write)
    out, err = process.communicate(ninja.encode(), timeout=60)
    with os.fdopen(read, "rb") as lines:
        assert (process.returncode, out) == (0, b"")
        return lines.read().decode(), err.decode()


class Terminal:
    """A filter whose progress line is a terminal."""

    def __enter__(self):
        self.master, slave = pty.openpty()
        self.process = start(slave)
        os.close(slave)
        self.shown = ""
        return self

    def feed(self, text):
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def read_until(self, pattern):
        """Waits for the pattern on the terminal; False when the filter has ended without it."""
        end = time.monotonic() + 60
        while not re.search(pattern, self.shown):
            if not select.select([self.master], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"no {pattern} in {self.shown!r}")
            try:
                data = os.read(self.master, 4096)
            except OSError:  # the last holder of the other side has closed it
                data = b""
            if not data:
                return False
            self.shown += data.decode()
        return True

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()
        self.process.stderr.close()
        os.close(self.master)


class Progress(unittest.TestCase):
    def test_a_file_gets_a_line_every_ten_seconds_with_the_estimate(self):
        lines, _ = in_a_file(BUILT)
        # (2 steps of 3 s, and the time so far) / (2 + finished) * left
        self.assertEqual(lines.splitlines(), [
            "[1/8] 12 %, about 19 s left: main.cpp.o",
            "[3/8] 37 %, about 19 s left: collectives",
            "[5/8] 62 %, about 17 s left: runtime/window",
            "[7/8] 87 %, about 6 s left: libwindow.a",
            "[8/8] built in 45 s",
        ])

    def test_a_long_estimate_is_in_minutes(self):
        lines, _ = in_a_file("progress 87/239 63.000 Building CXX object bench/osu/CMakeFiles/x.dir/put.cpp.o\n"
                             "progress 88/239 270.000 Building CXX object bench/osu/CMakeFiles/x.dir/get.cpp.o\n")
        self.assertEqual(lines.splitlines(), ["[ 87/239] 36 %, about 120 s left: bench/osu",
                                              "[ 88/239] 36 %, about 8 min left: bench/osu"])

    def test_a_warning_is_shown(self):
        self.assertEqual(in_a_file(BUILT)[1], WARNING)

    def test_an_error_is_shown_whole(self):
        lines, err = in_a_file(BROKEN)
        self.assertEqual(err, WARNING + ERROR)
        self.assertNotIn("built", lines)

    def test_an_end_without_a_newline_is_shown(self):
        self.assertEqual(in_a_file("c++: fatal error: Killed")[1], "c++: fatal error: Killed\n")

    def test_nothing_to_do_is_silent(self):
        self.assertEqual(in_a_file("progress 0/1 0.012 Re-checking globbed directories...\nninja: no work to do.\n"),
                         ("", ""))

    def test_a_terminal_has_one_line_that_is_rewritten(self):
        with Terminal() as terminal:
            terminal.feed(BUILT)
            terminal.process.stdin.close()
            self.assertTrue(terminal.read_until(r"built in 45 s\r\n"))
        states = terminal.shown.split("\r\x1b[K")
        self.assertEqual(terminal.shown.count("\n"), 1)
        self.assertEqual([state[:5] for state in states if state],
                         ["[1/8]", "[2/8]", "[3/8]", "[4/8]", "[5/8]", "[6/8]", "[7/8]", "[8/8]"])

    def test_an_error_on_a_terminal_replaces_the_line(self):
        with Terminal() as terminal:
            terminal.feed(BROKEN)
            terminal.process.stdin.close()
            self.assertEqual(terminal.process.stderr.read().decode(), WARNING + ERROR)
            self.assertFalse(terminal.read_until("built"))
        self.assertTrue(terminal.shown.endswith("\r\x1b[K"))

    def test_the_estimate_counts_down_while_a_step_takes_long(self):
        with Terminal() as terminal:
            terminal.feed("progress 1/3 3.000 Building CXX object collectives/CMakeFiles/c.dir/a.cpp.o\nc++: half")
            self.assertTrue(terminal.read_until("about 6 s left"))
            self.assertTrue(terminal.read_until("about 3 s left"))
            terminal.feed(" a line\n")
        self.assertEqual(terminal.process.returncode, 0)


if __name__ == "__main__":
    unittest.main()
