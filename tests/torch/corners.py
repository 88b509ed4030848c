"""Uncommon uses of the backend: cases.py corners."""
import os
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from cases import execute, forked_ranks, job, needs_recent_torch, program_text, run

# ---- buffers

def test_operations_in_place():
    """The caller's block is a part of the buffer of all blocks."""
    job(3, """
        gather = getattr(dist, "all_gather_into_tensor", dist._all_gather_base)
        reduce_scatter = getattr(dist, "reduce_scatter_tensor", dist._reduce_scatter_base)
        for size in (1, 4, 100000):
            def blocks():
                buffer = torch.cat([torch.full((size,), 10.0 * rank + i) for i in range(ranks)])
                return buffer, list(buffer.chunk(ranks))
            def check(found, *expected):
                assert [each.unique().tolist() for each in found] == [[each] for each in expected], (found, expected)
            summed = sum(10.0 * r + rank for r in range(ranks))
            buffer, parts = blocks()
            reduce_scatter(parts[rank], buffer)
            check([parts[rank]], summed)
            buffer, parts = blocks()
            dist.reduce_scatter(parts[rank], parts)
            check([parts[rank]], summed)
            buffer, parts = blocks()
            dist.reduce_scatter(parts[rank], parts, dist.ReduceOp.MAX, async_op=True).wait()
            check([parts[rank]], 10.0 * (ranks - 1) + rank)
            buffer, parts = blocks()
            gather(buffer, parts[rank])
            check(parts, *(11.0 * r for r in range(ranks)))
            buffer, parts = blocks()
            dist.all_gather(parts, parts[rank])
            check(parts, *(11.0 * r for r in range(ranks)))
            for root in range(ranks):
                buffer, parts = blocks()
                dist.gather(parts[rank], parts if rank == root else None, root)
                if rank == root:
                    check(parts, *(11.0 * r for r in range(ranks)))
                buffer, parts = blocks()
                dist.scatter(parts[rank], parts if rank == root else None, root)
                check([parts[rank]], 10.0 * root + rank)
            buffer, parts = blocks()
            dist.all_to_all_single(buffer, buffer)
            check(parts, *(10.0 * r + rank for r in range(ranks)))
            buffer, parts = blocks()
            dist.all_to_all(parts, parts)
            check(parts, *(10.0 * r + rank for r in range(ranks)))
        """)


def test_receive_into_one_element_of_many():
    """The tensor's elements share memory: torch refuses the copy. The rank goes on."""
    output = job(2, """
        if rank == 0:
            try:
                dist.recv(torch.zeros(1).expand(4), 1)
                raise AssertionError("no exception")
            except RuntimeError as error:
                say("error", str(error).split("\\n")[0])
        else:
            dist.send(torch.ones(4), 0)
        dist.barrier()
        """)
    assert "error" in output and "memory" in output, output


def test_tensor_of_a_send_that_timed_out():
    """The peer may receive it later: the data, or an error, but nothing else."""
    for size in (10, 20000, 3000000):
        output = job(2, f"""
            group = dist.new_group(timeout=timedelta(seconds=4))
            if rank == 0:
                tensor = torch.full(({size},), 7.0)
                try:
                    dist.send(tensor, 1, group=group)
                except RuntimeError as error:
                    say("timeout", str(error).split("\\n")[0])
                del tensor
                others = [torch.full(({size},), -1.0) for _ in range(4)]
                dist.barrier()
            else:
                dist.barrier()
                into = torch.zeros({size})
                try:
                    dist.recv(into, 0, group=group)
                    assert into.eq(7).all(), into
                except RuntimeError as error:
                    say("error", error)
            dist.barrier()
            """)
        assert size < 1000000 or "timeout" in output, output


def test_windows_that_end_on_another_thread():
    """More tensors in windows than a group keeps."""
    job(2, """
        for _ in range(3):
            many = [torch.full((1000 + i,), float(i)) for i in range(100)]
            for each in many:
                hmc.torch.move(each)
            thread = threading.Thread(target=many.clear)
            thread.start()
            for _ in range(200):
                tensor = torch.ones(5000)
                dist.all_reduce(tensor)
                assert tensor.eq(2).all()
            thread.join()
        """)


