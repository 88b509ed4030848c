"""The driver's handling of contestants that work, fail, hang, report wrong data or are absent."""

import os
import stat
import subprocess
import tempfile
import time
import unittest
import unittest.mock

import support
from driver import contestants, launch, machine, peers, plan, results, rounds

# A fake contestant: writes lines for its cells as the real programs do, or misbehaves.
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
if how == "falters":  # wrong in the second round only
    with open(os.path.join(os.path.dirname(sys.argv[0]), "order")) as order:
        how = "is_wrong" if order.read().split().count("falters") == 2 else how
if how == "litters":
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
cpus = {"unpinned": [[0, 2], [0, 2]], "elsewhere": [[1, 1], [0, 1]]}.get(how, [[0, 1], [1, 1]])
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
            line.update(us_mean=2.0, us_p50=1.0, us_min=1.0, us_max=3.0, us_read=0.1, us_both_mean=2.1,
                        us_both_p50=1.1, calls=10, batch=1,
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

    def play(self, *players, rounds_wanted=1, nodes=1, timeout_s=10, apart=False, seed=1):
        """Runs these contestants with two cells; returns the interleaver and the layout."""
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
        work = rounds.Interleaver(everyone, settings, lambda line: None, seed)
        work.run(layout, rounds_wanted, None)
        self.rows = results.rows([layout], everyone, work.samples, work.missing, work.withdrawn)
        return work, layout

    def order(self):
        with open(os.path.join(self.folder.name, "order"), encoding="utf-8") as file:
            return file.read().split()

    def test_every_round_runs_each_contestant_once_in_a_random_order(self):
        work, layout = self.play("one", "two", "three", rounds_wanted=8, seed=3)
        order = self.order()
        found = {tuple(order[at:at + 3]) for at in range(0, len(order), 3)}
        self.assertTrue(all(sorted(each) == ["one", "three", "two"] for each in found), found)
        self.assertGreater(len(found), 2)
        # Neither a position nor a successor is fixed: in a rotation each contestant would have one successor.
        after_one = {each[each.index("one") + 1] for each in found if each[2] != "one"}
        self.assertEqual(after_one, {"two", "three"})
        self.assertEqual(len(work.samples), 8 * 3 * 2)
        self.assertEqual((layout["rounds"], work.notes), (8, []))

    def test_a_seed_reproduces_the_order(self):
        for _ in range(2):
            self.play("one", "two", "three", rounds_wanted=4, seed=7)
        order = self.order()
        self.assertEqual(order[:12], order[12:])

    def test_operations_can_be_interleaved_one_by_one(self):
        self.play("one", "two", apart=True)
        self.assertEqual([sorted(self.order()[at:at + 2]) for at in (0, 2)], [["one", "two"]] * 2)

    def test_a_deadline_ends_the_rounds_and_is_reported(self):
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

    def test_output_before_a_contestants_death_is_kept(self):
        work, _ = self.play("dies_between")
        self.assertEqual([sample["op"] for sample in work.samples], ["put"])
        self.assertIn("exit 7", self.rows[1]["missing"]["dies_between"])
        self.assertNotIn(("memory-np2", "dies_between", "put", 8), work.withdrawn)

    def test_wrong_bytes_in_one_round_withdraw_the_cell(self):
        work, _ = self.play("falters", rounds_wanted=3)
        self.assertEqual(len(work.samples), 2 * 2)  # the other rounds' times exist, and aren't reported
        for row in self.rows:
            self.assertEqual((row["us"], row["missing"]), ({}, {"falters": "wrong bytes (round 2)"}))

    def test_a_hanging_contestant_is_killed_reported_and_not_started_again(self):
        work, _ = self.play("hangs", "one", rounds_wanted=2, timeout_s=0.5, apart=True)
        self.assertEqual(self.order().count("hangs"), 1)
        self.assertIn("not complete after", work.notes[0])
        self.assertTrue(all("hangs" in row["missing"] for row in self.rows))

    def test_wrong_bytes_are_a_line_and_have_no_time(self):
        work, _ = self.play("is_wrong")
        self.assertEqual(work.samples, [])
        self.assertIn("put of 8 bytes: wrong bytes", work.notes[0])

    def test_absence_is_a_line_that_names_the_package(self):
        work, _ = self.play("absent", "one")
        self.assertIn("ABSENT: absent", work.notes[0])
        self.assertIn("its-package", work.notes[0])
        self.assertEqual(self.rows[0]["missing"], {"absent": "absent"})

    def test_an_operation_that_a_contestant_lacks_is_not_a_failure(self):
        work, _ = self.play("lacks_it")
        self.assertEqual((work.failed, self.rows[0]["missing"]), (set(), {"lacks_it": "no such thing"}))

    def test_bytes_that_did_not_cross_loopback_have_no_network_time(self):
        work, _ = self.play("cheats", "one", nodes=2)
        self.assertEqual({sample["contestant"] for sample in work.samples}, {"one"})
        self.assertEqual(work.failed, {"cheats"})

    def test_ranks_on_wrong_cpus_are_reported(self):
        for player in ("unpinned", "elsewhere"):
            work, _ = self.play(player)
            self.assertIn("not on [[0, 1], [1, 1]]", work.notes[0])

    def test_contestants_on_different_cpus_are_reported(self):
        work, _ = self.play("elsewhere", "one")
        self.assertIn("weren't on the same CPUs", work.notes[-1])

    def test_all_contestants_get_the_same_cpus(self):
        _, layout = self.play("one")
        self.assertIn("--cpus=0,1", layout["commands"]["one"])

    def test_no_process_is_left_behind(self):
        self.play("litters")
        mine = subprocess.run(["ps", "--ppid", str(os.getpid()), "-o", "comm="], capture_output=True, text=True,
                              check=False).stdout.split()
        self.assertNotIn("sleep", mine)

    def test_the_time_of_a_start_is_not_rounded_to_a_poll(self):
        # A poll at 1, 3, 7 ... 63, 113, 163 ms would give 163.
        # A busy machine delays most starts.
        least = 1.0
        for _ in range(60):
            least = min(least, launch.run(["sh", "-c", "exec sleep 0.12"], 10).wall_s)
            if least < 0.13:
                break
        self.assertTrue(0.12 <= least < 0.13, least)


class Load(unittest.TestCase):
    def share(self, before, after, ours):
        with unittest.mock.patch.object(machine, "cpu_times", side_effect=[before, after]), \
                unittest.mock.patch.object(launch.Load, "_children", side_effect=ours), \
                unittest.mock.patch("os.cpu_count", return_value=2):
            return launch.Load().of_others()

    def test_is_neither_idle_time_nor_that_of_own_children(self):
        tick = os.sysconf("SC_CLK_TCK")
        self.assertAlmostEqual(self.share((0, 0, 0), (10 * tick, 4 * tick, 0), [1.0, 6.0]), 0.1)

    def test_is_never_negative_and_unknown_of_a_short_time(self):
        tick = os.sysconf("SC_CLK_TCK")
        self.assertEqual(self.share((0, 0, 0), (10 * tick, 4 * tick, 0), [0.0, 7.0]), 0.0)
        self.assertIsNone(self.share((0, 0, 0), (0.3 * tick, 0, 0), [0.0, 0.0]))

    def test_another_process_is_counted(self):
        load = launch.Load()
        other = subprocess.Popen(["timeout", "90", "sh", "-c", "while :; do :; done"])
        try:
            end = time.monotonic() + 60
            while not load.of_others():
                self.assertLess(time.monotonic(), end)
                time.sleep(0.05)
        finally:
            other.terminate()  # timeout passes it on
            other.wait()


class Wheels(unittest.TestCase):
    """Environments of peers, with fake commands that only record their arguments."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build, self.ran, self.broken = folder.name, [], ""
        wheels = {name: {"packages": [f"{name}==1"], "options": []} for name in ("one", "two")}
        for patch in (unittest.mock.patch.object(peers, "WHEELS", wheels),
                      unittest.mock.patch.object(peers, "_run", self.run_command)):
            patch.start()
            self.addCleanup(patch.stop)

    def run_command(self, words):
        self.ran.append(words)
        if "venv" in words:
            os.makedirs(words[-1])
        return "no network" if words[-1] == self.broken else ""

    def test_a_failure_leaves_the_others_and_no_folder(self):
        self.broken, messages = "one==1", []
        peers.install_all(self.build, messages.append)
        self.assertEqual(messages, ["continuing without one==1: no network"])
        self.assertEqual((peers.is_installed(self.build, "one"), peers.is_installed(self.build, "two")), (False, True))
        self.assertEqual(os.listdir(os.path.join(self.build, "peers")), ["two"])

    def test_an_existing_environment_is_kept_and_one_of_other_versions_is_replaced(self):
        peers.install(self.build, "one")
        count = len(self.ran)
        self.assertEqual((peers.install(self.build, "one"), len(self.ran)), ("", count))
        peers.WHEELS["one"]["packages"] = ["one==2"]
        self.assertEqual(peers.install(self.build, "one"), "")
        self.assertEqual(self.ran[-1][-1], "one==2")

    def test_an_incomplete_folder_is_replaced(self):
        os.makedirs(peers.folder(self.build, "one"))
        self.assertEqual(peers.install(self.build, "one"), "")
        self.assertTrue(peers.is_installed(self.build, "one"))


class Chosen(unittest.TestCase):
    """The participating peers."""

    def chosen(self, wanted, *here):
        everyone = contestants.everyone("/nowhere")
        for one in everyone:
            one.missing = lambda name=one.name: "" if name in here else "it isn't here"
        names, note = contestants.chosen(wanted, everyone)
        return {name for name in names if name in contestants.PEERS["all"]}, note

    def test_pypi_is_its_mpis_and_gloo(self):
        self.assertEqual(self.chosen("pypi", "mpich5"), ({"openmpi5", "mpich5", "intelmpi", "gloo"}, ""))

    def test_debian_replaces_pypi_with_a_note_if_no_peer_of_pypi_is_installed(self):
        names, note = self.chosen("pypi", "openmpi", "mpich")
        self.assertEqual(names, {"openmpi", "mpich", "gloo"})
        self.assertIn("no peer from PyPI is installed", note)

    def test_all_is_both(self):
        self.assertEqual(self.chosen("all"), ({"openmpi5", "mpich5", "intelmpi", "openmpi", "mpich", "gloo"}, ""))

    def test_layouts_have_the_participants(self):
        for layout in plan.layouts("full", [0, 1], names=["hmc-window", "openmpi5"]):
            self.assertEqual(set(layout["contestants"]), {"hmc-window", "openmpi5"})

    def test_settings_list_the_added_and_the_inherited_environment(self):
        everyone = {one.name: one for one in contestants.everyone("/nowhere")}
        network, memory = support.layout(nodes=2), support.layout()
        with unittest.mock.patch.dict(os.environ, {"UCX_LOG_LEVEL": "info"}):
            settings = everyone["intelmpi"].all_settings(network)
            self.assertIn("environment: I_MPI_ROOT=/nowhere/peers/intelmpi I_MPI_PIN=0 I_MPI_FABRICS=ofi", settings)
            self.assertIn("found in the environment: ", settings)
            self.assertIn("UCX_LOG_LEVEL=info", settings)
        self.assertIn("single copy: I_MPI_SHM_CMA: its default", everyone["intelmpi"].all_settings(memory))
        self.assertIn("single copy: shared windows", everyone["hmc-window"].all_settings(memory))

    def test_between_nodes_hmc_keeps_the_systems_congestion_control_as_the_others_do(self):
        everyone = {one.name: one for one in contestants.everyone("/nowhere")}
        self.assertEqual(everyone["hmc-window"].environment(support.layout(nodes=2)), {"HMC_TCP_CONGESTION": "system"})

    def test_no_time_between_nodes_if_a_part_is_missing(self):
        everyone = {one.name: one for one in contestants.everyone("/nowhere")}
        self.assertIn("libfabric", everyone["intelmpi"].missing_in(support.layout(nodes=2)))
        self.assertEqual(everyone["intelmpi"].missing_in(support.layout()), "")


class Plan(unittest.TestCase):
    def test_ranks_that_fit_are_pinned_and_the_median_call_counts(self):
        found = {one["np"]: (one["pinned"], one["figure"]) for one in plan.layouts("full", [0, 2, 4, 6]) if one["nodes"] == 1}
        self.assertEqual(found, {2: (True, "us_p50"), 4: (True, "us_p50"), 8: (False, "us_mean")})

    def test_ranks_share_cores_in_turn_if_they_do_not_fit(self):
        found = {one["np"]: one["cpu_list"] for one in plan.layouts("full", [0, 2, 4, 6], nodes=(1,))}
        self.assertEqual(found, {2: [0, 2], 4: [0, 2, 4, 6], 8: [0, 2, 4, 6]})

    def test_one_hardware_thread_of_each_core_is_used(self):
        siblings = {0: "0,4", 1: "1,5", 2: "2,6", 4: "0,4", 5: "1,5", 7: ""}
        self.assertEqual(machine.cores({0, 1, 2, 4, 5, 7}, siblings.get), [0, 1, 2, 7])

    def test_nodes_choose_layouts(self):
        nodes = [{one["nodes"] for one in plan.layouts("quick", [0, 1], nodes=chosen)} for chosen in ((1,), (2,), (1, 2))]
        self.assertEqual(nodes, [{1}, {2}, {1, 2}])
        self.assertEqual(plan.hello_layouts("quick", nodes=(2,)), [])

    def test_all_operations_are_in_every_layout(self):
        for layout in plan.layouts("full", [0, 1]):
            wanted = plan.COMPOSED if layout["name"] == "network-np4" else plan.OPERATIONS
            self.assertEqual(set(layout["cells"]), set(wanted))

    def test_the_shorter_modes_have_the_first_ones_everywhere_and_all_of_them_somewhere(self):
        for mode in plan.MODES:
            layouts = plan.layouts(mode, [0, 1])
            self.assertEqual(set().union(*(layout["cells"] for layout in layouts)), set(plan.OPERATIONS))
            for layout in layouts:
                wanted = plan.COMPOSED if layout["name"] == "network-np4" else plan.FIRST
                self.assertLessEqual(set(wanted), set(layout["cells"]))

    def test_sizes_are_whole_words(self):
        for mode in plan.MODES.values():
            by_ranks = [*mode["sizes"].values(), *mode["further_sizes"].values(), *mode["v_sizes"].values()]
            for size in [*mode["network_sizes"], *mode["further_network_sizes"], *mode["composed_sizes"], *sum(by_ranks, [])]:
                self.assertEqual(size % 8, 0)


if __name__ == "__main__":
    unittest.main()
