"""Rows made of samples, and the check of a results.json."""

import copy
import json
import unittest

import support
from driver import results


class Rows(unittest.TestCase):
    def setUp(self):
        samples = [support.sample(name, r, us) for name, times in (
            ("hmc-window", [1.0, 1.0, 1.2]), ("floor-window", [0.5, 0.5, 0.6]), ("floor-private", [9.0, 9.0, 9.0]),
            ("openmpi", [4.0, 2.0, 2.0]), ("mpich", [3.0, 3.0, 3.0])) for r, us in enumerate(times)]
        missing = {("memory-np2", "gloo", "allreduce", 8): "it lacks this"}
        self.row = support.whole([support.layout({"allreduce": ["allreduce:8"]})], samples, missing)["rows"][0]

    def test_show_the_median_round(self):
        self.assertEqual(self.row["us"]["openmpi"], 2.0)

    def test_name_the_best_peer_and_never_a_floor_as_such(self):
        self.assertEqual(self.row["best_peer"], "openmpi")

    def test_compare_hmc_with_the_best_peer_round_by_round(self):
        self.assertEqual(self.row["to_best_peer"]["hmc-window"]["median"], 0.5)

    def test_compare_window_buffers_with_the_floor_of_window_buffers(self):
        self.assertEqual(self.row["to_floor"]["hmc-window"]["median"], 2.0)

    def test_mark_the_noisy(self):
        self.assertEqual(self.row["noisy"], ["openmpi"])

    def test_have_the_reason_of_a_missing_time(self):
        self.assertEqual(self.row["missing"]["gloo"], "it lacks this")

    def test_use_the_mean_where_ranks_share_cores(self):
        layout = support.layout({"allreduce": ["allreduce:8"]}, figure="us_mean")
        row = support.whole([layout], [support.sample("mpich", 0, 3.0)], {})["rows"][0]
        self.assertEqual(row["us"]["mpich"], 6.0)

    def test_between_nodes_the_floor_is_the_tcp_loop(self):
        layout = support.layout({"put": ["put:8"]}, name="network-np2", nodes=2,
                                contestants=["floor-tcp", "hmc-private"])
        samples = [support.sample(name, 0, us, "put", 8, "network-np2")
                   for name, us in (("floor-tcp", 5.0), ("hmc-private", 10.0))]
        row = support.whole([layout], samples, {})["rows"][0]
        self.assertEqual(row["to_floor"]["hmc-private"]["median"], 2.0)


class Doubts(unittest.TestCase):
    """A row with a failure or doubt in any round is marked or withdrawn."""

    def row(self, counts, rounds=5, withdrawn=None, **changes):
        samples = [support.sample(name, r, 2.0) for name, count in counts.items() for r in range(count)]
        for one in samples:
            one.update(changes)
        layout = support.layout({"allreduce": ["allreduce:8"]}, rounds=rounds)
        found = support.whole([layout], samples, {}, withdrawn)
        return found["rows"][0], next(support.text.tables(found))[2][0]

    def test_a_cell_that_failed_in_one_round_has_no_time_and_a_reason(self):
        key = ("memory-np2", "mpich", "allreduce", 8)
        row, _ = self.row({"hmc-window": 5, "mpich": 4}, withdrawn={key: "wrong bytes (round 5)"})
        self.assertNotIn("mpich", row["us"])
        self.assertEqual((row["missing"]["mpich"], row["best_peer"]), ("wrong bytes (round 5)", None))

    def test_rounds_are_counted_for_each_and_printed_where_some_are_missing(self):
        row, line = self.row({"hmc-window": 5, "mpich": 4})
        self.assertEqual(row["rounds"], {"hmc-window": 5, "mpich": 4})
        self.assertIn("2.00 4/5", line)
        self.assertIn("2.00", line)
        self.assertEqual(row["noisy"], [])

    def test_fewer_than_three_rounds_are_noisy(self):
        row, line = self.row({"hmc-window": 3, "mpich": 2}, rounds=3)
        self.assertEqual(row["noisy"], ["mpich"])
        self.assertIn("2.00~ 2/3", line)
        self.assertTrue(row["to_best_peer"]["hmc-window"]["noisy"])

    def test_fewer_than_60_percent_of_the_rounds_are_noisy(self):
        row, _ = self.row({"hmc-window": 10, "mpich": 6, "openmpi": 5}, rounds=10)
        self.assertEqual(row["noisy"], ["openmpi"])

    def test_a_hurried_pass_is_noisy(self):
        row, _ = self.row({"mpich": 5}, hurried=True)
        self.assertEqual(row["noisy"], ["mpich"])


