"""Every operation of torch.distributed with the backend hmc, against values computed on each rank.

operations.py [NAME...], on each rank, under cases.py or hmcrun: tests whose names match one of the expressions; without any all.
HMC_TEST_DEVICE=cuda: the tensors are on a GPU (torch 2.0 or newer)."""
import os
import re
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

import hmc.torch
import spmd

device = os.environ.get("HMC_TEST_DEVICE")
new = hasattr(torch, "float8_e4m3fn")  # not torch 1.13
reals = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
integers = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
sizes = [(0,), (1,), (7,), (16, 3), (1031,), (70000,)]


def data(rank, shape, dtype=torch.float32, call=0):
    """Differs by rank, position and call. Sums of eight ranks are exact in every type."""
    count = 1
    for each in shape:
        count *= each
    values = (torch.arange(count) * 3 + rank * 5 + call * 7) % 11
    if dtype == torch.bool:
        return (values % 2 == 0).reshape(shape)
    if dtype.is_complex:
        return torch.complex(values.double(), (values * 2 - 5).double()).to(dtype).reshape(shape)
    return values.to(dtype).reshape(shape)


def equal(a, b, what=""):
    assert a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b), (what, dist.get_rank(), a, b)


def combined(op, shape, dtype, ranks):
    all_ranks = [data(r, shape, dtype) for r in ranks]
    result = all_ranks[0].clone()
    for each in all_ranks[1:]:
        if op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
            result = result + each
        elif op == dist.ReduceOp.PRODUCT:
            result = result * each
        elif op == dist.ReduceOp.MIN:
            result = torch.minimum(result, each)
        elif op == dist.ReduceOp.MAX:
            result = torch.maximum(result, each)
        elif op == dist.ReduceOp.BAND:
            result = result & each
        elif op == dist.ReduceOp.BOR:
            result = result | each
        else:
            result = result ^ each
    return result


def test_all_reduce():
    n = dist.get_world_size()
    for shape in sizes:
        for dtype in reals + integers:
            ops = [dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.MAX]
            if not dtype.is_floating_point:
                ops += [dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR]
            if dtype not in (torch.float16, torch.bfloat16):
                ops.append(dist.ReduceOp.PRODUCT)
            for op in ops:
                tensor = data(dist.get_rank(), shape, dtype)
                dist.all_reduce(tensor, op)
                equal(tensor, combined(op, shape, dtype, range(n)), (op, dtype, shape))
        for dtype in (torch.complex64, torch.complex128):
            tensor = data(dist.get_rank(), shape, dtype)
            dist.all_reduce(tensor)
            equal(tensor, combined(dist.ReduceOp.SUM, shape, dtype, range(n)), dtype)


def test_average():
    n = dist.get_world_size()
    for dtype in reals:
        tensor = data(dist.get_rank(), (1031,), dtype)
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        exact = sum(data(r, (1031,), torch.float64) for r in range(n)) / n
        equal(tensor, exact.to(torch.float32 if dtype != torch.float64 else dtype).to(dtype), dtype)
        out = torch.empty(10, dtype=dtype)
        dist.reduce_scatter(out, [data(dist.get_rank() + i, (10,), dtype) for i in range(n)], dist.ReduceOp.AVG)
        exact = sum(data(r + dist.get_rank(), (10,), torch.float64) for r in range(n)) / n
        equal(out, exact.to(torch.float32 if dtype != torch.float64 else dtype).to(dtype), dtype)


def test_sixteen_bit_sums_accumulate_in_32_bits():
    n = dist.get_world_size()
    for dtype in (torch.float16, torch.bfloat16):
        # 256 + 1 + ... isn't representable step by step, but the exact sum is rounded once.
        tensor = torch.full((100,), 256.0 if dist.get_rank() == 0 else 0.75, dtype=dtype)
        dist.all_reduce(tensor)
        equal(tensor, torch.full((100,), 256 + 0.75 * (n - 1), dtype=torch.float32).to(dtype), dtype)


