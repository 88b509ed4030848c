"""The arithmetic of the comparison."""

import unittest

import support  # noqa: F401  (finds the driver)
from driver import stats


class Median(unittest.TestCase):
    def test_of_an_odd_number_is_the_middle_one(self):
        self.assertEqual(stats.median([9, 1, 5]), 5)

    def test_of_an_even_number_is_between_the_two_in_the_middle(self):
        self.assertEqual(stats.median([1, 10, 4, 2]), 3)

    def test_accepts_an_iterator(self):
        self.assertEqual(stats.median(iter([3, 1, 2])), 2)

    def test_of_nothing_is_refused(self):
        with self.assertRaises(ValueError):
            stats.median([])


class Spread(unittest.TestCase):
    def test_is_best_to_worst_as_a_share_of_the_median(self):
        self.assertAlmostEqual(stats.spread([10, 12, 9]), 0.3)

    def test_just_30_percent_is_not_noisy(self):
        self.assertFalse(stats.is_noisy([8.5, 10, 11.5]))

    def test_more_is(self):
        self.assertTrue(stats.is_noisy([8.4, 10, 11.5]))

    def test_one_round_has_none(self):
        self.assertEqual(stats.spread([7]), 0)

    def test_times_too_short_for_the_clock_do_not_divide_by_zero(self):
        self.assertEqual(stats.spread([0, 0, 0]), 0)
        self.assertTrue(stats.is_noisy([0, 0, 1]))


class Ratio(unittest.TestCase):
    def test_is_the_median_of_rounds_and_not_a_ratio_of_medians(self):
        # The machine is three times slower in round 1, which affects both.
        ours, theirs = {0: 1.0, 1: 6.0, 2: 2.0}, {0: 2.0, 1: 6.0, 2: 1.0}
        self.assertEqual(stats.ratio(ours, theirs)["median"], 1.0)
        ours, theirs = {0: 1.0, 1: 30.0, 2: 1.2}, {0: 2.0, 1: 60.0, 2: 2.4}
        ratio = stats.ratio(ours, theirs)
        self.assertEqual(ratio["median"], 0.5)
        self.assertFalse(ratio["noisy"])

    def test_only_counts_rounds_that_both_have(self):
        ratio = stats.ratio({0: 1.0, 1: 8.0}, {1: 2.0, 2: 5.0})
        self.assertEqual((ratio["median"], ratio["min"], ratio["max"]), (4.0, 4.0, 4.0))

    def test_is_none_without_a_common_round(self):
        self.assertIsNone(stats.ratio({0: 1.0}, {1: 2.0}))

    def test_leaves_out_rounds_in_which_the_other_took_no_time(self):
        self.assertIsNone(stats.ratio({0: 1.0}, {0: 0.0}))

    def test_marks_a_large_variation(self):
        self.assertTrue(stats.ratio({0: 1.0, 1: 2.0}, {0: 1.0, 1: 1.0})["noisy"])


class Enough(unittest.TestCase):
    def test_three_rounds_and_60_percent_are_enough(self):
        self.assertFalse(stats.too_few(3, 5))
        self.assertTrue(stats.too_few(2, 2))
        self.assertTrue(stats.too_few(5, 10))


class Best(unittest.TestCase):
    def test_has_the_lowest_median(self):
        self.assertEqual(stats.best({"a": {0: 1.0, 1: 9.0, 2: 9.0}, "b": {0: 5.0, 1: 5.0, 2: 5.0}}), "b")

    def test_without_contestants_is_none(self):
        self.assertIsNone(stats.best({}))
        self.assertIsNone(stats.best({"a": {}}))


if __name__ == "__main__":
    unittest.main()