class Loaded(unittest.TestCase):
    def loaded(self, *shares):
        samples = [dict(support.sample("mpich", r, 2.0), others=share) for r, share in enumerate(shares)]
        found = support.whole([support.layout({"allreduce": ["allreduce:8"]})], samples, {})
        return found["rows"][0]["loaded"]

    def test_a_row_is_loaded_if_other_processes_used_the_cpus_in_most_rounds(self):
        self.assertEqual(self.loaded(0.5, 0.4, 0.0), {"mpich": 0.4})
        self.assertEqual(self.loaded(0.5, 0.0, 0.0), {})

    def test_rounds_of_unknown_load_do_not_count(self):
        self.assertEqual(self.loaded(None, None, 0.3), {"mpich": 0.3})
        self.assertEqual(self.loaded(None, None, None), {})


class Reading(unittest.TestCase):
    """A call that leaves its result in another core's cache is cheap, but reading the result is slow."""

    def setUp(self):
        samples = [support.sample(name, r, us, read=read) for name, us, read in
                   (("hmc-window", 1.0, 2.0), ("openmpi", 2.0, 2.0), ("mpich", 2.5, 0.5)) for r in range(3)]
        self.found = support.whole([support.layout({"allreduce": ["allreduce:8"]})], samples, {})
        self.row = self.found["rows"][0]

    def test_is_a_ratio_of_its_own_with_its_own_best_peer(self):
        self.assertEqual(self.row["to_best_peer"]["hmc-window"]["median"], 0.5)
        self.assertEqual(self.row["with_read"]["best_peer"], "mpich")
        self.assertEqual(self.row["with_read"]["to_best_peer"]["hmc-window"]["median"], 1.0)

    def test_is_a_column_of_the_table(self):
        _, header, lines = next(support.text.tables(self.found))
        self.assertEqual(lines[0][header.index("win/peer")], "0.50")
        self.assertEqual(lines[0][header.index("win+read/peer")], "1.00")


class Schema(unittest.TestCase):
    def setUp(self):
        self.good = support.complete()

    def problems_after(self, change):
        broken = copy.deepcopy(self.good)
        change(broken)
        return results.problems(broken)

    def test_accepts_what_the_driver_makes(self):
        self.assertEqual(results.problems(json.loads(json.dumps(self.good))), [])

    def test_refuses_another_format(self):
        self.assertTrue(self.problems_after(lambda r: r.update(format=99)))

    def test_refuses_a_missing_part(self):
        for key in results.TOP:
            self.assertTrue(self.problems_after(lambda r, key=key: r.pop(key)), key)

    def test_refuses_a_silent_omission(self):
        found = self.problems_after(lambda r: r["rows"][0]["us"].pop("mpich"))
        self.assertIn("mpich", found[0])

    def test_accepts_an_omission_with_a_reason(self):
        def change(r):
            r["rows"][0]["us"].pop("mpich")
            r["rows"][0]["missing"]["mpich"] = "not installed"
        self.assertEqual(self.problems_after(change), [])

    def test_refuses_impossible_times(self):
        self.assertTrue(self.problems_after(lambda r: r["rows"][0]["us"].update(mpich=-1.0)))
        self.assertTrue(self.problems_after(lambda r: r["rows"][0]["us"].update(mpich=float("nan"))))

    def test_refuses_rows_of_unknown_layouts(self):
        self.assertTrue(self.problems_after(lambda r: r["rows"][0].update(layout="nowhere")))


if __name__ == "__main__":
    unittest.main()
