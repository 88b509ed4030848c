"""What the driver does with contestants that work, fail, hang, lie or aren't there."""

import os
import stat
import subprocess
import tempfile
import time
import unittest

import support
from driver import contestants, launch, plan, results, rounds

# Plays a contestant: writes lines for its cells as the real programs do, or misbehaves.
PLAYER = r'''#!/usr/bin/python3
import json, os, subprocess, sys, time
how = os.path.basename(sys.argv[0])
options = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--") and "=" in word)
cells = [word for word in sys.argv[1:] if not word.startswith("--")]
with open(os.path.join(os.path.dirname(sys.argv[0]), "order"), "a") as order:
    order.write(how + "\n")
if how == "crashes":
    print("it went wrong\n  for a reason", file=sys.stderr)
    sys.exit(3)
if how == "hangs":
    time.sleep(1000)
if how == "litters":
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
cpus = [[0, 2], [0, 2]] if how == "unpinned" else [[0, 1], [1, 1]]
with open(options["output"], "w") as out:
    out.write(json.dumps({"contestant": how, "np": 2, "version": "1.0", "settings": "none", "cpus": cpus}) + "\n")
    for cell in cells:
        op, _, size = cell.partition(":")
        line = {"contestant": how, "np": 2, "op": op, "bytes": int(size or 0)}
        if how == "is_wrong":
            line["error"] = "wrong bytes"
        elif how == "lacks_it":
            line["lacks"] = "no such thing"
        else:
            line.update(us_mean=2.0, us_p50=1.0, us_min=1.0, us_max=3.0, us_read=0.1, calls=10, batch=1,
                        loopback_bytes=0 if how == "cheats" else 10**6)
        out.write(json.dumps(line) + "\n")
        if how == "dies_between":
            out.write('{"contestant": "dies_be')
            out.flush()
            os._exit(7)
'''


class Rounds(unittest.TestCase):
    def setUp(self):
        launch.adopt_orphans()
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def play(self, *players, rounds_wanted=1, nodes=1, timeout_s=10, apart=False):
        """Runs these, with two cells; returns the interleaver and the layout."""
        everyone = []
        for player in players:
            path = os.path.join(self.folder.name, player)
            if player != "absent":
                with open(path, "w", encoding="utf-8") as file:
                    file.write(PLAYER)
                os.chmod(path, stat.S_IRWXU)
            everyone.append(contestants.Contestant(player, player.upper(), "peer", path, package="its-package"))
        settings = {"cell_s": 0.01, "limit_s": 1.0, "timeout_s": timeout_s, "apart": apart}
        layout = support.layout({"put": ["put:8"], "barrier": ["barrier"]}, nodes=nodes, contestants=list(players))
        work = rounds.Interleaver(everyone, settings, lambda line: None)
        work.run(layout, rounds_wanted, None)
        self.rows = results.rows([layout], everyone, work.samples, work.missing)
        return work, layout

    def order(self):
        with open(os.path.join(self.folder.name, "order"), encoding="utf-8") as file:
            return file.read().split()

    def test_every_round_runs_everyone_and_begins_with_another(self):
        work, layout = self.play("one", "two", "three", rounds_wanted=3)
        self.assertEqual(self.order(), ["one", "two", "three", "two", "three", "one", "three", "one", "two"])
        self.assertEqual(len(work.samples), 3 * 3 * 2)
        self.assertEqual((layout["rounds"], work.notes), (3, []))

    def test_operations_can_be_interleaved_one_by_one(self):
        self.play("one", "two", apart=True)
        self.assertEqual(self.order(), ["one", "two", "one", "two"])

    def test_a_deadline_ends_the_rounds_and_says_so(self):
        work, layout = self.play("one")
        work.run(layout, 5, time.monotonic())
        self.assertEqual(layout["rounds"], 1)
        self.assertIn("1 of 5 rounds", work.notes[0])

    def test_a_crash_is_a_line_with_its_last_words(self):
        work, _ = self.play("one", "crashes")
        self.assertEqual(len(work.notes), 1)
        self.assertIn("exit 3: it went wrong / for a reason", work.notes[0])
        self.assertEqual(work.failed, {"crashes"})
        self.assertIn("exit 3", self.rows[0]["missing"]["crashes"])

    def test_what_a_contestant_told_before_it_died_is_kept(self):
        work, _ = self.play("dies_between")
        self.assertEqual([sample["op"] for sample in work.samples], ["put"])
        self.assertIn("exit 7", self.rows[1]["missing"]["dies_between"])

    def test_who_hangs_is_killed_told_and_not_started_again(self):
        work, _ = self.play("hangs", "one", rounds_wanted=2, timeout_s=0.5, apart=True)
        self.assertEqual(self.order().count("hangs"), 1)
        self.assertIn("not done after", work.notes[0])
        self.assertTrue(all("hangs" in row["missing"] for row in self.rows))

    def test_wrong_bytes_are_a_line_and_no_figure(self):
        work, _ = self.play("is_wrong")
        self.assertEqual(work.samples, [])
        self.assertIn("put of 8 bytes: wrong bytes", work.notes[0])

    def test_absence_is_a_line_that_names_the_package(self):
        work, _ = self.play("absent", "one")
        self.assertIn("ABSENT: absent", work.notes[0])
        self.assertIn("its-package", work.notes[0])
        self.assertEqual(self.rows[0]["missing"], {"absent": "absent"})

    def test_what_a_contestant_lacks_is_no_failure(self):
        work, _ = self.play("lacks_it")
        self.assertEqual((work.failed, self.rows[0]["missing"]), (set(), {"lacks_it": "no such thing"}))

    def test_bytes_that_did_not_cross_loopback_are_no_figure_of_the_network(self):
        work, _ = self.play("cheats", "one", nodes=2)
        self.assertEqual({sample["contestant"] for sample in work.samples}, {"one"})
        self.assertEqual(work.failed, {"cheats"})

    def test_ranks_that_are_not_pinned_alike_are_told(self):
        work, _ = self.play("unpinned")
        self.assertIn("core each", work.notes[0])

    def test_nobody_is_left_behind(self):
        self.play("litters")
        mine = subprocess.run(["ps", "--ppid", str(os.getpid()), "-o", "comm="], capture_output=True, text=True,
                              check=False).stdout.split()
        self.assertNotIn("sleep", mine)


class Plan(unittest.TestCase):
    def test_ranks_that_fit_are_pinned_and_the_median_call_counts(self):
        found = {one["np"]: (one["pinned"], one["figure"]) for one in plan.layouts("full", 4) if one["nodes"] == 1}
        self.assertEqual(found, {2: (True, "us_p50"), 4: (True, "us_p50"), 8: (False, "us_mean")})

    def test_all_operations_are_in_every_layout(self):
        for mode in plan.MODES:
            for layout in plan.layouts(mode, 2):
                self.assertEqual(set(layout["cells"]), set(plan.OPERATIONS))

    def test_sizes_are_whole_words(self):
        for mode in plan.MODES.values():
            for size in [*mode["network_sizes"], *(size for sizes in mode["sizes"].values() for size in sizes)]:
                self.assertEqual(size % 8, 0)


if __name__ == "__main__":
    unittest.main()
