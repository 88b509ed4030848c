"""The report is one file that shows every series, and the tables have the same content."""

import unittest
import xml.etree.ElementTree as ElementTree

import re

import support
from driver import report, svg, text


def charts(page):
    return [ElementTree.fromstring(found) for found in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def titles(chart):
    return [one.text for one in chart.iter("{http://www.w3.org/2000/svg}title")]


class Page(unittest.TestCase):
    def setUp(self):
        self.results = support.complete()
        self.page = report.page(self.results)

    def test_has_no_external_resources_and_no_scripts(self):
        for word in ("<script", "<link", "<img", "src=", "url(", "@import"):
            self.assertNotIn(word, self.page)
        self.assertEqual(set(re.findall(r'https?://[^" ]*', self.page)), {"http://www.w3.org/2000/svg"})

    def test_has_latency_and_ratio_per_operation_with_sizes_and_dots_for_the_barrier(self):
        names = [titles(chart)[0] for chart in charts(self.page)]
        self.assertEqual(names, ["Legend: times", "Legend: ratios", "allreduce: one node, 2 ranks",
                                 "allreduce, np=2: HMC's ratio (below 1: faster)",
                                 "barrier: one node, 2 ranks", "barrier: HMC's time as a multiple (below 1: faster)"])

    def test_every_contestant_is_in_the_legend_and_in_no_other_chart_of_lines(self):
        labels = {one["label"] for one in self.results["contestants"] if one["name"] in support.NAMES}
        for chart in charts(self.page):
            shown = {one.text for one in chart.iter("{http://www.w3.org/2000/svg}text")}
            if titles(chart)[0] == "Legend: times":
                self.assertLessEqual(labels, shown)
            elif titles(chart)[0].startswith("allreduce"):
                self.assertEqual(labels & shown, set())

    def test_begins_with_a_summary_and_ends_with_the_contestants_and_the_failures(self):
        headings = re.findall(r'<h2 id="[^"]*">([^<]*)</h2>', self.page)
        self.assertEqual(headings[:2], ["Summary", "Contents"])
        self.assertEqual(headings[-2:], ["Contestants", "Failures, absences, remarks"])
        self.assertLess(self.page.index("<h2"), self.page.index("<svg"))

    def test_the_contents_lead_to_every_section_after_them(self):
        targets = re.findall(r'<h2 id="([^"]*)"', self.page)
        self.assertEqual(re.findall(r'href="#([^"]*)"', self.page), targets[2:])
        self.assertEqual(len(targets), len(set(targets)))

    def test_the_summary_counts_what_is_faster_and_slower_and_doubtful(self):
        for name, times in (("hmc-window", 8.0), ("hmc-private", 9.0)):  # the best peer takes 5 for 8 bytes
            self.results["rows"][0]["to_best_peer"][name]["median"] = times / 5
        self.results["rows"][1]["loaded"] = {"gloo": 0.4}
        page = report.page(self.results)
        cells = re.findall(r"<td>([^<]*)</td>", page[page.index("Summary"):page.index("Contents")])
        self.assertEqual(cells[:4], ["one node, 2 ranks", "3", "2", "1"])
        self.assertEqual(cells[6:8], ["allreduce 8: 1.60", "1"])
        self.assertIn("of 3 rows 1 were measured while other processes used the machine", page)

    def test_rows_of_few_rounds_or_of_a_loaded_machine_are_marked(self):
        self.assertNotIn("<tr class=doubt>", self.page)
        self.results["rows"][0]["rounds"]["gloo"] = 2
        self.results["rows"][1]["loaded"] = {"gloo": 0.4}
        page = report.page(self.results)
        marked = re.findall(r"<tr class=doubt>(.*?)</tr>", page)
        self.assertEqual(len(marked), 2)
        self.assertIn("few rounds: 2", marked[0])
        self.assertIn("loaded: 40%", marked[1])
        self.assertIn("loaded: 40%", text.whole(self.results))

    def test_everything_lies_within_its_picture(self):
        for chart in charts(self.page):
            _, _, width, height = (float(word) for word in chart.get("viewBox").split())
            for one in chart.iter():
                for key, most in (("x", width), ("x1", width), ("cx", width), ("y", height), ("y2", height)):
                    if one.get(key):
                        self.assertTrue(0 <= float(one.get(key)) <= most, (one.tag, one.attrib))

    def test_names_in_a_legend_do_not_run_into_each_other(self):
        for chart in charts(self.page):
            rows = {}
            for one in chart.iter("{http://www.w3.org/2000/svg}text"):
                if one.get("text-anchor") == "start" and one.get("font-weight") is None:
                    rows.setdefault(one.get("y"), []).append((float(one.get("x")), one.text))
            for row in rows.values():
                for (x, name), (after, _) in zip(sorted(row), sorted(row)[1:]):
                    self.assertLess(x + len(name) * 6.5, after - 38, name)

    def test_every_point_has_a_bar_from_its_best_round_to_its_worst(self):
        self.assertEqual(self.page.count('class="spread"'), self.page.count("<title>") - len(charts(self.page)) - 1 -
                         self.legend_markers())

    def legend_markers(self):
        return sum(len(one["contestants"]) for one in self.results["layouts"]) + 6  # of times, of ratios

    def test_settings_are_listed_by_layout(self):
        self.results["layouts"][0]["settings"]["mpich"] = "this and that"
        self.assertIn("memory-np2: this and that", report.page(self.results))

    def test_versions_machine_date_and_rules_are_there(self):
        for word in ("2030-01-02", "a processor", "Debian", "abc", "Open MPI"):
            self.assertIn(word, self.page)

    def test_failures_are_lines(self):
        self.results["notes"].append("MPICH: <broke>")
        self.assertIn("<li>MPICH: &lt;broke&gt;</li>", report.page(self.results))

    def test_a_missing_time_is_a_line_even_without_a_note(self):
        row = self.results["rows"][0]
        row["us"].pop("gloo")
        row["missing"]["gloo"] = "no such thing"
        self.assertIn("Gloo, one node, 2 ranks: no time for allreduce 8: no such thing", report.page(self.results))
        self.assertIn("no such thing", text.whole(self.results))

    def test_noise_is_marked_in_the_table_and_hollow_in_the_chart(self):
        before = self.page.count('fill="#fff"')
        self.results["rows"][0]["noisy"].append("mpich")
        page = report.page(self.results)
        self.assertEqual(page.count('fill="#fff"'), before + 1)
        self.assertIn('<td class="noisy">6.00~</td>', page)


class Table(unittest.TestCase):
    def test_has_a_row_per_operation_and_size_and_a_column_per_contestant(self):
        heading, header, lines = next(text.tables(support.complete()))
        self.assertIn("2 ranks", heading)
        self.assertEqual([line[:2] for line in lines], [["allreduce", "8"], ["allreduce", "1K"], ["barrier", "-"]])
        for line in lines:
            self.assertEqual(len(line), len(header))

    def test_numbers_keep_three_digits(self):
        self.assertEqual([text.time_name(us) for us in (0.0123, 1.234, 12.34, 12345.6)],
                         ["0.012", "1.23", "12.3", "12346"])
        self.assertEqual([text.ratio_name({"median": m, "noisy": n}) for m, n in ((0.0012, False), (1.5, True))],
                         ["0.0012", "1.50~"])


class Dots(unittest.TestCase):
    def test_names_of_ticks_leave_each_other_room(self):
        style = {"color": "#000", "dash": "", "width": 1, "marker": "circle"}
        row = {"label": "a name that takes much of the width there is", "style": style, "value": 1.0, "low": 2e-5,
               "high": 9e3, "noisy": False, "text": "1.00"}
        chart = ElementTree.fromstring(svg.dot_chart("title", [row], "ratio", 1.0))
        names = sorted((float(one.get("x")), one.text) for one in chart.iter("{http://www.w3.org/2000/svg}text")
                       if one.get("text-anchor") == "middle" and one.text != "ratio")
        self.assertIn("1", [name for _, name in names])
        for (x, name), (after, other) in zip(names, names[1:]):
            self.assertGreater(after - x, 6.0 * (len(name) + len(other)) / 2)


class Scale(unittest.TestCase):
    def test_covers_its_values_with_whole_ticks(self):
        for low, high in ((0.03, 20000.0), (5.0, 5.0), (1.0, 10.0), (0.9, 1.1), (7.0, 80.0)):
            scale = svg.LogScale([low, high], 0, 100)
            self.assertLessEqual(scale.ticks[0], low * 1.001)
            self.assertGreaterEqual(scale.ticks[-1], high * 0.999)
            self.assertTrue(2 <= len(scale.ticks) <= 10, scale.ticks)
            self.assertTrue(-0.1 <= scale.at(low) <= scale.at(high) <= 100.1)


if __name__ == "__main__":
    unittest.main()
