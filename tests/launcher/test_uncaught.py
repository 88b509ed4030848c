"""Uncaught errors of the ranks: hmcrun prints each distinct text once."""

import os
import re
import tempfile

from common import LauncherTest, main, run

APP = os.environ["HMC_UNCAUGHT_APP"]
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "uncaught_app.cpp")
with open(SOURCE, encoding="utf-8") as source:
    LINE = next(number for number, line in enumerate(source, 1) if "// UNCAUGHT" in line)
BLOCK = re.compile(r"^hmcrun: (ranks? [\d, -]+): uncaught hmc::Error(?:, called in (.*))?:\nhmcrun:   (.*)$", re.MULTILINE)


class Uncaught(LauncherTest):
    def blocks(self, *words, **popen):
        status, _, err = run(*words, **popen)
        self.assertEqual(status, 128 + 6, err)
        self.assertNotIn("terminate called", err)
        self.assertNotIn("AgreedError", err)
        return BLOCK.findall(err)

    def test_the_same_error_of_all_ranks_is_printed_once_with_its_line(self):
        with tempfile.TemporaryDirectory() as folder:
            blocks = self.blocks("-np", "3", APP, "same", folder)
        self.assertEqual(len(blocks), 1)
        ranks, place, text = blocks[0]
        self.assertEqual((ranks, text), ("ranks 0-2", "Runtime::node: there is no rank 99 [bad_rank]"))
        # The compiler may inline it.
        self.assertRegex(place, rf"(throws|main) \(.*uncaught_app\.cpp:{LINE}\)$")

    def test_the_first_cause_is_first(self):
        blocks = self.blocks("-np", "4", "--nodes", "2", APP, "first")
        self.assertEqual((blocks[0][0], blocks[0][2]), ("rank 1", "Runtime::node: there is no rank 99 [bad_rank]"))
        for ranks, place, text in blocks[1:]:
            self.assertIn("[peer_failed", text)
            self.assertIn("main (", place)
            self.assertNotRegex(ranks, r"\b1\b")
        self.assertEqual(len({text for _, _, text in blocks}), len(blocks))

    def test_an_error_of_init_is_printed_once_too(self):
        blocks = self.blocks("-np", "2", "-x", "HMC_TRANSPORT=nonsense", APP)
        self.assertEqual(len(blocks), 1)  # the second rank may be ended before it has begun
        self.assertIn("HMC_TRANSPORT", blocks[0][2])

    def test_other_exceptions_are_not_touched(self):
        status, _, err = run("-np", "1", APP, "other")
        self.assertEqual(status, 128 + 6)
        self.assertIn("terminate called after throwing an instance of 'std::runtime_error'\n  what():  not HMC's", err)

    def test_a_handler_of_the_program_stays(self):
        status, _, err = run("-np", "1", APP, "handler")
        self.assertEqual((status, BLOCK.findall(err)), (128 + 6, []))
        self.assertIn("own handler\n", err)

    def test_a_file_of_a_rank_has_its_own_error(self):
        with tempfile.TemporaryDirectory() as folder:
            status, _, err = run("-np", "1", "--output-filename", folder, APP, "alone")
            with open(f"{folder}/rank.0/stderr", encoding="utf-8") as file:
                self.assertIn("terminate called after throwing an instance of 'hmc::Error'", file.read())
        self.assertEqual((status, BLOCK.findall(err)), (128 + 6, []))


main()
