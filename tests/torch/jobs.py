"""Tests that start jobs: python jobs.py NAME. Needs an environment with the packages hmc and torch."""
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time

import torch

folder = os.path.dirname(os.path.abspath(__file__))
training = os.path.join(folder, "training.py")
hmcrun = os.path.join(os.path.dirname(sys.executable), "hmcrun")
finds_backends = hasattr(torch.distributed.Backend, "_ensure_backend_registered")  # 2.14: by entry points
old = not hasattr(torch.distributed.Backend, "backend_list")  # 1.13: DistributedDataParallel needs Python 3.10
losses = ["0.692493", "0.843729", "0.753779", "1.282884", "1.087301"]


def run(command, status=0, environment=None, seconds=150):
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False,
                          env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})})
    output = done.stdout + done.stderr
    assert status is None or done.returncode == status, (done.returncode, output)
    print(f"{time.monotonic() - start:.1f} s: {' '.join(command)}", flush=True)
    return output


def python(*words):
    """The command of a program that may name the backend hmc."""
    return [sys.executable, *([] if finds_backends else ["-m", "hmc.torch"]), *words]


def job(ranks, program, *options, status=0, environment=None):
    """Runs a program text on every rank, with `rank`, `ranks` and the default group; returns its output."""
    text = """
        import os, signal, sys, threading, time
        from datetime import timedelta
        import torch
        import torch.distributed as dist
        import hmc.torch
        torch.set_num_threads(1)
        dist.init_process_group("hmc", timeout=timedelta(seconds=100))
        rank, ranks = dist.get_rank(), dist.get_world_size()
        def say(*words):
            os.write(1, (" ".join(str(each) for each in words) + "\\n").encode())  # a line as a whole
        """
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(textwrap.dedent(text) + textwrap.dedent(program))
        file.flush()
        return run([hmcrun, "-np", str(ranks), "--timeout", "120", *options, sys.executable, file.name], status,
                   environment)


def check_losses(output, ranks):
    assert re.findall(r"step \d loss ([0-9.]+)", output) == losses, output
    assert f"trained by {ranks} ranks" in output, output


def torchrun(*words):
    # With Python 3.11, torch 1.13 reads --redirects and --tee only if they name one stream.
    return [sys.executable, "-m", "torch.distributed.run", *(["--redirects", "1", "--tee", "1"] if old else []),
            "--nproc_per_node", "2", *words]


def program(*words):
    """The training program, unmodified. With torch 1.13 it doesn't use DistributedDataParallel."""
    return [training, *words, *(["--no-ddp"] if old else [])]


# ---- launchers

def test_training_under_hmcrun():
    for ranks in (1, 2, 3):
        check_losses(run([hmcrun, "-np", str(ranks), *python(*program())]), ranks)


def test_training_on_two_nodes():
    check_losses(run([hmcrun, "-np", "4", "--nodes", "2", *python(*program("--no-destroy"))]), 4)


def test_losses_of_layouts():
    """The same bits with two ranks of one node, of two nodes, under torchrun, and with staged buffers."""
    words = program("--exact", "--steps", "30")
    commands = [[hmcrun, "-np", "2", *python(*words)], [hmcrun, "-np", "2", "--nodes", "2", *python(*words)],
                torchrun(*([] if finds_backends else ["-m", "hmc.torch"]), *words)]
    curves = [re.findall("exact (.*)", run(each)) for each in commands]
    curves.append(re.findall("exact (.*)", run(commands[0], environment={"HMC_COLL_PRIVATE": "staged"})))
    assert len(set(curves[0])) == 30 and all(each == curves[0] for each in curves), curves


def test_training_under_torchrun():
    words = program() if finds_backends else ["-m", "hmc.torch", *program()]
    check_losses(run(torchrun(*words)), 2)