def test_premultiplied_sum():
    if not hasattr(dist, "_make_nccl_premul_sum"):
        return
    n = dist.get_world_size()
    for factor in (2.0, torch.tensor([0.5]) if new else [torch.tensor([0.5])]):
        tensor = data(dist.get_rank(), (33,))
        dist.all_reduce(tensor, dist._make_nccl_premul_sum(factor))
        equal(tensor, sum(data(r, (33,)) for r in range(n)) * float(factor if new or factor == 2.0 else factor[0]))


def test_booleans():
    n = dist.get_world_size()
    for op, combine in ((dist.ReduceOp.SUM, torch.logical_or), (dist.ReduceOp.MAX, torch.logical_or),
                        (dist.ReduceOp.BOR, torch.logical_or), (dist.ReduceOp.PRODUCT, torch.logical_and),
                        (dist.ReduceOp.MIN, torch.logical_and), (dist.ReduceOp.BAND, torch.logical_and),
                        (dist.ReduceOp.BXOR, torch.logical_xor)):
        tensor = data(dist.get_rank(), (50,), torch.bool)
        expected = data(0, (50,), torch.bool)
        for r in range(1, n):
            expected = combine(expected, data(r, (50,), torch.bool))
        dist.all_reduce(tensor, op)
        equal(tensor, expected, op)


def test_coalesced_all_reduce():
    n = dist.get_world_size()
    for shapes in ([(3,), (0,), (16, 3)], [(200000,), (100,), (100000,)]):
        tensors = [data(dist.get_rank(), shape, call=i) for i, shape in enumerate(shapes)]
        dist.all_reduce_coalesced(tensors)
        for i, shape in enumerate(shapes):
            equal(tensors[i], sum(data(r, shape, call=i) for r in range(n)))


def test_sparse_all_reduce():
    if device:
        return
    n = dist.get_world_size()

    def sparse(rank):
        indices = torch.tensor([[0, rank % 3, 5], [1, 2, rank % 4]])
        return torch.sparse_coo_tensor(indices, data(rank, (3, 2)), (6, 4, 2))

    tensor = sparse(dist.get_rank())
    dist.all_reduce(tensor)
    equal(tensor.to_dense(), sum(sparse(r).to_dense() for r in range(n)))


def test_broadcast_and_reduce():
    n, me = dist.get_world_size(), dist.get_rank()
    for root in range(n):
        for shape in sizes:
            for dtype in reals + integers + [torch.bool, torch.complex64]:
                tensor = data(me, shape, dtype)
                dist.broadcast(tensor, root)
                equal(tensor, data(root, shape, dtype), "broadcast")
            tensor = data(me, shape, torch.int64)
            dist.reduce(tensor, root)
            if me == root:
                equal(tensor, combined(dist.ReduceOp.SUM, shape, torch.int64, range(n)), "reduce")


