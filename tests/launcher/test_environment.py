"""A rank's environment and binding."""

import os
import resource

from common import APP, HMCRUN, LauncherTest, main, run


def variables(*words, **popen):
    """By rank: the environment as a dictionary."""
    _, out, err = run(*words, "sh", "-c", "env -0 | tr '\\n\\0' ' \\n' | sed \"s/^/$HMC_RANK /\"", **popen)
    ranks = {}
    for line in out.splitlines():
        rank, _, entry = line.partition(" ")
        name, _, value = entry.partition("=")
        ranks.setdefault(int(rank), {})[name] = value
    return ranks, err


class Environment(LauncherTest):
    def test_who_each_rank_is(self):
        ranks, _ = variables("-np", "3")
        self.assertEqual(sorted(ranks), [0, 1, 2])
        for rank, env in ranks.items():
            self.assertEqual((env["HMC_RANK"], env["HMC_SIZE"], env["HMC_LAUNCHER"]), (str(rank), "3", "hmcrun"))
            self.assertRegex(env["HMC_STORE"], r"^(127\.0\.0\.1|\[::1\]):\d+$")
            self.assertRegex(env["HMC_SECRET"], r"^[0-9a-f]{64}$")

    def test_secrets_differ_between_jobs(self):
        self.assertNotEqual(variables("-np", "1")[0][0]["HMC_SECRET"], variables("-np", "1")[0][0]["HMC_SECRET"])

    def test_a_wrong_value_that_hmcrun_reads_is_an_error(self):
        status, out, err = run("-np", "1", APP, "print=x", env={**os.environ, "HMC_TLS": "garbage"})
        self.assertEqual((status, out), (125, ""))
        self.assertRegex(err, "^hmcrun: .*HMC_TLS.*garbage")

    def test_one_node(self):
        ranks, _ = variables("-np", "3")
        self.assertEqual({env["HMC_NODE"] for env in ranks.values()}, {"node0"})

    def test_pretended_nodes_are_blocks(self):
        ranks, _ = variables("-np", "5", "--nodes", "2")
        self.assertEqual([ranks[r]["HMC_NODE"] for r in range(5)], ["node0", "node0", "node0", "node1", "node1"])

    def test_x_with_a_value(self):
        ranks, err = variables("-np", "2", "-x", "COLOUR=dark red", "-x", "SIZE=a=b", "-x", "EMPTY=")
        for env in ranks.values():
            self.assertEqual((env["COLOUR"], env["SIZE"], env["EMPTY"]), ("dark red", "a=b", ""))
        self.assertEqual(err, "")

    def test_x_replaces_what_was_there(self):
        ranks, _ = variables("-np", "1", "-x", "COLOUR=red", env=dict(os.environ, COLOUR="blue"))
        self.assertEqual(ranks[0]["COLOUR"], "red")

    def test_x_of_a_name_passes_it_on(self):
        ranks, err = variables("-np", "1", "-x", "COLOUR", env=dict(os.environ, COLOUR="blue"))
        self.assertEqual((ranks[0]["COLOUR"], err), ("blue", ""))

    def test_x_of_an_unset_name_warns(self):
        ranks, err = variables("-np", "1", "-x", "NO_SUCH_VARIABLE")
        self.assertNotIn("NO_SUCH_VARIABLE", ranks[0])
        self.assertIn("hmcrun: -x NO_SUCH_VARIABLE", err)

    def test_the_environment_is_inherited(self):
        ranks, _ = variables("-np", "1", env=dict(os.environ, COLOUR="blue"))
        self.assertEqual(ranks[0]["COLOUR"], "blue")

    def test_a_job_inside_a_job_is_its_own(self):
        _, out, _ = run("-np", "2", HMCRUN, "-np", "3", "sh", "-c", "echo $HMC_RANK/$HMC_SIZE")
        self.assertEqual(sorted(out.split()), ["0/3", "0/3", "1/3", "1/3", "2/3", "2/3"])

    def test_the_descriptor_limit_is_as_it_was(self):
        _, out, _ = run("-np", "1", "sh", "-c", "ulimit -Sn")
        self.assertEqual(out, f"{resource.getrlimit(resource.RLIMIT_NOFILE)[0]}\n")

    def test_no_descriptor_of_ours_is_inherited(self):
        for words in ([], ["--tag-output"], ["--nodes", "2"]):
            _, out, _ = run("-np", "2", *words, APP, "fds")
            for line in out.splitlines():
                self.assertEqual(line.split("] ")[-1].split(), ["0", "1", "2"], words)


class Binding(LauncherTest):
    def allowed(self, *words):
        """The allowed CPUs, by rank."""
        _, out, err = run(*words, "sh", "-c", "echo $HMC_RANK $(sed -n 's/Cpus_allowed_list:\\t//p' /proc/self/status)")
        return [line.split()[1] for line in sorted(out.splitlines())], err

    def test_none_is_the_default(self):
        mine = self.allowed("-np", "1")[0]
        self.assertEqual(self.allowed("-np", "2", "--bind-to", "none")[0], mine * 2)

    def test_core_gives_each_rank_its_own(self):
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2:
            self.skipTest("one CPU only")
        allowed, err = self.allowed("-np", "2", "--bind-to", "core")
        self.assertEqual((len(set(allowed)), err), (2, ""))

    def test_more_ranks_than_cores_share_and_are_told(self):
        count = len(os.sched_getaffinity(0))
        allowed, err = self.allowed("-np", str(2 * count + 1), "--bind-to", "core")
        self.assertEqual(allowed[0], sorted(allowed)[0])
        self.assertIn("share", err)

    def test_numa(self):
        allowed, err = self.allowed("-np", "2", "--bind-to", "numa")
        self.assertEqual((len(allowed), err), (2, ""))

    def test_hmcruns_own_limits_hold(self):
        cpu = max(os.sched_getaffinity(0))
        _, out, _ = run("-np", "2", "--bind-to", "core", "--report-bindings", "sh", "-c",
                        "sed -n 's/Cpus_allowed_list:\\t//p' /proc/self/status",
                        preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))
        self.assertEqual(out.split(), [str(cpu)] * 2)

    def test_report(self):
        _, err = self.allowed("-np", "2", "--bind-to", "core", "--report-bindings")
        self.assertRegex(err, r"hmcrun: rank 0 \(node 0\): core 0 \(cpus ")

    def test_report_without_binding(self):
        _, err = self.allowed("-np", "1", "--report-bindings")
        self.assertIn("rank 0 (node 0): not bound (cpus ", err)


main()