def test_restart_by_torchrun():
    """A rank kills itself in the first attempt. The agent starts all ranks again."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write("import os, sys, runpy\n"
                   "first = os.environ['TORCHELASTIC_RESTART_COUNT'] == '0'\n"
                   "sys.argv = ['training.py'] + sys.argv[1:] + (['--die', '1', '3'] if first else [])\n"
                   f"runpy.run_path({training!r}, run_name='__main__')\n")
        file.flush()
        words = [] if finds_backends else ["-m", "hmc.torch"]
        output = run(torchrun("--max_restarts", "2", *words, file.name, *program()[1:]))
    assert output.count("step 0") == 2 and "trained by 2 ranks" in output, output


def test_name_of_another_backend():
    output = run([hmcrun, "-np", "2", sys.executable, *(["-m", "hmc.torch"] if old else []), *program("--backend", "gloo")],
                 environment={"HMC_TORCH_ALIAS": "gloo"})
    check_losses(output, 2)
    output = job(2, """
        assert dist.get_backend() == "hmc"
        group = dist.new_group(backend="gloo")
        assert dist.get_backend(group) == "gloo" and hmc.torch.is_hmc(group)
        dist.monitored_barrier(group=group)
        t = torch.ones(3)
        dist.all_reduce(t, group=group)
        assert t.tolist() == [ranks] * 3
        """, environment={"HMC_TORCH_ALIAS": "gloo"})


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


# ---- failures

def test_killed_rank():
    """Every other rank gets an exception that names the rank. Also in other groups with that rank."""
    output = job(4, """
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
    for destroy in ("", "dist.destroy_process_group()"):
        job(2, f"""
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


def test_exception_ends_the_others():
    output = job(2, """
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
    with tempfile.TemporaryDirectory() as cache:
        output = run([sys.executable, "-m", "hmc.torch", "build"], 1,
                     {"CXX": "/nonexistent/g++", "HMC_TORCH_CACHE": cache})
        assert "no C++20 compiler" in output and "install g++" in output, output
    run([sys.executable, "-m", "hmc.torch", "build"])
    run([sys.executable, "-m", "hmc.torch", "build"], environment={"CXX": "/nonexistent/g++"})  # a compiled adapter is there


def test_compiled_once():
    with tempfile.TemporaryDirectory() as cache:
        output = run([hmcrun, "-np", "2", *python(*program())], environment={"HMC_TORCH_CACHE": cache}, seconds=300)
        assert output.count("compiling the adapter") == 1, output
        check_losses(output, 2)


# ---- asynchronous operations

def test_futures_are_done_after_the_wait():
    job(2, """
        tensor = torch.ones(4)
        for i in range(5000):
            work = dist.all_reduce(tensor, async_op=True)
            future = work.get_future()
            if i % 10:
                work.wait()
            else:
                while not work.is_completed():
                    pass
            assert future.done(), i
            assert tensor.tolist() == [2] * 4
            tensor.fill_(1)
        into = torch.empty(1)
        for i in range(500):
            works = [dist.isend(torch.ones(1) * (rank + i), 1 - rank), dist.irecv(into, 1 - rank)]
            futures = [each.get_future() for each in works]
            for each in works:
                each.wait()
            assert futures[0].done() and futures[1].done() and into.item() == 1 - rank + i, i
        """)


def test_callbacks_that_wait():
    """A callback of a future waits for later operations and messages, in each way."""
    job(2, """
        def operation():
            return dist.all_reduce(second, async_op=True)
        def message():
            works.append(dist.isend(torch.full((4,), 2.0), 1 - rank))
            return dist.irecv(second, 1 - rank)
        works = []
        for begin in (operation, message):
            for wait in (lambda work: work.get_future().wait(), lambda work: work.wait(timedelta(seconds=50)), lambda work: work.wait()):
                for early in (False, True):
                    first, second = torch.ones(4), torch.ones(4)
                    started = dist.all_reduce(first, async_op=True)
                    later = begin() if early else None
                    def callback(future):
                        wait(later or begin())
                        return future.value()
                    future = started.get_future().then(callback)
                    future.wait()
                    assert first.tolist() == second.tolist() == [2] * 4, (first, second)
        """)


def test_order_of_strided_tensors():
    job(2, """
        base = torch.ones(8, 2)
        works = [dist.all_reduce(base[:, 0], async_op=True) for _ in range(3)]
        for work in works:
            work.wait()
        assert base[:, 0].tolist() == [8] * 8 and base[:, 1].tolist() == [1] * 8, base
        parts = [torch.empty(8) for _ in range(ranks)]
        works = [dist.all_reduce(base[:, 1], async_op=True), dist.all_gather(parts, base[:, 1], async_op=True),
                 dist.all_gather([base[:, 0], parts[1]], base[:, 1], async_op=True)]
        for work in works:
            work.wait()
        assert parts[0].tolist() == parts[1].tolist() == base[:, 0].tolist() == [2] * 8, (parts, base)
        lists = [torch.full((4,), float(rank)), torch.full((4,), float(rank))]
        out = torch.empty(4)
        works = [dist.all_reduce(lists[1], async_op=True), dist.reduce_scatter(out, lists, async_op=True)]
        for work in works:
            work.wait()
        assert out.tolist() == ([1] * 4 if rank == 0 else [2] * 4), out
        """)


# ---- other packages

def missing(package):
    try:
        __import__(package)
        return False
    except ImportError as error:
        print(f"missing: {error}; ./dev torch installs it")
        return True


def test_accelerate():
    if missing("accelerate"):
        sys.exit(77)
    output = job(2, """
        from accelerate import Accelerator
        accelerator = Accelerator(cpu=True)
        torch.manual_seed(0)
        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
        model, optimizer, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(data, batch_size=8))
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            optimizer.step()
        losses = accelerator.gather(loss.detach().reshape(1))
        weight = next(model.parameters()).detach()
        everyones = [torch.empty_like(weight) for _ in range(ranks)]
        dist.all_gather(everyones, weight)
        assert all(torch.equal(each, weight) for each in everyones)
        say(type(model).__name__, accelerator.num_processes, dist.get_backend(), len(losses))
        """)
    assert output.count("DistributedDataParallel 2 hmc 2") == 2, output


def test_deepspeed():
    if missing("deepspeed"):
        sys.exit(77)
    output = job(2, """
        import deepspeed
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), dist_init_required=False, config={
            "train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2},
            "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True}}})
        for step in range(3):
            torch.manual_seed(10 * step + rank)
            loss = torch.nn.functional.mse_loss(engine(torch.randn(4, 8)), torch.randn(4, 1))
            engine.backward(loss)
            engine.step()
        weight = next(engine.module.parameters()).detach()
        everyones = [torch.empty_like(weight) for _ in range(ranks)]
        dist.all_gather(everyones, weight)
        assert all(torch.equal(each, weight) for each in everyones)
        say("trained by DeepSpeed over", dist.get_backend())
        """, environment={"DS_ACCELERATOR": "cpu"})
    assert output.count("trained by DeepSpeed over hmc") == 2, output


# ---- resources

def test_nothing_is_left_of_groups():
    rounds = os.environ.get("HMC_TEST_ROUNDS", "200")
    output = job(2, f"""
        import gc
        def resources(expected=None):
            # Threads end after they have closed their group: waits for what is expected, or until nothing changes.
            gc.collect()
            deadline = time.monotonic() + 60
            now = None
            while time.monotonic() < deadline:
                last, now = now, count()
                if hmc.torch._register.adapter().open_groups() == 1 and now[:3] == (expected or last or ())[:3]:
                    break
                time.sleep(0.01 if expected else 0.5)
            return now
        def count():
            status = open("/proc/self/status").read()
            maps = open("/proc/self/maps").read().count("memfd:")
            return (len(os.listdir("/proc/self/fd")), int(status.split("Threads:")[1].split()[0]), maps,
                    int(status.split("VmRSS:")[1].split()[0]))
        def rounds(count):
            for i in range(count):
                group = dist.new_group()
                tensor = torch.ones(10)
                dist.all_reduce(tensor, group=group)
                if i % 10 == 0:
                    dist.all_reduce(tensor, group=group, async_op=True).wait()
                    if rank == 0:
                        dist.send(tensor, 1, group=group)
                    else:
                        dist.recv(tensor, 0, group=group)
                dist.destroy_process_group(group)
                del group
            dist.barrier()
        rounds(50)
        before = resources()
        rounds({rounds})
        after = resources(before)
        print("before", before, "after", after, flush=True)
        assert before[:3] == after[:3], (before, after)
        assert after[3] - before[3] < 20000, (before, after)
        """)
    print(re.findall("before.*", output))


def test_windows_of_groups():
    """Windows that end before, with or after their group."""
    job(2, """
        old, group = None, dist.new_group()
        kept = hmc.torch.empty(100000, group=group)
        dist.destroy_process_group(group)
        del group
        for i in range(200):
            group = dist.new_group()
            windows = [hmc.torch.empty(1000, group=group) for _ in range(5)]
            windows[0].fill_(rank + i)
            if i % 3 == 0:
                dist.all_reduce(windows[0], group=group, async_op=True).wait()
            else:
                dist.all_reduce(windows[0], group=group)
            assert windows[0].eq(2 * i + 1).all()
            if i % 2:
                works = [dist.all_reduce(windows.pop(), group=group, async_op=True) for _ in range(2)]
                del works  # the worker releases the windows
            dist.destroy_process_group(group)
            del group
            old = windows
        del windows, old
        dist.barrier()
        deadline = time.monotonic() + 60
        while hmc.torch._register.adapter().open_groups() > 1:
            assert time.monotonic() < deadline, hmc.torch._register.adapter().open_groups()
            time.sleep(0.01)
        dist.destroy_process_group()
        kept.fill_(4)
        assert kept.eq(4).all()
        """)


def test_windows_used_again():
    """Tensors that move to windows, and end at different steps on the ranks."""
    job(2, """
        def windows():
            return open("/proc/self/maps").read().count("memfd:")
        kept = []
        for i in range(300):
            tensor = torch.full((30000 + 1000 * (i % 7),), float(rank + i))
            view = tensor[1000:2000]
            hmc.torch.move(tensor)
            hmc.torch.move(view)  # is there already
            dist.all_reduce(tensor)
            assert tensor.eq(2 * i + 1).all() and view.eq(2 * i + 1).all(), i
            view.fill_(7)
            assert tensor[1000:2000].eq(7).all()
            kept.append(tensor)
            if len(kept) > 1 + 3 * rank:
                kept.pop(0)
            if i == 100:
                before = windows()
        assert windows() < before + 10, (windows(), before)  # a thread may release a tensor a little later
        assert hmc.torch.counters()["staged"] == 0, hmc.torch.counters()
        many = [torch.full((100 + i,), float(i)) for i in range(100)]  # more than a group keeps
        for each in many:
            hmc.torch.move(each)
        for i, each in enumerate(many):
            dist.all_reduce(each)
            assert each.eq(2 * i).all(), i
        del many, kept
        sizes = [10 ** 5 + 10 ** 6 * i for i in range(3)]
        for size in sizes * 10:
            tensor = torch.full((size,), float(rank))
            hmc.torch.move(tensor)
            dist.all_reduce(tensor)
            assert tensor.eq(1).all()
        """)


def test_memory_of_operations():
    count = os.environ.get("HMC_TEST_OPERATIONS", "100000")
    output = job(2, f"""
        def rss():
            return int(open("/proc/self/status").read().split("VmRSS:")[1].split()[0])
        tensor, out = torch.ones(16), [torch.ones(16) for _ in range(ranks)]
        def operations(count):
            for i in range(count // 5):
                dist.all_reduce(tensor)
                dist.all_reduce(tensor, async_op=True).wait()
                dist.all_gather(out, tensor)
                dist.broadcast(tensor, 0, async_op=True)
                work = dist.isend(tensor, 1 - rank)
                dist.recv(out[0], 1 - rank)
                work.wait()
                tensor.fill_(1)
            dist.barrier()
        operations(10000)
        before = rss()
        operations({count})
        after = rss()
        print("KiB before", before, "after", after, flush=True)
        assert after - before < 4000, (before, after)
        """)
    print(re.findall("KiB.*", output))


if __name__ == "__main__":
    names = sys.argv[1:] or [name for name in globals() if name.startswith("test_")]
    for each in names:
        globals()[each]()
        print(f"ok {each}", flush=True)