def test_gathers():
    n, me = dist.get_world_size(), dist.get_rank()
    for shape in sizes:
        out = [torch.empty(shape) for _ in range(n)]
        dist.all_gather(out, data(me, shape))
        for r in range(n):
            equal(out[r], data(r, shape), "all_gather")
        base = getattr(dist, "all_gather_into_tensor", dist._all_gather_base)
        flat = torch.empty((n * shape[0], *shape[1:]))
        base(flat, data(me, shape))
        equal(flat, torch.cat([data(r, shape) for r in range(n)]), "all_gather_into_tensor")
        for root in range(n):
            out = [torch.empty(shape) for _ in range(n)] if me == root else None
            dist.gather(data(me, shape), out, root)
            for r in range(n if me == root else 0):
                equal(out[r], data(r, shape), "gather")
            if hasattr(dist, "gather_single"):
                flat = torch.empty((n * shape[0], *shape[1:])) if me == root else None
                dist.gather_single(data(me, shape, call=2), flat, root)
                if me == root:
                    equal(flat, torch.cat([data(r, shape, call=2) for r in range(n)]), "gather_single")
            into = torch.empty(shape)
            dist.scatter(into, [data(r, shape, call=root) for r in range(n)] if me == root else None, root)
            equal(into, data(me, shape, call=root), "scatter")
    # Parts of different sizes, and of one buffer.
    out = [torch.empty(r + 1) for r in range(n)]
    dist.all_gather(out, data(me, (me + 1,)))
    for r in range(n):
        equal(out[r], data(r, (r + 1,)), "unequal")
    whole = torch.empty(n, 5)
    dist.all_gather(list(whole.unbind()), data(me, (5,)))
    equal(whole, torch.stack([data(r, (5,)) for r in range(n)]), "one buffer")
    lists = [[torch.empty(3), torch.empty(2, 2)] for _ in range(n)]
    dist.all_gather_coalesced(lists, [data(me, (3,)), data(me, (2, 2), call=1)])
    for r in range(n):
        equal(lists[r][0], data(r, (3,)))
        equal(lists[r][1], data(r, (2, 2), call=1))


def test_reduce_scatter():
    n, me = dist.get_world_size(), dist.get_rank()
    for shape in sizes:
        for dtype in (torch.float32, torch.bfloat16, torch.int32):
            out = torch.empty(shape, dtype=dtype)
            dist.reduce_scatter(out, [data(me, shape, dtype, call=i) for i in range(n)])
            expected = data(0, shape, dtype, call=me)
            for r in range(1, n):
                expected = expected + data(r, shape, dtype, call=me)
            equal(out, expected, "reduce_scatter")
            base = getattr(dist, "reduce_scatter_tensor", dist._reduce_scatter_base)
            out = torch.empty(shape, dtype=dtype)
            base(out, torch.cat([data(me, shape, dtype, call=i) for i in range(n)]))
            equal(out, expected, "reduce_scatter_tensor")
    out = torch.empty(me + 2)
    dist.reduce_scatter(out, [data(me, (i + 2,), call=i) for i in range(n)])
    equal(out, sum(data(r, (me + 2,), call=me) for r in range(n)), "unequal")


def test_all_to_all():
    n, me = dist.get_world_size(), dist.get_rank()
    for width in (1, 3, 5000):
        out = torch.empty(n * 2, width)
        dist.all_to_all_single(out, torch.cat([data(me, (2, width), call=i) for i in range(n)]))
        equal(out, torch.cat([data(r, (2, width), call=me) for r in range(n)]), "equal parts")
        # Rank r sends r + i rows to rank i.
        out = torch.empty(sum(r + me for r in range(n)), width)
        dist.all_to_all_single(out, torch.cat([data(me, (me + i, width), call=i) for i in range(n)]),
                               [r + me for r in range(n)], [me + i for i in range(n)])
        equal(out, torch.cat([data(r, (r + me, width), call=me) for r in range(n)]), "rows")
        outs = [torch.empty(r + me, width) for r in range(n)]
        dist.all_to_all(outs, [data(me, (me + i, width), call=i) for i in range(n)])
        for r in range(n):
            equal(outs[r], data(r, (r + me, width), call=me), "lists")
    # One rank has splits, the others don't.
    out = torch.empty(n)
    if me == 0:
        dist.all_to_all_single(out, data(me, (n,)), [1] * n, [1] * n)
    else:
        dist.all_to_all_single(out, data(me, (n,)))
    equal(out, torch.stack([data(r, (n,))[me] for r in range(n)]), "mixed")