# ---- threads and groups

def test_polls_beside_a_receive():
    """Another thread polls a message, or drops some, while the main thread waits for one."""
    job(2, """
        import faulthandler
        faulthandler.dump_traceback_later(90, exit=True)
        def poll():
            work = dist.irecv(torch.zeros(3), 1, tag=5)
            while not work.is_completed():
                pass
            dist.send(torch.zeros(3), 1, tag=7)
        def drop():
            for i in range(200):
                work = dist.irecv(torch.zeros(3), 1, tag=100 + i)
                del work
                time.sleep(0.001)
            dist.send(torch.zeros(3), 1, tag=7)
        def future():
            work = dist.irecv(torch.zeros(3), 1, tag=5)
            work.get_future().wait()
            dist.send(torch.zeros(3), 1, tag=7)
        for use in (poll, drop, future):
            if rank == 0:
                thread = threading.Thread(target=use)
                thread.start()
                dist.recv(torch.zeros(3), 1, tag=6)
                thread.join()
            else:
                time.sleep(0.3)
                if use is not drop:
                    dist.send(torch.zeros(3), 0, tag=5)
                dist.recv(torch.zeros(3), 0, tag=7)  # the thread is through, and the main thread still waits
                dist.send(torch.zeros(3), 0, tag=6)
        faulthandler.cancel_dump_traceback_later()
        """)


def test_threads_after_polls():
    """The thread that looks at polled messages ends, although the messages go on."""
    job(2, """
        dist.barrier()
        if rank == 0:
            def threads():
                return len(os.listdir("/proc/self/task"))
            work = dist.irecv(torch.zeros(3), 1, tag=5)
            before = threads()
            thread = threading.Thread(target=dist.recv, args=(torch.zeros(3), 1), kwargs={"tag": 6})
            thread.start()
            end = time.monotonic() + 1  # several slices of the other thread's wait
            while time.monotonic() < end:
                assert not work.is_completed()
            dist.send(torch.zeros(3), 1, tag=7)
            thread.join()
            deadline = time.monotonic() + 30
            while threads() > before:
                assert time.monotonic() < deadline, (before, threads())
                time.sleep(0.01)
            dist.send(torch.zeros(3), 1, tag=8)
            work.wait()
        else:
            dist.recv(torch.zeros(3), 0, tag=7)
            dist.send(torch.zeros(3), 0, tag=6)
            dist.recv(torch.zeros(3), 0, tag=8)
            dist.send(torch.zeros(3), 0, tag=5)
        """)


def test_monitored_barrier_beside_a_receive():
    """Another thread holds the lock of messages most of the time. Ranks 2 and 3 have arrived, and rank 0 names only rank 1."""
    output = job(4, """
        group = dist.new_group(backend="gloo")
        def arrive(**options):
            try:
                dist.monitored_barrier(group, timedelta(seconds=1), **options)
                raise AssertionError("no exception")
            except RuntimeError as error:
                say("barrier", rank, str(error).split("\\n")[0])
        if rank > 1:
            arrive()
        dist.barrier()
        if rank == 0:
            thread = threading.Thread(target=dist.recv, args=(torch.zeros(3), 1), kwargs={"group": group})
            thread.start()
            arrive(wait_all_ranks=True)
        dist.barrier()
        if rank == 0:
            thread.join()
        if rank == 1:
            dist.send(torch.zeros(3), 0, group=group)
        """, environment={"HMC_TORCH_ALIAS": "gloo"})
    text = re.search("barrier 0 (.*)", output).group(1)
    assert "Rank 1 failed to pass" in text and text.endswith("processed ranks: 2, 3"), text


