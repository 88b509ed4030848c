"""Ranks that joined their job: deaths, aborts, and hmcrun's reports on them."""

import os
import re
import shutil
import subprocess
import tempfile
import time

from common import HMCINFO, Job, LauncherTest, main, run, wait_until

APP = os.environ.get("HMC_MEMBER_APP", "build/tests/member_app")


class Members(LauncherTest):
    layouts = ([], ["--nodes", "2"])

    def test_a_job_that_ends_well(self):
        for layout in self.layouts:
            self.assertEqual(run("-np", "4", *layout, APP, "well"), (0, "", ""))

    def test_a_death_decides_the_status_not_its_consequences(self):
        for layout in self.layouts:
            for odd in (0, 3):
                status, _, err = run("-np", "4", *layout, APP, "die", str(odd))
                self.assertEqual(status, 128 + 9, err)
                self.assertRegex(err, rf"hmcrun: rank {odd} .* was killed by signal 9")

    def test_survivors_get_an_error_within_milliseconds(self):
        for layout in self.layouts:
            best_ms = 1e9
            for _ in range(5):
                _, out, _ = run("-np", "3", *layout, APP, "die", "1")
                died = int(re.search(r"died (\d+)", out)[1])
                saw = [int(ns) for ns in re.findall(r"saw (\d+) peer_failed 1", out)]
                self.assertEqual(len(saw), 2, out)
                best_ms = min(best_ms, (max(saw) - died) / 1e6)
            print(f"{best_ms:.2f} ms ", end="", flush=True)
            self.assertLess(best_ms, 50)

    def test_the_error_of_the_others_names_the_rank_that_exited(self):
        _, out, err = run("-np", "3", APP, "exit", "1")
        texts = re.findall(r"saw \d+ peer_failed 1 (.*)", out)
        self.assertEqual(len(texts), 2, out + err)
        for text in texts:
            self.assertRegex(text, r"^Window::close: rank 1 (exited with status 1|ended without Runtime::close)")

    def test_a_misspelt_variable_is_reported_once_with_the_nearest_name(self):
        environment = dict(os.environ, HMC_TIMOUT_S="5", HMC_TEST_OWN="1")
        status, out, err = run("-np", "3", APP, "well", env=environment)
        self.assertEqual((status, out), (0, ""), err)
        lines = err.splitlines()
        self.assertEqual(len(lines), 1, err)
        self.assertRegex(lines[0], r"^hmc\[0\] warn: .*HMC_TIMOUT_S.* HMC_TIMEOUT_S")

    def test_a_misspelt_variable_is_reported_if_the_job_cannot_be_joined(self):
        environment = dict(os.environ, HMC_RANK="0", HMC_SIZ="2", HMC_STORE="127.0.0.1:1")
        done = subprocess.run([APP, "well"], capture_output=True, text=True, check=False, timeout=60, env=environment)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"^hmc\[0\] warn: .*HMC_SIZ,.* HMC_SIZE\n")

    def test_a_rank_that_leaves_without_close_is_reported(self):
        status, out, err = run("-np", "3", APP, "quiet", "2")
        self.assertEqual(status, 9)
        self.assertIn("peer_failed 2", out)
        self.assertRegex(err, r"hmcrun: rank 2 .*without Runtime::close")

    def test_abort_gives_its_status_and_text(self):
        for layout in self.layouts:
            started = time.monotonic()
            status, out, err = run("-np", "4", *layout, APP, "abort", "2")
            self.assertEqual(status, 7)
            self.assertIn("hmcrun: rank 2 aborted the job: the test wants it so", err)
            self.assertLess(time.monotonic() - started, 4)

    def assert_timeout_tells(self, *words, patterns):
        """The time includes the ranks' start, so on a busy machine the job is repeated with a longer timeout."""
        for timeout in (2, 10, 30):
            status, _, err = run("-np", *words[:1], "--timeout", str(timeout), *words[1:])
            self.assertEqual(status, 124, err)
            if all(re.search(pattern, err) for pattern in patterns):
                return
        for pattern in patterns:
            self.assertRegex(err, pattern)

    def test_timeout_prints_each_ranks_call(self):
        for layout in self.layouts:
            self.assert_timeout_tells("3", *layout, APP, "absent", "1", patterns=[
                r"rank 0 \(pid \d+, node 0\): running, in barrier.* for \d+\.\d s", r"rank 1 .*: running, in "])

    def test_timeout_prints_each_ranks_call_after_a_shrink(self):
        call = r"in allreduce number \d+ of 8000 bytes for \d+\.\d s, waiting for rank \d of the regrouped job"
        for layout in self.layouts:
            self.assert_timeout_tells("4", "--keep-going", *layout, APP, "shrink", "1", patterns=[
                r"rank 0 .*: running, in no HMC call", rf"rank 2 .*: running, {call}", rf"rank 3 .*: running, {call}"])

    def test_hmcinfo_ps_shows_a_rank_once_after_a_shrink(self):
        with Job("-np", "4", "--keep-going", APP, "shrink", "1") as job:
            def shown():
                out = subprocess.run([HMCINFO, "ps"], capture_output=True, text=True, check=True, env=dict(os.environ)).stdout
                mine = [line for line in out.splitlines() if (pid := re.search(r"pid (\d+)", line)) and int(pid[1]) in job.alive()]
                return mine if sum("in allreduce number" in line for line in mine) == 2 else None
            mine = wait_until(shown, 30)
            self.assertEqual([re.search(r"rank (\d+)", line)[1] for line in mine], ["0", "1", "2"], mine)

    def test_timeout_calls_a_stopped_rank_stopped(self):
        for layout in self.layouts:
            self.assert_timeout_tells("3", *layout, APP, "stop", "1", patterns=[
                r"rank 1 \(pid \d+, node 0\): stopped, in no HMC call[^\n]*\n",
                *(rf"rank {rank} .*: running, in barrier number \d+ for \d+\.\d s, waiting for rank" for rank in (0, 2))])

    def test_hmcinfo_ps_shows_what_running_ranks_are_in(self):
        with Job("-np", "3", "sh", "-c", f"exec {APP} stop 1") as job:
            def shown():
                out = subprocess.run([HMCINFO, "ps"], capture_output=True, text=True, check=True, env=dict(os.environ)).stdout
                mine = {int(pid): rest for pid, rest in re.findall(r"rank \d+ +pid (\d+) +(.*)", out)
                        if int(pid) in job.alive()}
                waiting = sum("in barrier number" in rest for rest in mine.values())
                return mine if waiting == 2 and any(rest.startswith("stopped") for rest in mine.values()) else None
            mine = wait_until(shown, 30)
            self.assertEqual(len(mine), 3)
            self.assertEqual(sum("waiting for rank 1" in rest for rest in mine.values()), 2, mine)
            self.assertEqual(sum(rest.startswith("stopped") and "in no HMC call" in rest for rest in mine.values()), 1, mine)

    def test_hmcinfo_stacks_shows_the_stack_of_each_rank(self):
        if not shutil.which("eu-stack") and not shutil.which("gdb"):
            self.skipTest("neither eu-stack nor gdb is installed")
        with Job("-np", "2", "sh", "-c", f"exec {APP} stay") as job:
            for _ in range(2):
                self.assertEqual(job.process.stdout.readline(), "here\n")
            run = subprocess.run([HMCINFO, "stacks", str(job.process.pid)], capture_output=True, text=True, check=True,
                                 env=dict(os.environ))
            ranks = re.findall(r"== member_app rank (\d), pid \d+, running, in no HMC call.*\n((?:(?!==).*\n)+)", run.stdout)
            self.assertEqual([rank for rank, _ in ranks], ["0", "1"], run.stdout)
            for _, stack in ranks:
                self.assertIn("main", stack)
            other = subprocess.run([HMCINFO, "stacks", "1"], capture_output=True, text=True, check=False, env=dict(os.environ))
            self.assertEqual(other.returncode, 1)
            self.assertIn("process 1 is neither a rank nor a launcher of ranks", other.stderr)

    def test_a_long_wait_is_reported_and_goes_on(self):
        for layout in self.layouts:
            with tempfile.TemporaryDirectory() as place:
                gate = os.path.join(place, "gate")
                with Job("-np", "4", *layout, APP, "late", "1", gate, env=dict(os.environ, HMC_REPORT_S="0.2")) as job:
                    # One line for the job, from any node, with the rank that is missing.
                    for _ in range(2):
                        self.assertRegex(job.process.stderr.readline(),
                                         r"warn: barrier has waited for [\d.]+ s for rank \d; "
                                         r".*rank 1 \(host \S+, pid \d+\) is in no HMC call")
                    with open(gate, "w", encoding="ascii"):
                        pass
                    self.assertEqual(job.finish()[0], 0)

    def test_a_circle_of_waits_is_reported_as_a_deadlock(self):
        for layout in self.layouts:
            with Job("-np", "3", *layout, APP, "circle", env=dict(os.environ, HMC_REPORT_S="0.2")) as job:
                # The first report may come before all ranks have waited for half of its time.
                reports = [job.process.stderr.readline()]
                while "deadlock" not in reports[-1] and len(reports) < 4:
                    reports.append(job.process.stderr.readline())
                self.assertRegex(reports[-1], r"warn: recv has waited for [\d.]+ s for rank \d; deadlock: rank 0 in recv waits "
                                              r"for rank 1, rank 1 in recv waits for rank 2, rank 2 in recv waits for rank 0",
                                 reports)

    def test_a_long_start_is_reported_and_goes_on(self):
        with tempfile.TemporaryDirectory() as place:
            gate = os.path.join(place, "gate")
            with Job("-np", "3", APP, "late_start", "1", gate, env=dict(os.environ, HMC_REPORT_S="0.2")) as job:
                self.assertRegex(job.process.stderr.readline(), r"warn: join has waited for 0\.\d+ s for other ranks; "
                                                                r"ranks? .*1.* ha(s|ve)n't joined the job")
                with open(gate, "w", encoding="ascii"):
                    pass
                self.assertEqual(job.finish()[0], 0)

    def test_a_rank_that_hangs_in_init_is_reported(self):
        with tempfile.TemporaryDirectory() as place:
            os.mkfifo(os.path.join(place, "libcuda.so.1"))  # loading it waits for a writer
            script = f"[ $HMC_RANK != 1 ] || export LD_LIBRARY_PATH={place}:$LD_LIBRARY_PATH; exec {APP} well"
            with Job("-np", "3", "sh", "-c", script, env=dict(os.environ, HMC_REPORT_S="0.2")) as job:
                line = job.process.stderr.readline()
                while "rank 1 " not in line:
                    self.assertRegex(line, "warn: .* has waited for")
                    self.assertNotIn("all ranks are in HMC's calls", line)
                    line = job.process.stderr.readline()
                self.assertRegex(line, r"rank 1 \(.*\) is in starting")

    def test_a_stopped_rank_behind_a_wrapper_is_stopped_too(self):
        self.assert_timeout_tells("2", "sh", "-c", f"{APP} stop 1; exit $?", patterns=[
            r"rank 1 .*: stopped, ", r"rank 0 .*: running, in barrier "])

    def test_timeout_prints_the_users_call_not_its_parts(self):
        # Rank 0 puts over the network to a rank that reads nothing.
        for verb, call, size in (("put", "put", " of 67108864 bytes"), ("put_nb", "barrier", "")):
            self.assert_timeout_tells("2", "--nodes", "2", APP, verb, "1", patterns=[
                rf"rank 0 .*: running, in {call}{size} for \d+\.\d s", r"rank 1 .*: stopped, "])

    def test_a_job_on_one_machine_listens_on_loopback_only(self):
        with Job("-np", "4", "--nodes", "2", APP, "stay") as job:
            job.wait_for_lines("here", 4)
            sockets = set()
            for pid in job.alive():
                for name in os.listdir(f"/proc/{pid}/fd"):
                    target = os.readlink(f"/proc/{pid}/fd/{name}") if os.path.lexists(f"/proc/{pid}/fd/{name}") else ""
                    if target.startswith("socket:["):
                        sockets.add(target[8:-1])
            listeners = []
            for table in ("/proc/net/tcp", "/proc/net/tcp6"):
                if not os.path.exists(table):
                    continue
                with open(table) as file:
                    for line in file.readlines()[1:]:
                        fields = line.split()
                        if fields[3] == "0A" and fields[9] in sockets:  # LISTEN
                            listeners.append(fields[1].rsplit(":", 1)[0])
            self.assertEqual(len(listeners), 5, listeners)  # the store, and a data port of each rank
            self.assertEqual(set(listeners), {"0100007F"})  # 127.0.0.1

    def test_no_process_is_left_when_members_are_killed_with_hmcrun(self):
        with Job("-np", "4", "--nodes", "2", APP, "absent", "1") as job:
            time.sleep(0.5)
            job.process.kill()
            self.assert_nobody_left(job)


main()