def test_messages():
    n, me = dist.get_world_size(), dist.get_rank()
    if n == 1:
        return
    right, left = (me + 1) % n, (me - 1) % n
    for shape in sizes + [(3000000,)]:
        sent = dist.isend(data(me, shape), right, tag=4)
        into = torch.empty(shape)
        dist.recv(into, left, tag=4)
        sent.wait()
        equal(into, data(left, shape))
    # Tags: the second message is received first.
    works = [dist.isend(data(me, (9,), call=i), right, tag=i) for i in (1, 2)]
    second, first = torch.empty(9), torch.empty(9)
    dist.recv(second, left, tag=2)
    dist.recv(first, left, tag=1)
    for work in works:
        work.wait()
    equal(first, data(left, (9,), call=1))
    equal(second, data(left, (9,), call=2))
    # From any rank.
    if me == 0:
        seen = set()
        for _ in range(n - 1):
            into = torch.empty(5)
            source = dist.recv(into, tag=7)
            equal(into, data(source, (5,)))
            seen.add(source)
        assert seen == set(range(1, n)), seen
    else:
        dist.send(data(me, (5,)), 0, tag=7)
    # A program may drop the handle of a send.
    dist.isend(data(me, (200000,)), right, tag=9)
    into = torch.empty(200000)
    dist.recv(into, left, tag=9)
    equal(into, data(left, (200000,)))
    # In a batch, and with a future.
    into = torch.empty(100)
    ops = [dist.P2POp(dist.isend, data(me, (100,)), right), dist.P2POp(dist.irecv, into, left)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    equal(into, data(left, (100,)))
    work = dist.irecv(into, left, tag=11)
    dist.send(data(me, (100,), call=3), right, tag=11)
    future = work.get_future()
    future.wait()
    equal(into, data(left, (100,), call=3))


def test_messages_pass_a_collective_in_progress():
    n, me = dist.get_world_size(), dist.get_rank()
    if n == 1:
        return
    reduced = data(me, (100000,))
    into = torch.empty(4)
    if me == 0:
        work = dist.all_reduce(reduced, async_op=True)
        work.get_future()  # the worker is in the collective, which the other ranks enter after the message
        time.sleep(0.05)
        for r in range(1, n):
            dist.send(data(0, (4,), call=r), r)
        work.wait()
    else:
        dist.recv(into, 0)
        equal(into, data(0, (4,), call=me))
        dist.all_reduce(reduced)
    equal(reduced, sum(data(r, (100000,)) for r in range(n)))


def test_not_contiguous():
    n, me = dist.get_world_size(), dist.get_rank()
    whole = torch.zeros(6, 8)
    view = whole[::2, 1::3]
    view.copy_(data(me, view.shape))
    dist.all_reduce(view)
    equal(view, sum(data(r, (3, 3)) for r in range(n)))
    assert whole[1::2].eq(0).all() and whole[:, 0].eq(0).all()
    transposed = data(me, (4, 3)).t()
    dist.broadcast(transposed, n - 1)
    equal(transposed, data(n - 1, (4, 3)).t())
    out = [torch.zeros(3, 4).t() for _ in range(n)]
    dist.all_gather(out, data(me, (3, 4)).t())
    for r in range(n):
        equal(out[r], data(r, (3, 4)).t())
    if n > 1 and me == 0:
        dist.send(data(0, (4, 3)).t(), 1)
    elif me == 1:
        into = torch.zeros(4, 3).t()
        dist.recv(into, 0)
        equal(into, data(0, (4, 3)).t())
    conjugated = data(me, (5,), torch.complex64).conj()
    out = [torch.zeros(5, dtype=torch.complex64) for _ in range(n)]
    dist.all_gather(out, conjugated.resolve_conj())
    for r in range(n):
        equal(out[r], data(r, (5,), torch.complex64).conj().resolve_conj())


def test_scalars_and_parameters():
    n, me = dist.get_world_size(), dist.get_rank()
    scalar = torch.tensor(float(me))
    dist.all_reduce(scalar)
    assert scalar.dim() == 0 and scalar == n * (n - 1) / 2
    parameter = torch.nn.Parameter(data(me, (3, 4)).t())
    dist.broadcast(parameter.data, 0)
    equal(parameter.data, data(0, (3, 4)).t())
    leaf = torch.nn.Parameter(data(me, (5,)))
    dist.all_reduce(leaf)
    equal(leaf.data, sum(data(r, (5,)) for r in range(n)))


def test_eight_bit_floats():
    if not new:
        return
    n, me = dist.get_world_size(), dist.get_rank()
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        mine = (torch.arange(64) % 4 + me % 2).float().to(dtype)
        out = [torch.empty(64, dtype=dtype) for _ in range(n)]
        dist.all_gather(out, mine)
        for r in range(n):
            equal(out[r].float(), (torch.arange(64) % 4 + r % 2).float())
        dist.broadcast(mine, 0)
        equal(mine.float(), (torch.arange(64) % 4).float())


def test_works_and_futures():
    n, me = dist.get_world_size(), dist.get_rank()
    tensors = [data(me, (1000,), call=i) for i in range(20)]
    works = [dist.all_reduce(each, async_op=True) for each in tensors]
    for i in reversed(range(20)):
        works[i].wait()
        assert works[i].is_completed() and works[i].is_success()
        equal(tensors[i], sum(data(r, (1000,), call=i) for r in range(n)))
        equal(works[i].result()[0], tensors[i])
    # A future completes without a wait, and runs callbacks; those may call further operations.
    tensor = data(me, (500,))
    chained = dist.all_reduce(tensor, async_op=True).get_future().then(
        lambda done: dist.all_reduce(done.value()[0], async_op=True).get_future())
    chained.wait().wait()
    equal(tensor, sum(data(r, (500,)) for r in range(n)) * n)
    # Nobody waits: the operation completes, and its tensor stays alive.
    dist.all_reduce(torch.ones(100), async_op=True)
    work = dist.all_reduce(torch.ones(100), async_op=True)
    while not work.is_completed():
        time.sleep(0.001)


def test_threads():
    n, me = dist.get_world_size(), dist.get_rank()
    groups = [dist.new_group() for _ in range(3)]

    def use(index):
        for i in range(200):
            tensor = data(me, (50,), call=i)
            dist.all_reduce(tensor, group=groups[index])
            equal(tensor, sum(data(r, (50,), call=i) for r in range(n)))

    threads = [threading.Thread(target=use, args=(i,)) for i in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def test_groups():
    n, me = dist.get_world_size(), dist.get_rank()
    for ranks in ([0], list(range(n))[::-1], list(range(0, n, 2)), list(range(n // 2, n))):
        group = dist.new_group(ranks)
        if me not in ranks:
            continue
        tensor = data(me, (30,))
        dist.all_reduce(tensor, group=group)
        equal(tensor, sum(data(r, (30,)) for r in ranks))
        tensor = data(me, (30,))
        dist.broadcast(tensor, ranks[-1], group=group)
        equal(tensor, data(ranks[-1], (30,)))
        dist.destroy_process_group(group)


def test_objects():
    n, me = dist.get_world_size(), dist.get_rank()
    everyone = [None] * n
    dist.all_gather_object(everyone, {"rank": me, "text": "x" * me * 100})
    assert everyone == [{"rank": r, "text": "x" * r * 100} for r in range(n)]
    listed = [me, "two", None] if me == 0 else [None] * 3
    dist.broadcast_object_list(listed, 0)
    assert listed == [0, "two", None]
    gathered = [None] * n if me == 0 else None
    dist.gather_object(("rank", me), gathered, 0)
    assert me or gathered == [("rank", r) for r in range(n)]
    if hasattr(dist, "send_object_list") and n > 1:
        received = [None, None]
        if me == 0:
            dist.send_object_list([{"to": 1}, 3.5], 1)
        elif me == 1:
            dist.recv_object_list(received, 0)
            assert received == [{"to": 1}, 3.5]
    into = [None]
    dist.scatter_object_list(into, [f"for {r}" for r in range(n)] if me == 0 else [None] * n, 0)
    assert into == [f"for {me}"]


def test_barriers():
    n, me = dist.get_world_size(), dist.get_rank()
    for _ in range(10):
        dist.barrier()
    dist.barrier(async_op=True).wait()
    if new:
        try:
            for _ in range(3):
                dist.monitored_barrier(timeout=timedelta(seconds=60), wait_all_ranks=True)
        except ValueError as refused:  # torch 2.11 has it for the name gloo only
            assert "only implemented for GLOO" in str(refused), refused


def test_functional_collectives():
    if not new:
        return
    import torch.distributed._functional_collectives as funcol

    n, me = dist.get_world_size(), dist.get_rank()
    group = dist.group.WORLD
    equal(funcol.all_reduce(data(me, (6,)), "sum", group) + 0, sum(data(r, (6,)) for r in range(n)))
    equal(funcol.all_gather_tensor(data(me, (3, 2)), 0, group) + 0, torch.cat([data(r, (3, 2)) for r in range(n)]))
    equal(funcol.reduce_scatter_tensor(torch.cat([data(me, (4,), call=i) for i in range(n)]), "avg", 0, group) + 0,
          sum(data(r, (4,), call=me) for r in range(n)) / n)
    equal(funcol.all_to_all_single(data(me, (n, 2)), None, None, group) + 0,
          torch.stack([data(r, (n, 2))[me] for r in range(n)]))
    for reduced, call in zip(funcol.all_reduce_coalesced([data(me, (3,), call=i) for i in range(4)], "sum", group), range(4)):
        equal(reduced + 0, sum(data(r, (3,), call=call) for r in range(n)))
    wholes = funcol.all_gather_into_tensor_coalesced([data(me, (3, 2), call=i) for i in range(3)], group)
    parts = funcol.reduce_scatter_tensor_coalesced([torch.cat([data(me, (4,), call=i + k) for i in range(n)]) for k in range(3)],
                                                   "sum", [0] * 3, group)
    for i in range(3):
        equal(wholes[i] + 0, torch.cat([data(r, (3, 2), call=i) for r in range(n)]))
        equal(parts[i] + 0, sum(data(r, (4,), call=me + i) for r in range(n)))
    equal(funcol.broadcast(data(me, (5,)), 0, group) + 0, data(0, (5,)))
    with dist._coalescing_manager(group, async_ops=True) as works:
        tensors = [data(me, (9,), call=i) for i in range(3)]
        for each in tensors:
            dist.all_reduce(each)
    works.wait()
    for i in range(3):
        equal(tensors[i], sum(data(r, (9,), call=i) for r in range(n)))


def test_tensors_in_windows():
    n, me = dist.get_world_size(), dist.get_rank()
    for shape in ((5,), (3, 7), (1 << 20,)):
        tensor = hmc.torch.empty(*shape)
        assert tensor.shape == shape and tensor.dtype == torch.float32
        tensor.copy_(data(me, shape))
        dist.all_reduce(tensor)
        equal(tensor, sum(data(r, shape) for r in range(n)).cpu())
    counts = hmc.torch.empty((4,), dtype=torch.int64)
    counts.fill_(me + 1)
    dist.all_reduce(counts)
    assert counts.tolist() == [n * (n + 1) // 2] * 4
    del tensor, counts


def test_wrong_arguments():
    """Their errors name the operation, its number in the group, and the rank. The group stays usable."""
    n, me = dist.get_world_size(), dist.get_rank()
    three, wrong = torch.ones(3), torch.ones(4)
    gather = getattr(dist, "all_gather_into_tensor", dist._all_gather_base)
    reduce_scatter = getattr(dist, "reduce_scatter_tensor", dist._reduce_scatter_base)
    exchange = dist.all_to_all_single
    calls = [
        ("all_reduce", "BAND of floats", lambda **way: dist.all_reduce(three, dist.ReduceOp.BAND, **way)),
        ("reduce", "BXOR of floats", lambda **way: dist.reduce(three, 0, dist.ReduceOp.BXOR, **way)),
        ("broadcast", "root", lambda **way: dist.broadcast(three, n, **way)),
        ("reduce", "root", lambda **way: dist.reduce(three, n + 1, **way)),
        ("all_gather", f"needs {n} ", lambda **way: dist.all_gather([torch.empty(3)] * (n + 1), three, **way)),
        ("all_gather", "12 bytes, its input 16", lambda **way: dist.all_gather([torch.empty(3)] * n, wrong, **way)),
        ("all_gather_into_tensor", "elements", lambda **way: gather(torch.empty(3 * n + 1), three, **way)),
        ("all_gather_into_tensor", "type", lambda **way: gather(torch.empty(3 * n, dtype=torch.int32), three, **way)),
        ("reduce_scatter", f"needs {n} ", lambda **way: dist.reduce_scatter(torch.empty(3), [three] * (n + 1), **way)),
        ("reduce_scatter", "4 elements", lambda **way: dist.reduce_scatter(torch.empty(3), [wrong] * n, **way)),
        ("reduce_scatter_tensor", "elements", lambda **way: reduce_scatter(torch.empty(3), torch.ones(3 * n + 1), **way)),
        ("reduce_scatter_tensor", "type", lambda **way: reduce_scatter(torch.empty(3, dtype=torch.int64), torch.ones(3 * n), **way)),
        ("all_to_all", "splits sum to", lambda **way: exchange(torch.empty(n), torch.ones(n), [2] * n, [1] * n, **way)),
        ("all_to_all", "splits for", lambda **way: exchange(torch.empty(n), torch.ones(n), [1] * n, [1] * (n + 1), **way)),
        ("all_to_all", f"needs {n} ", lambda **way: dist.all_to_all([three] * (n + 1), [three] * (n + 1), **way)),
    ]
    if n > 1:
        calls += [
            ("all_to_all", "divided", lambda **way: exchange(torch.empty(n + 1), torch.ones(n + 1), **way)),
            ("all_to_all", "negative", lambda **way: exchange(torch.empty(n), torch.ones(n), None, [n + 1, -1] + [0] * (n - 2), **way)),
        ]
    if me == 0:
        calls += [
            ("gather", f"needs {n} ", lambda **way: dist.gather(three, [torch.empty(3)] * (n + 1), 0, **way)),
            ("gather", "12 bytes, the input 16", lambda **way: dist.gather(wrong, [torch.empty(3)] * n, 0, **way)),
            ("scatter", f"needs {n} ", lambda **way: dist.scatter(torch.empty(3), [three] * (n + 1), 0, **way)),
            ("scatter", "16 bytes, the output 12", lambda **way: dist.scatter(torch.empty(3), [wrong] * n, 0, **way)),
        ]
    messages = [("send", "tag", lambda: dist.send(three, (me + 1) % n, tag=-1)),
                ("send", f"{n}", lambda: dist.send(three, n)),
                ("recv", f"{n}", lambda: dist.recv(three, n))]

    def check(name, reason, call):
        try:
            work = call()
            if work is not None:
                work.wait()
        except RuntimeError as error:
            for each in ("hmc: ", name, reason, f"rank {me} of {n}"):
                assert each in str(error), (each, str(error))
            number = re.search(r"operation (\d+)\]", str(error))
            assert (number is None) == (name in ("send", "recv")), error
            return int(number.group(1)) if number else None
        raise AssertionError(("wrong arguments were accepted", name, reason))

    for name, reason, call in calls:
        for is_async in (False, True):
            check(name, reason, lambda: call(async_op=is_async))
    for each in messages if n > 1 else ():
        check(*each)
    before = check(*calls[0])
    dist.all_reduce(three)
    equal(three, torch.full((3,), float(n)))
    assert check(*calls[0]) == before + 1


def main():
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    if device:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.set_default_device(device)
    dist.init_process_group("hmc", timeout=timedelta(seconds=120))
    assert hmc.torch.is_hmc()
    spmd.run(globals(), sys.argv[1:])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
