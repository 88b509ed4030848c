"""Launchers, failures and ends of jobs, and the adapter: cases.py jobs."""
import os
import re
import sys
import tempfile

from cases import (finds_backends, folder, forked_ranks, hmcrun, hmcrun_job, job, main_program, old, program_text, python, run,
                   succeeded)

training = os.path.join(folder, "training.py")
losses = ["0.692493", "0.843729", "0.753779", "1.282884", "1.087301"]


def check_losses(output, ranks):
    assert re.findall(r"step \d loss ([0-9.]+)", output) == losses, output
    assert f"trained by {ranks} ranks" in output, output


def torchrun(*words):
    # With Python 3.11, torch 1.13 reads --redirects and --tee only if they name one stream.
    return [sys.executable, "-m", "torch.distributed.run", *(["--redirects", "1", "--tee", "1"] if old else []),
            "--nproc_per_node", "2", *([] if finds_backends else ["-m", "hmc.torch"]), *words]


def program(*words):
    """The training program, unmodified. With torch 1.13 it doesn't use DistributedDataParallel."""
    return [training, *words, *(["--no-ddp"] if old else [])]


def forked_training(ranks, *words, environment=None):
    return succeeded(forked_ranks(ranks, lambda: main_program(*program(*words)), environment))


# ---- launchers

def test_training_under_hmcrun():
    check_losses(run([hmcrun, "-np", "3", *python(*program())]), 3)


def test_losses_of_layouts():
    """The same bits with two ranks of one node, of two nodes, under torchrun, and with staged buffers. Threads of one process can't
    be ranks: torch has one default group per process."""
    words = "--exact", "--steps", "30"
    outputs = [forked_training(2, *words), run([hmcrun, "-np", "2", "--nodes", "2", *python(*program(*words, "--no-destroy"))]),
               run(torchrun(*program(*words))), forked_training(2, *words, environment={"HMC_COLL_PRIVATE": "staged"})]
    curves = [re.findall("exact (.*)", each) for each in outputs]
    assert len(set(curves[0])) == 30 and all(each == curves[0] for each in curves), curves
    for output in outputs:
        found = re.findall(r"step \d loss ([0-9.]+)", output)[:5]
        assert len(found) == 5 and all(abs(float(a) - float(b)) < 1e-4 for a, b in zip(found, losses)), output  # 32 bits
        assert "trained by 2 ranks" in output, output


def test_restart_by_torchrun():
    """A rank kills itself in the first attempt. The agent starts all ranks again."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write("import os, sys, runpy\n"
                   "first = os.environ['TORCHELASTIC_RESTART_COUNT'] == '0'\n"
                   "sys.argv = ['training.py'] + sys.argv[1:] + (['--die', '1', '3'] if first else [])\n"
                   f"runpy.run_path({training!r}, run_name='__main__')\n")
        file.flush()
        command = torchrun(file.name, *program()[1:])
        command[command.index("--nproc_per_node"):0] = ["--max_restarts", "2"]
        output = run(command)
    assert output.count("step 0") == 2 and "trained by 2 ranks" in output, output


def test_name_of_another_backend():
    alias = {"HMC_TORCH_ALIAS": "gloo"}
    if finds_backends:  # where nothing imports hmc.torch
        output = run([hmcrun, "-np", "2", sys.executable, *program("--backend", "gloo")], environment=alias)
    else:
        output = forked_training(2, "--backend", "gloo", environment=alias)
    check_losses(output, 2)
    job(2, """
        assert dist.get_backend() == "hmc"
        group = dist.new_group(backend="gloo")
        assert dist.get_backend(group) == "gloo" and hmc.torch.is_hmc(group)
        dist.monitored_barrier(group=group)
        t = torch.ones(3)
        dist.all_reduce(t, group=group)
        assert t.tolist() == [ranks] * 3
        """, environment=alias)


def test_commands_of_the_readme():
    """The section "Training jobs": its program, with each of its commands."""
    with open(os.path.join(folder, "..", "..", "README.md"), encoding="utf-8") as file:
        section = file.read().split("## Training jobs")[1].split("\n## ")[0]
    commands = [line.split("  #")[0].strip() for line in section.splitlines() if line.startswith("    ") and "train.py" in line]
    assert len(commands) == 4, commands
    with tempfile.TemporaryDirectory() as work:
        with open(os.path.join(work, "train.py"), "w", encoding="utf-8") as file:
            file.write(section.split("```python")[1].split("```")[0] + "import os\nos.write(1, f'trained {loss}\\n'.encode())\n")
        for command in commands:
            command = command.replace("torchrun", "python -m torch.distributed.run")  # Debian has no torchrun
            if old:
                command = command.replace("--nproc_per_node 2", "--redirects 1 --tee 1 --nproc_per_node 2 -m hmc.torch")
                command = command.replace("python train.py", "python -m hmc.torch train.py")
            output = run(["bash", "-c", f"cd {work} && {command}"])
            assert output.count("trained ") in (2, 4), output


def test_programs_of_bench():
    """They run, and print a table or why they can't."""
    bench = os.path.join(folder, "..", "..", "bench", "torch")
    for words in (["calls.py", "--rounds", "1", "--bytes", "8"], ["steps.py", "--rounds", "1", "transformer"]):
        path = os.path.realpath(os.path.join(bench, words[0]))
        output = succeeded(forked_ranks(2, lambda: main_program(path, *words[1:])))
        assert re.search("^torch [0-9.]+", output, re.M), output


