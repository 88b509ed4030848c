"""The rows of the programs: the fastest mode, medians, and ratios to the best peer of each figure."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench_compare"))

import support  # noqa: E402
from driver import programs, report, text  # noqa: E402

KINDS = {"hmc-window": "hmc", "hmc-private": "hmc", "openmpi": "peer", "mpich": "peer"}


def layout(**changes):
    return {"name": "programs-np2", "title": "2 ranks", "np": 2, "nodes": 1, "figure": "us_p50", "rounds": 3,
            "contestants": list(KINDS), **changes}


def sample(contestant, mode, number, total, rest, program="stencil2d", size=64):
    one = {"layout": "programs-np2", "contestant": contestant, "program": program, "mode": mode, "size": size, "round": number}
    for suffix, factor in (("_p50", 1.0), ("_mean", 10.0)):
        figures = {"total": total, "compute": total - rest, "exposed": rest, "exchange": rest + 1.0, "wait": 1.0, "rest": rest}
        one.update({key + suffix: value * factor for key, value in figures.items()})
    return one


def samples():
    found = []
    for number, scale in enumerate((1.0, 2.0, 4.0)):
        found += [sample("hmc-window", "signal", number, 80 * scale, 2 * scale), sample("hmc-private", "signal", number, 90 * scale, 9 * scale),
                  sample("hmc-private", "message", number, 88 * scale, 8 * scale),
                  sample("openmpi", "isend", number, 100 * scale, 5 * scale), sample("openmpi", "persistent", number, 99 * scale, 6 * scale),
                  sample("mpich", "isend", number, 110 * scale, 4 * scale)]
    return found


class Rows(unittest.TestCase):
    def setUp(self):
        self.row, = programs.rows([layout()], samples(), KINDS)

    def test_each_contestant_has_the_figures_of_its_fastest_mode(self):
        self.assertEqual(self.row["modes"], {"hmc-window": "signal", "hmc-private": "message", "openmpi": "persistent", "mpich": "isend"})
        self.assertEqual(self.row["us"]["total"], {"hmc-window": 160, "hmc-private": 176, "openmpi": 198, "mpich": 220})

    def test_ratios_are_to_the_best_peer_of_each_figure(self):
        self.assertEqual(self.row["best_peer"]["total"], "openmpi")
        self.assertEqual(self.row["best_peer"]["rest"], "mpich")
        self.assertAlmostEqual(self.row["to_best_peer"]["total"]["hmc-window"]["median"], 80 / 99)
        self.assertAlmostEqual(self.row["to_best_peer"]["rest"]["hmc-private"]["median"], 2.0)
        self.assertEqual(self.row["to_best_peer"]["rest"]["hmc-private"]["spread"], 0.0)

    def test_ranks_that_share_cores_are_compared_by_means(self):
        row, = programs.rows([layout(figure="us_mean")], samples(), KINDS)
        self.assertEqual(row["us"]["total"]["mpich"], 2200)

    def test_modes_of_other_rows_do_not_count(self):
        more = [sample("hmc-window", "blocking", 0, 50, 1, "training", 128), sample("hmc-window", "overlapped", 0, 40, 1, "training", 128)]
        by_name = {row["program"]: row["us"]["total"]["hmc-window"] for row in programs.rows([layout()], more, KINDS)}
        self.assertEqual(by_name, {"training 128, blocking": 50, "training 128, overlapped": 40})


class Tables(unittest.TestCase):
    def setUp(self):
        self.found = {"layouts": [layout()], "rows": programs.rows([layout()], samples(), KINDS), "rules": programs.RULES, "notes": [],
                      "failed": [], "samples": []}

    def test_each_form_of_hmc_has_a_line(self):
        (heading, header, lines), = programs.tables(self.found, text.SHORT, text.time_name, text.ratio_name)
        self.assertIn("median of 3 rounds", heading)
        self.assertEqual([len(line) for line in lines], [len(header)] * 2)
        self.assertEqual([line[1] for line in lines], ["window", "private"])
        self.assertIn("0.81", lines[0])

    def test_a_peer_without_a_time_leaves_a_gap(self):
        only = [one for one in samples() if one["contestant"].startswith("hmc")]
        self.found["rows"] = programs.rows([layout()], only, KINDS)
        (_, _, lines), = programs.tables(self.found, text.SHORT, text.time_name, text.ratio_name)
        self.assertEqual(lines[0].count("-"), 8)

    def test_the_report_and_the_text_have_them_first(self):
        results = support.complete()
        results["programs"] = self.found
        page = report.page(results)
        self.assertLess(page.index('<h2 id="Programs"'.lower()), page.index('<h2 id="legend"'))
        whole = text.whole(results)
        self.assertLess(whole.index("Programs: 2 ranks"), whole.index("one node, 2 ranks"))

    def test_every_program_is_in_one_group(self):
        self.assertEqual(sorted(programs.NAMES), sorted({row[1] for row in programs.ROWS}))


if __name__ == "__main__":
    unittest.main()
