"""The command line: hmcrun's words, the program's words, and errors."""

from common import APP, LauncherTest, main, run


class Options(LauncherTest):
    def check_ranks(self, *words):
        status, out, err = run(*words, APP, "print=here")
        self.assertEqual((status, out.count("here"), err), (0, 3, ""))

    def test_np(self):
        self.check_ranks("-np", "3")

    def test_n(self):
        self.check_ranks("-n", "3")

    def test_long_np(self):
        self.check_ranks("--np", "3")

    def test_np_with_equals(self):
        self.check_ranks("--np=3")

    def test_double_dash_ends_the_options(self):
        self.check_ranks("-np", "3", "--")

    def test_words_after_the_program_belong_to_it(self):
        words = ["-np", "7", "--nodes", "2", "-x", "A=1", "--help", "--", "--tag-output"]
        status, out, err = run("-np", "1", "/bin/echo", *words)
        self.assertEqual((status, out, err), (0, " ".join(words) + "\n", ""))

    def test_empty_words_and_spaces_reach_the_program(self):
        status, out, _ = run("-np", "1", "/usr/bin/printf", "<%s>", "", "a b", "'\"$x")
        self.assertEqual((status, out), (0, "<><a b><'\"$x>"))

    def test_version(self):
        status, out, _ = run("--version")
        self.assertEqual(status, 0)
        self.assertRegex(out, r"^hmcrun \d+\.\d+\.\d+\n$")

    def test_help_names_every_option(self):
        status, out, _ = run("--help")
        self.assertEqual(status, 0)
        for option in ("-np", "-n,", "-x", "--nodes", "--tag-output", "--output-filename", "--timeout", "--bind-to",
                       "--report-bindings", "--dry-run", "--version", "Exit status"):
            self.assertIn(option, out)

    def check_refused(self, text, *words):
        status, out, err = run(*words)
        self.assertEqual((status, out), (2, ""))
        self.assertRegex(err, r"^hmcrun: ")
        self.assertIn("usage: hmcrun -np N", err)
        self.assertIn(text, err)

    def test_no_number_of_ranks(self):
        self.check_refused("-np N", APP)

    def test_zero_ranks(self):
        self.check_refused("-np 0", "-np", "0", APP)

    def test_negative_ranks(self):
        self.check_refused("-np -2", "-np", "-2", APP)

    def test_ranks_that_are_not_a_number(self):
        self.check_refused("-np 2x", "-np", "2x", APP)

    def test_too_many_ranks(self):
        self.check_refused("-np 99999999999", "-np", "99999999999", APP)

    def test_np_without_a_value(self):
        self.check_refused("np", "-np")

    def test_no_program(self):
        self.check_refused("program is missing", "-np", "2")

    def test_unknown_option(self):
        self.check_refused("--frobnicate", "-np", "2", "--frobnicate", APP)

    def test_more_nodes_than_ranks(self):
        self.check_refused("--nodes 3", "-np", "2", "--nodes", "3", APP)

    def test_binding_to_something_else(self):
        self.check_refused("--bind-to socket", "-np", "2", "--bind-to", "socket", APP)

    def test_timeout_of_zero(self):
        self.check_refused("--timeout 0", "-np", "2", "--timeout", "0", APP)

    def test_variable_that_hmcrun_sets(self):
        self.check_refused("HMC_RANK", "-np", "2", "-x", "HMC_RANK=7", APP)

    def test_variable_without_a_name(self):
        self.check_refused("name is empty", "-np", "2", "-x", "=7", APP)


class DryRun(LauncherTest):
    def test_runs_nothing(self):
        status, out, _ = run("-np", "2", "--dry-run", APP, "print=here")
        self.assertEqual((status, "\nhere\n" in out), (0, False))

    def test_prints_ranks_nodes_and_environment(self):
        status, out, _ = run("-np", "4", "--nodes", "2", "-x", "COLOUR=dark red", "--dry-run", APP, "a b")
        self.assertEqual(status, 0)
        for text in (f"{APP} 'a b'", "ranks: 4", "nodes: 2", "rank 1 (node 0)", "rank 2 (node 1)", "HMC_SIZE=4",
                     "COLOUR='dark red'"):
            self.assertIn(text, out)

    def test_prints_bindings(self):
        _, out, _ = run("-np", "1", "--bind-to", "core", "--dry-run", APP)
        self.assertIn("rank 0 (node 0): core 0 (cpus", out)

    def test_missing_program_is_reported(self):
        self.assertEqual(run("-np", "1", "--dry-run", "/no/such/program")[0], 127)


main()