# ---- failures

def test_killed_rank():
    """Every other rank gets an exception that names the rank. Also in other groups with that rank."""
    output = hmcrun_job(4, """
        group = dist.new_group([1, 2])
        tensor = torch.ones(1000)
        dist.all_reduce(tensor)
        if rank == 2:
            say("dies", time.time())
            os.kill(os.getpid(), signal.SIGKILL)
        for which in [None] + ([group] if rank == 1 else []):
            try:
                while True:
                    dist.all_reduce(tensor, group=which)
            except RuntimeError as error:
                say("rank", rank, "at", time.time(), "error", str(error).replace("\\n", " "))
        try:
            dist.send(tensor, 2)
            dist.recv(tensor, 2)
        except RuntimeError as error:
            say("message of", rank, str(error).split("\\n")[0])
        """, "--keep-going", status=None)
    died = float(re.search(r"dies ([0-9.]+)", output).group(1))
    errors = re.findall(r"rank (\d) at ([0-9.]+) error (.*)", output)
    assert sorted(rank for rank, _, _ in errors) == ["0", "1", "1", "3"], output
    for rank, at, text in errors:
        print(f"rank {rank}: {1000 * (float(at) - died):.0f} ms after the death: {text[:120]}")
        assert float(at) - died < 30, text  # not the timeout of the group
        assert "all" in text and "process group" in text, text
        assert "rank 2" in text or ("its ranks are the global ranks 1 2" in text and "rank 1" in text), text
    assert len(re.findall(r"message of \d", output)) == 3, output


def test_timeout_of_a_group():
    output = job(3, """
        group = dist.new_group(timeout=timedelta(seconds=2))
        if rank != 1:
            try:
                dist.all_reduce(torch.ones(5), group=group)
            except RuntimeError as error:
                say("error", error)
        dist.barrier()
        """)
    texts = re.findall(r"error (.*)", output)
    assert len(texts) == 2 and all("Timed out" in each and "rank 1" in each for each in texts), output


def test_timeout_of_the_future_of_a_message():
    output = job(2, """
        group = dist.new_group(timeout=timedelta(seconds=2))
        if rank == 0:
            try:
                dist.irecv(torch.ones(5), 1, group=group).get_future().wait()
            except RuntimeError as error:
                say("error", error)
        dist.barrier()
        """)
    assert re.search("error .*Timed out.*recv.*rank 0 waited 2000 ms for rank 1", output), output


def test_timeout_of_a_wait():
    job(2, """
        tensor = torch.ones(5)
        if rank == 0:
            work = dist.all_reduce(tensor, async_op=True)
            try:
                work.wait(timedelta(seconds=1))
                raise AssertionError("no timeout")
            except RuntimeError as error:
                assert "Timed out" in str(error), error
            dist.send(torch.ones(1), 1)
            work.wait()  # the operation goes on
        else:
            dist.recv(torch.ones(1), 0)
            dist.all_reduce(tensor)
        assert tensor.tolist() == [2] * 5
        into = torch.ones(2)
        if rank == 0:
            work = dist.irecv(into, 1, tag=5)
            try:
                work.wait(timedelta(seconds=1))
                raise AssertionError("no timeout")
            except RuntimeError as error:
                assert "Timed out" in str(error), error
            dist.barrier()
            work.wait()
            assert into.tolist() == [7, 7]
        else:
            dist.barrier()
            dist.send(into * 7, 0, tag=5)
        """)


def test_abort_ends_calls():
    output = job(2, """
        if rank == 0:
            thread = threading.Timer(0.5, hmc.torch.abort)
            thread.start()
            try:
                dist.all_reduce(torch.ones(3))
                print("no error")
            except RuntimeError as error:
                say("error 0", error)
        else:
            try:
                dist.recv(torch.ones(3), 0)
                print("no error")
            except RuntimeError as error:
                say("error 1", error)
        dist.destroy_process_group()
        """, status=None)
    assert "error 0" in output and "error 1" in output and "no error" not in output, output