def test_group_after_a_message_of_another_size():
    """Its last message still arrives after the rank has left."""
    job(2, """
        group = dist.new_group()
        if rank == 0:
            dist.send(torch.ones(30), 1, group=group)
            dist.barrier()
            time.sleep(0.5)
            into = torch.zeros(100000)
            dist.recv(into, 1, group=group)
            assert into.eq(5).all()
        else:
            try:
                dist.recv(torch.ones(10), 0, group=group)
                raise AssertionError("no exception")
            except RuntimeError as error:
                assert "truncated" in str(error) or "longer than the buffer" in str(error), error
            work = dist.isend(torch.full((100000,), 5.0), 0, group=group)
            dist.barrier()
            dist.destroy_process_group(group)
            del work, group
        dist.barrier()
        """)


def test_destroy_while_a_thread_waits():
    """The thread that waits for a message gets an error when the other ranks have left, too."""
    needs_recent_torch("a group ends when nothing refers to it")
    output = job(2, """
        group = dist.new_group()
        if rank == 0:
            def receive():
                try:
                    dist.recv(torch.zeros(3), 1, group=group)
                except (RuntimeError, ValueError) as error:  # torch 2.15 looks for the group's name
                    say("error after", time.monotonic() - start, error)
            thread = threading.Thread(target=receive)
            thread.start()
            time.sleep(0.5)
            dist.destroy_process_group(group)
            start = time.monotonic()
            dist.barrier()
            thread.join()
        else:
            dist.barrier()
            dist.destroy_process_group(group)
        """, environment={"HMC_TORCH_EXIT_S": "60"})
    assert float(re.search(r"error after ([0-9.e-]+)", output).group(1)) < 50, output


def test_groups_of_a_forked_process():
    """It has none of its parent's."""
    job(2, """
        adapter = hmc.torch._register.adapter()
        assert adapter.open_groups() == 1
        child = os.fork()
        if child == 0:
            adapter.leave_all(1000)
            os._exit(adapter.open_groups())
        assert os.waitpid(child, 0)[1] == 0
        dist.barrier()
        """)


def test_last_data_of_forked_processes():
    """A child of multiprocessing makes a group, and so does its own child, which ends before its peer reads its message."""
    with tempfile.TemporaryDirectory() as work:
        output = program_text("""
            import multiprocessing, os, sys, time
            from datetime import timedelta
            import torch
            import torch.distributed as dist
            import hmc.torch

            fork = multiprocessing.get_context("fork")

            def start(rank, name):
                dist.init_process_group("hmc", init_method=f"file://{sys.argv[1]}/{name}", rank=rank, world_size=2,
                                        timeout=timedelta(seconds=100))

            def parent(rank):
                start(rank, "parents")
                dist.barrier()
                dist.destroy_process_group()
                while hmc.torch._register.adapter().open_groups():
                    time.sleep(0.01)
                one = fork.Process(target=child, args=(rank,))
                one.start()
                one.join()
                sys.exit(one.exitcode)

            def child(rank):
                start(rank, "children")
                tensor = torch.full((3000000,), 5.0 * (1 - rank))
                if rank == 0:
                    dist.isend(tensor, 1)
                    return
                time.sleep(1)
                dist.recv(tensor, 0)
                assert tensor.eq(5).all()
                os.write(1, b"received\\n")

            ranks = [fork.Process(target=parent, args=(rank,)) for rank in range(2)]
            for each in ranks: each.start()
            for each in ranks: each.join()
            assert [each.exitcode for each in ranks] == [0, 0]
            """, work)
    assert "received" in output, output


# ---- the adapter and the start

