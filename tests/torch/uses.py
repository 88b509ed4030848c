"""Asynchronous operations and memory: cases.py uses."""
import os
import re

from cases import job

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
    count = os.environ.get("HMC_TEST_OPERATIONS", "40000")
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
        assert after - before < 1600, (before, after)  # 40 bytes per operation
        """)
    print(re.findall("KiB.*", output))