def test_destroy_never_waits():
    """With operations in flight that no rank completes, and on one rank only."""
    output = job(2, """
        group = dist.new_group()
        if rank == 0:
            works = [dist.all_reduce(torch.ones(3), group=group, async_op=True), dist.irecv(torch.ones(3), 1, group=group)]
            time.sleep(0.1)
            start = time.monotonic()
            dist.destroy_process_group(group)
            works = None
            print("destroyed after", time.monotonic() - start, flush=True)
        dist.barrier()
        """)
    assert float(re.search(r"destroyed after ([0-9.e-]+)", output).group(1)) < 5, output


def test_last_data_of_a_rank_that_exits():
    for start, destroy in ((hmcrun_job, ""), (job, "dist.destroy_process_group()")):
        start(2, f"""
            tensor = torch.full((100000,), float(rank))
            if rank == 0:
                dist.send(tensor + 5, 1)
            if rank == 1:
                time.sleep(1)
            dist.broadcast(tensor, 0)
            if rank == 1:
                assert tensor.eq(0).all()
            if rank == 1:
                dist.recv(tensor, 0)
                assert tensor.eq(5).all()
            {destroy}
            """.replace("dist.send(tensor + 5, 1)", "works = dist.isend(tensor + 5, 1)"))


def test_keyboard_interrupt():
    """Ctrl-C ends each kind of wait. An interrupted receive may be repeated; the group of an interrupted collective has failed."""
    output = job(2, """
        groups = [dist.new_group() for _ in range(5)]
        into = torch.zeros(3)
        waits = {
            "all_reduce": lambda: dist.all_reduce(torch.ones(3), group=groups[0]),
            "wait": lambda: dist.all_reduce(torch.ones(3), group=groups[1], async_op=True).wait(),
            "limited wait": lambda: dist.all_reduce(torch.ones(3), group=groups[2], async_op=True).wait(timedelta(seconds=90)),
            "wait for the worker": lambda: (works.append(dist.all_reduce(torch.ones(3), group=groups[3], async_op=True)),
                                            works[0].get_future(), time.sleep(0.1), works[0].wait()),
            "recv": lambda: dist.recv(into, 1, tag=3),
            "barrier": lambda: dist.barrier(group=groups[4]),
        }
        works = []
        if rank == 0:
            for name, wait in waits.items():
                start = time.monotonic()
                try:
                    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
                    wait()
                    raise AssertionError("no exception")
                except KeyboardInterrupt:
                    say("interrupted", name, time.monotonic() - start)
            for group in groups[:1]:
                try:  # at once, or after the limit if the worker, not the interrupted thread, executes the first call
                    dist.all_reduce(torch.ones(3), group=group, async_op=True).wait(timedelta(seconds=5))
                    raise AssertionError("no exception")
                except RuntimeError as error:
                    say("error", error)
        dist.barrier()
        if rank == 0:
            dist.recv(into, 1, tag=3)
            assert into.tolist() == [9] * 3
        else:
            dist.send(torch.full((3,), 9.0), 0, tag=3)
        tensor = torch.ones(2)
        dist.all_reduce(tensor)
        assert tensor.tolist() == [2, 2]
        """)
    times = [float(each) for each in re.findall("interrupted [a-z_ ]+ ([0-9.]+)", output)]
    assert len(times) == 6 and max(times) < 30, output
    assert "operation 2]" in re.search("error .*", output).group(0), output


def test_exception_ends_the_others():
    output = hmcrun_job(2, """
        if rank == 0:
            raise ValueError("a mistake")
        start = time.monotonic()
        try:
            dist.all_reduce(torch.ones(3))
        except RuntimeError as error:
            print(f"error after {time.monotonic() - start:.2f} s: {error}", flush=True)
        """, status=None)
    assert "a mistake" in output and "exception" in re.search(r"error after .*", output).group(0), output


def test_wrong_size_of_a_message():
    output = job(2, """
        if rank == 0:
            dist.send(torch.ones(3), 1)
            dist.send(torch.ones(30), 1, tag=1)
        else:
            for tag in (0, 1):
                try:
                    dist.recv(torch.ones(10), 0, tag=tag)
                except RuntimeError as error:
                    say("error", error)
        dist.barrier()
        """)
    assert len(re.findall("error .*12 bytes", output)) == 1 and len(re.findall("error .*120", output)) == 1, output


def test_no_compiler():
    """The error says what to install. An adapter that is there needs no compiler."""
    with tempfile.TemporaryDirectory() as cache:
        output = run([sys.executable, "-m", "hmc.torch", "build"], 1,
                     {"CXX": "/nonexistent/g++", "HMC_TORCH_CACHE": cache})
        assert "no C++20 compiler" in output and "install g++" in output, output
    job(2, "dist.barrier()")
    job(2, "dist.barrier()", environment={"CXX": "/nonexistent/g++"})


