"""Each program computes the serial result with HMC on 1 to 4 ranks, and with each MPI on 2 ranks. Nothing is timed."""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "compare"))

from driver import contestants, launch, programs  # noqa: E402

BUILD = os.path.abspath(sys.argv.pop(1))
SMALL = {"stencil2d": 48, "stencil3d": 24, "sort": 1500, "training": 32, "fft2d": 32, "fft3d": 16, "table": 64}


def words(contestant, ranks):
    """Each program in each mode, once. The FFTs need a power of two of ranks."""
    found = dict.fromkeys(f"{program}/{mode}:{SMALL[program]}" for _, program, _, ours, theirs in programs.ROWS
                          for mode in (ours if contestant.kind == "hmc" else theirs)
                          if ranks != 3 or not program.startswith("fft"))
    return list(found)


class Results(unittest.TestCase):
    def check(self, contestant, ranks, nodes=1):
        layout = {"np": ranks, "nodes": nodes}
        asked = words(contestant, ranks)
        command = programs.command(contestant, layout, ["--verify", *asked], ())
        outcome = launch.run(command, timeout_s=120, environment=contestant.environment(layout))
        self.assertEqual(outcome.failure, "", (contestant.name, ranks, nodes))
        lines = [line for line in outcome.lines if "program" in line]
        self.assertEqual([f"{line['program']}/{line['mode']}:{line['size']}" for line in lines], asked)
        for line in lines:
            self.assertTrue(line.get("verified") == 1 or "lacks" in line, json.dumps(line))

    def test_hmc_on_one_node(self):
        for contestant in programs.participants(BUILD):
            for ranks in (1, 2, 3, 4) if contestant.kind == "hmc" else ():
                with self.subTest(contestant=contestant.name, ranks=ranks):
                    self.check(contestant, ranks)

    def test_hmc_between_two_nodes(self):
        for contestant in programs.participants(BUILD):
            for ranks in (2, 4) if contestant.kind == "hmc" else ():
                with self.subTest(contestant=contestant.name, ranks=ranks):
                    self.check(contestant, ranks, 2)

    def test_each_installed_peer(self):
        for contestant in programs.participants(BUILD):
            if contestant.kind == "peer" and not contestant.missing():
                with self.subTest(contestant=contestant.name):
                    self.check(contestant, 2)

    def test_wrong_arguments_are_errors(self):
        hmc = next(one for one in programs.participants(BUILD) if one.kind == "hmc")
        for word in ("stencil2d", "stencil2d/signal:0", "unknown/signal:64", "fft2d/alltoall:48"):
            command = programs.command(hmc, {"np": 2, "nodes": 1}, ["--verify", word], ())
            self.assertIn("exit 1", launch.run(command, timeout_s=60).failure, word)


if __name__ == "__main__":
    launch.adopt_orphans()
    unittest.main()