def test_places_of_the_adapter():
    """A folder that others may write to isn't used, and an adapter that is there needs neither a compiler nor a folder to write to."""
    with tempfile.TemporaryDirectory() as work:
        program = """
            import os, shutil, sys
            from hmc.torch import _build
            work = sys.argv[1]
            name = f"adapter-{_build._key()}.so"
            for folder, mode in (("open", 0o777), ("own", 0o700), ("full", 0o555)):
                os.mkdir(f"{work}/{folder}")
                os.chmod(f"{work}/{folder}", mode)
            os.environ.update(XDG_CACHE_HOME=f"{work}/home", HMC_TORCH_CACHE=f"{work}/own")
            assert _build._place(name) == f"{work}/own/{name}"
            os.environ["HMC_TORCH_CACHE"] = f"{work}/open"
            assert _build._place(name) == f"{work}/home/hmc/torch/{name}"
            os.environ["HMC_TORCH_CACHE"] = f"{work}/own"
            with open(f"{work}/own/{name}", "w"):
                os.chmod(f"{work}/own/{name}", 0o666)
            assert _build._place(name) == f"{work}/home/hmc/torch/{name}"
            os.chmod(f"{work}/own/{name}", 0o644)
            assert _build._place(name) == f"{work}/own/{name}"
            os.utime(f"{work}/own/{name}", (1, 1))
            for mode in (0o755, 0o700):  # others may use it; only this user does
                os.chmod(f"{work}/own", mode)
                _build._remove_old(f"{work}/own")
                assert os.path.exists(f"{work}/own/{name}") == (mode == 0o755)
            os.chmod(f"{work}/full", 0o755)
            shutil.copy(sys.argv[2], f"{work}/full/{name}")
            os.chmod(f"{work}/full", 0o555)
            os.environ.update(HMC_TORCH_CACHE=f"{work}/full", CXX="/nonexistent/g++")
            assert _build.path() == f"{work}/full/{name}"
            library = _build._library()
            key, times = _build._key(), os.stat(library)
            os.utime(library, (1, 1))
            assert _build._key() == key
            os.utime(library, ns=(times.st_atime_ns, times.st_mtime_ns))
            """
        adapter = re.search(r"^/.*\.so$", program_text("from hmc.torch import _build; print(_build.path())"), re.M).group()
        output = program_text(program, os.path.realpath(work), adapter)
    assert len(re.findall("HMC_TORCH_CACHE=.*/(open|own) isn't used", output)) == 2, output


def test_program_in_another_folder():
    """Its folder is the first place of imports, also through a link, unless Python is told to leave it out."""
    with tempfile.TemporaryDirectory() as work:
        for name, text in (("beside.py", "value = 5"), ("program.py", "import sys, beside\nprint('value', beside.value, sys.argv[1:])")):
            with open(os.path.join(work, name), "w", encoding="utf-8") as file:
                file.write(text)
        link = os.path.join(work, "other", "link.py")
        os.mkdir(os.path.dirname(link))
        os.symlink("../program.py", link)
        commands = [(["-m", "hmc.torch", link, "-x", "3"], 0, "value 5 ['-x', '3']"), (["-m", "hmc.torch", "-m"], 2, "missing")]
        if hasattr(sys.flags, "safe_path"):  # Python 3.11
            commands.append((["-P", "-m", "hmc.torch", link], 1, "No module named 'beside'"))
        with ThreadPoolExecutor() as pool:  # each imports torch
            outputs = pool.map(lambda each: run([sys.executable, *each[0]], each[1]), commands)
            for output, (_, _, expected) in zip(outputs, commands):
                assert expected in output, output


def test_compiler_on_some_ranks():
    """Rank 0 decides between the adapter and the backend in Python, which only torch 2.14 and newer have."""
    needs_recent_torch("no backends in Python")
    with tempfile.TemporaryDirectory() as empty:
        program = """
            import os
            from datetime import timedelta
            import torch.distributed as dist
            import torch
            dist.init_process_group("hmc", timeout=timedelta(seconds=10))  # rank 0 waits as long for a rank that can't join
            tensor = torch.ones(3)
            dist.all_reduce(tensor)
            assert tensor.tolist() == [2] * 3
            dist.destroy_process_group()
            os.write(1, b"done\\n")
            """
        for without in (0, 1):
            output, statuses = forked_ranks(2, lambda: execute(program), per_rank=lambda rank: {
                "HMC_TORCH_CACHE": empty, "CXX": "/nonexistent/g++"} if rank == without else {})
            if without:
                assert "rank 1 has no compiled adapter, but rank 0 has" in output and "done" not in output, output
            else:
                assert statuses == [0, 0] and output.count("done") == 2 and "backend in Python is used" in output, output
