"""Interleaves the contestants: every round runs each of them once, in random order."""

import random
import time

from . import launch

KEPT = ("us_mean", "us_p50", "us_min", "us_max", "us_read", "us_both_mean", "us_both_p50", "loopback_bytes", "calls", "batch")


class Interleaver:
    def __init__(self, contestants, settings, say, seed=0):
        self.contestants = {c.name: c for c in contestants}
        self.settings = settings
        self.say = say        # progress, for a terminal
        self.seed = seed      # of the orders
        self.samples = []     # one per contestant, operation, size and round
        self.missing = {}     # (layout, contestant, op, bytes) -> why a round has no time
        self.withdrawn = {}   # the same key -> the failure in any round: no time is reported, whatever other rounds have
        self.notes = []       # failures and absences, for the report
        self.hung = set()     # (layout, contestant): not started there again
        self.failed = set()   # contestants of whom a run or a check failed

    def run(self, layout, rounds, deadline):
        """Runs the given number of rounds, or as many as the deadline allows; at least one. Fills layout's facts."""
        present = self._present(layout)
        slowest = 0.0
        for number in range(rounds):
            if number and deadline and time.monotonic() + slowest > deadline:
                self.notes.append(f"{layout['title']}: {number} of {rounds} rounds, the time for them was used up")
                break
            begin = time.monotonic()
            for index, group in enumerate(self._groups(layout)):
                for contestant in self._shuffled(present, layout, number, index):
                    if (layout["name"], contestant.name) in self.hung:
                        self._keep(layout, contestant, group, number, {}, "it hung before", started=False)
                        continue
                    self.say(f"{layout['title']}: round {number + 1} of {rounds}, {contestant.label}")
                    self._once(layout, contestant, group, number)
            layout["rounds"] += 1
            slowest = max(slowest, time.monotonic() - begin)
        self._compare_places(layout)

    def _shuffled(self, present, layout, number, group):
        """Random for every round and group, so that no contestant has a fixed position. The seed reproduces it."""
        order = list(present)
        random.Random(f"{self.seed}/{layout['name']}/{number}/{group}").shuffle(order)
        return order

    def _present(self, layout):
        layout["rounds"] = 0
        for facts in ("commands", "settings", "cpus", "loopback_bytes"):
            layout[facts] = {}
        return [self.contestants[name] for name in layout["contestants"] if self._is_here(layout, name)]

    def _is_here(self, layout, name):
        absent, why = self.contestants[name].missing(), ""
        if not absent:
            why = self.contestants[name].missing_in(layout)
        if absent or why:
            note = f"{self.contestants[name].label}: absent, {absent}" if absent else (
                f"{self.contestants[name].label}, {layout['title']}: {why}")
            if note not in self.notes:
                self.notes.append(note)
            for operation, cells in layout["cells"].items():
                for cell in cells:
                    self.missing[(layout["name"], name, operation, size_of(cell))] = "absent"
        return not (absent or why)

    def _groups(self, layout):
        """The operations one by one, or all in one start of the program."""
        if self.settings["apart"]:
            return list(layout["cells"].values())
        return [[cell for cells in layout["cells"].values() for cell in cells]]

    def _once(self, layout, contestant, cells, number):
        limit = self.settings["limit_s"]
        words = [f"--cell-s={self.settings['cell_s']}", f"--limit-s={limit}", *cells]
        command = contestant.command(layout, words, layout["cpu_list"])
        without_cells = [word for word in command if word not in cells]
        given = contestant.environment(layout)
        layout["commands"].setdefault(contestant.name, shown(given, [*without_cells, "operation:bytes ..."]))
        outcome = launch.run(command, timeout_s=self.settings.get("timeout_s", limit * 4 + 10), environment=given)
        lines = {}
        for line in outcome.lines:
            if "version" in line:
                self._meet(layout, contestant, line)
            elif "op" in line:
                lines[(line["op"], line["bytes"])] = line
        self._keep(layout, contestant, cells, number, lines, outcome.failure, others=outcome.others)
        if outcome.failure:
            self._note_failure(layout, contestant, outcome.failure)
        if outcome.hung:
            self.hung.add((layout["name"], contestant.name))

    def _meet(self, layout, contestant, line):
        """Handles the program's first line, which describes the program."""
        contestant.version = line["version"]
        given = contestant.all_settings(layout)
        layout["settings"][contestant.name] = line["settings"] + (f"; {given}" if given else "")
        layout["cpus"][contestant.name] = line["cpus"]
        cores = layout["cpu_list"]
        wanted = [[cores[rank % len(cores)], 1] for rank in range(layout["np"])]
        if line["cpus"] != wanted:
            self._note_failure(layout, contestant, f"its ranks are on {line['cpus']} ([first CPU, how many] of each), "
                                                   f"not on {wanted}")

    def _compare_places(self, layout):
        if len({str(cpus) for cpus in layout["cpus"].values()}) > 1:
            self.notes.append(f"{layout['title']}: the contestants' ranks weren't on the same CPUs, see results.json")

    def _keep(self, layout, contestant, cells, number, lines, failure, started=True, others=None):
        """Makes a sample of a cell's line. An error, or a death of the program in this cell, withdraws the cell."""
        died = failure if started else ""
        for cell in cells:
            operation, size = cell.split(":")[0], size_of(cell)
            key = (layout["name"], contestant.name, operation, size)
            line = lines.get((operation, size))
            if line and layout["nodes"] > 1 and not crossed_loopback(line):
                self._withdraw(key, "its bytes didn't go over loopback", number)
                self._note_failure(layout, contestant, f"{cell}: fewer bytes crossed loopback than were sent")
            elif line and "us_mean" in line:
                crossed = layout["loopback_bytes"]
                crossed[contestant.name] = crossed.get(contestant.name, 0) + line["loopback_bytes"]
                self.samples.append({"layout": layout["name"], "contestant": contestant.name, "op": operation, "bytes": size,
                                     "round": number, "hurried": bool(line.get("hurried")), "others": others,
                                     **{k: line[k] for k in KEPT}})
            elif line and "error" in line:
                self._withdraw(key, line["error"], number)
                self._note_failure(layout, contestant, f"{operation} of {size} bytes: {line['error']}")
            elif line:
                self.missing.setdefault(key, line["lacks"])
            elif died:
                self._withdraw(key, died, number)
                died = ""  # later cells weren't started
            else:
                self.missing.setdefault(key, failure or "the program printed no line for it")

    def _withdraw(self, key, why, number):
        self.withdrawn.setdefault(key, f"{why} (round {number + 1})")

    def _note_failure(self, layout, contestant, what):
        self.failed.add(contestant.name)
        note = f"{contestant.label}, {layout['title']}: {what}"
        if note not in self.notes:
            self.notes.append(note)

    # ---- start-up
    def run_hello(self, layout, rounds, deadline):
        present = self._present(layout)
        for number in range(rounds):
            if number and deadline and time.monotonic() > deadline:
                self.notes.append(f"{layout['title']}: {number} of {rounds} rounds, the time for them was used up")
                break
            for contestant in self._shuffled(present, layout, number, 0):
                self.say(f"{layout['title']}: round {number + 1} of {rounds}, {contestant.label}")
                command = contestant.command(layout, ["--hello"])
                given = contestant.environment(layout)
                layout["commands"].setdefault(contestant.name, shown(given, command))
                outcome = launch.run(command, timeout_s=60, output_option=False, environment=given)
                if outcome.failure:
                    self._withdraw((layout["name"], contestant.name, "hello", 0), outcome.failure, number)
                    self._note_failure(layout, contestant, outcome.failure)
                    continue
                self.samples.append({"layout": layout["name"], "contestant": contestant.name, "op": "hello",
                                     "bytes": 0, "round": number, "us": outcome.wall_s * 1e6, "others": outcome.others})
            layout["rounds"] += 1


def shown(environment, words):
    return " ".join([*(f"{name}={value}" for name, value in environment.items()), *words])


def crossed_loopback(line):
    """Whether a cell's bytes may have crossed loopback: each call moves at least its size once. `lo` counts the whole
    machine's traffic including headers. So too few bytes prove another path, but enough bytes prove nothing if other
    processes use `lo`."""
    return "us_mean" not in line or line["loopback_bytes"] >= max(1, line["bytes"]) * line["calls"]


def size_of(cell):
    return int(cell.split(":")[1]) if ":" in cell else 0