def test_backend_in_python():
    """Without a compiler: an error, or from torch 2.14 on the backend in Python. PATH has neither compiler nor hmcrun's folder."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {"PATH": cache, "CXX": "", "HMC_TORCH_CACHE": cache}
        if not finds_backends:
            output, _ = forked_ranks(2, lambda: main_program(*program()), environment)
            assert "no C++20 compiler" in output and "install g++" in output, output
            return
        check_losses(run([hmcrun, "-np", "2", *python(*program())], environment=environment), 2)
        names = ["test_all_reduce", "average", "booleans", "test_coalesced", "broadcast_and", "test_reduce_scatter", "all_to_all",
                 "test_groups", "test_objects", "scalars"]
        operations = os.path.join(folder, "operations.py")
        output = succeeded(forked_ranks(3, lambda: main_program(operations, *names), environment))
        assert output.count("ok test_") >= 10 and "backend in Python is used" in output, output
        output = job(2, """
            assert hmc.torch.is_hmc()
            for size in (3, 100000):
                into = torch.empty(size)
                works = [dist.isend(torch.full((size,), float(rank)), 1 - rank, tag=3), dist.irecv(into, 1 - rank, tag=3)]
                for each in works:
                    each.wait()
                assert into.eq(1 - rank).all()
            gathered = [torch.empty(2) for _ in range(ranks)] if rank == 0 else None
            dist.gather(torch.full((2,), float(rank)), gathered, 0)
            assert rank or torch.stack(gathered).tolist() == [[0, 0], [1, 1]]
            part = torch.empty(2)
            dist.scatter(part, [torch.full((2,), 5.0), torch.full((2,), 6.0)] if rank == 1 else None, 1)
            assert part.tolist() == [5 + rank] * 2
            dist.barrier()
            if rank == 0:
                try:
                    dist.recv(torch.empty(1))
                    raise AssertionError("recv without a source")
                except RuntimeError as error:
                    say("error", error)
            for call in (lambda: dist.all_reduce(torch.ones(3), dist.ReduceOp.BAND), lambda: dist.broadcast(torch.ones(3), 7),
                         lambda: dist.send(torch.ones(3), 7)):
                try:
                    call()
                    raise AssertionError("wrong arguments were accepted")
                except RuntimeError as error:
                    say("wrong", str(error).replace("\\n", " "))
            group = dist.new_group(timeout=timedelta(seconds=2))
            if rank == 0:
                try:
                    dist.all_reduce(torch.ones(3), group=group)
                    raise AssertionError("no timeout")
                except RuntimeError as error:
                    say("timeout", error)
            dist.barrier()
            """, environment=environment)
        assert "error Backend hmc does not support" in output and re.search("timeout .*", output), output
        wrong = re.findall("wrong (.*)", output)
        assert len(wrong) == 6 and all(re.search(r"hmc: (all_reduce|broadcast|send) .*rank [01] of 2", each) and each.count("hmc: ") == 1
                                       for each in wrong), wrong


def test_store_is_not_used_after_the_start():
    """A store of the program, which fails after the group's construction: rank 0 of a store may end first."""
    output = program_text("""
        import multiprocessing, os, sys, tempfile
        from datetime import timedelta
        import torch
        import torch.distributed as dist
        import hmc.torch

        class Store(dist.Store):
            def __init__(self, path):
                super().__init__()
                self.store, self.closed = dist.FileStore(path, 2), False
            def use(self, name, *arguments):
                assert not self.closed, name
                return getattr(self.store, name)(*arguments)
            def set(self, key, value): return self.use("set", key, value)
            def get(self, key): return self.use("get", key)
            def add(self, key, value): return self.use("add", key, value)
            def wait(self, keys, *timeout): return self.use("wait", keys, *timeout)
            def delete_key(self, key): return self.use("delete_key", key)
            def set_timeout(self, timeout): return self.use("set_timeout", timeout)

        def work(rank, path):
            store = Store(path)
            dist.init_process_group("hmc", store=store, rank=rank, world_size=2, timeout=timedelta(seconds=100))
            store.closed = True
            tensor, into = torch.full((100000,), rank + 1.0), torch.empty(100000)
            dist.all_reduce(tensor)
            dist.all_reduce(tensor, async_op=True).wait()
            work = dist.isend(tensor, 1 - rank)
            dist.recv(into, 1 - rank)
            work.wait()
            assert into.eq(6).all()
            hmc.torch.empty(1000).fill_(1)
            dist.destroy_process_group()
            os.write(1, b"done\\n")

        if __name__ == "__main__":
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "store")
                ranks = [multiprocessing.get_context("fork").Process(target=work, args=(rank, path)) for rank in range(2)]
                for each in ranks: each.start()
                for each in ranks: each.join()
            assert [each.exitcode for each in ranks] == [0, 0]
        """)
    assert output.count("done") == 2, output
