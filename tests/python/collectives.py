"""Every collective, from every kind of array, blocking, non-blocking and persistent."""
import asyncio
import gc

import numpy as np

import hmc
from kinds import all_kinds, torch, values_of

lengths = (0, 1, 7, 1000, 40000)
call_number = 0


def data(rank, length, call, dtype=np.int64):
    """Depends on rank, position and call."""
    return (np.arange(length, dtype=np.int64) * 7 + rank * 1000003 + call * 101).astype(dtype)


def next_call():
    global call_number
    call_number += 1
    return call_number


def run(team, name, form, *arguments, **keywords):
    """Runs a collective in one of its forms; returns its result."""
    if form == "blocking":
        return getattr(team, name)(*arguments, **keywords)
    if form == "non_blocking":
        return getattr(team, "i" + name)(*arguments, **keywords).wait()
    if form == "awaited":
        async def result():
            return await getattr(team, "i" + name)(*arguments, **keywords)
        return asyncio.run(result())
    plan = getattr(team, "plan_" + name)(*arguments, **keywords)
    plan.start()
    return plan.wait()


forms = ("blocking", "non_blocking", "awaited", "persistent")


def cases(rt, typed):
    for kind, make in all_kinds(typed).items():
        for length in lengths if kind == "numpy" else (0, 7):
            if length == 0 and kind in ("memoryview", "array"):
                continue  # cast and frombuffer refuse empty buffers
            for form in forms if kind in ("numpy", "bytearray") else ("blocking",):
                yield kind, make, length, form


def check(got, expected, *context):
    got = values_of(got)
    assert np.array_equal(got.ravel(), expected), (context, got.ravel()[:8], expected[:8])


def test_broadcast(rt):
    for kind, make, length, form in cases(rt, False):
        call = next_call()
        root = call % rt.size
        a, values = make(data(rt.rank, length, call))
        assert run(rt.world, "broadcast", form, a, root=root) is a
        check(values, data(root, length, call), kind, length, form)


def test_gather(rt):
    for kind, make, length, form in cases(rt, False):
        call = next_call()
        root = call % rt.size
        a, _ = make(data(rt.rank, length, call))
        b, values = make(np.zeros(length * rt.size, np.int64)) if rt.rank == root else (None, None)
        result = run(rt.world, "gather", form, a, out=b, root=root)
        assert result is b
        everything = np.concatenate([data(rank, length, call) for rank in range(rt.size)])
        if rt.rank == root:
            check(values, everything, kind, length, form)
        # In place on the root.
        if rt.rank == root:
            whole = np.zeros(length * rt.size, np.int64)
            whole[root * length:(root + 1) * length] = data(root, length, call)
            assert run(rt.world, "gather", form, whole, root=root) is whole
            check(whole, everything, kind, length, form)
        else:
            run(rt.world, "gather", form, a, root=root)


def uneven(rt, length):
    counts = [length + rank if length else 0 for rank in range(rt.size)]
    displacements = [sum(counts[:rank]) + 2 * rank for rank in range(rt.size)]
    return counts, displacements, sum(counts) + 2 * rt.size


def test_gatherv_and_allgatherv(rt):
    for kind, make, length, form in cases(rt, False):
        if kind == "bytearray":
            continue  # counts are in elements, here bytes
        call = next_call()
        root = call % rt.size
        counts, displacements, total = uneven(rt, length)
        if total == 0:
            continue
        a, _ = make(np.append(data(rt.rank, counts[rt.rank], call), -5))  # longer than needed
        expected = np.full(total, -1)
        for rank in range(rt.size):
            expected[displacements[rank]:displacements[rank] + counts[rank]] = data(rank, counts[rank], call)
        b, values = make(np.full(total, -1)) if rt.rank == root else (None, None)
        run(rt.world, "gatherv", form, a, np.array(counts), displacements, out=b, root=root)
        if rt.rank == root:
            check(values, expected, kind, length, form)
        b, values = make(np.full(total, -1))
        run(rt.world, "allgatherv", form, a, counts, tuple(displacements), out=b)
        check(values, expected, kind, length, form)
        mine = np.full(total, -1)
        begin = displacements[rt.rank]
        mine[begin:begin + counts[rt.rank]] = data(rt.rank, counts[rt.rank], call)
        run(rt.world, "allgatherv", form, mine, counts, displacements)
        check(mine, expected, kind, length, form)


def test_scatter(rt):
    for kind, make, length, form in cases(rt, False):
        call = next_call()
        root = call % rt.size
        a = make(data(root, length * rt.size, call))[0] if rt.rank == root else None
        b, values = make(np.zeros(length, np.int64))
        expected = data(root, length * rt.size, call)[rt.rank * length:(rt.rank + 1) * length]
        assert run(rt.world, "scatter", form, a, out=b, root=root) is b
        check(values, expected, kind, length, form)
        whole = data(root, length * rt.size, call) if rt.rank == root else np.zeros(length, np.int64)
        run(rt.world, "scatter", form, whole, root=root)
        check(whole, data(root, length * rt.size, call) if rt.rank == root else expected, kind, length, form)


def test_scatterv(rt):
    for length in lengths:
        for form in forms:
            call = next_call()
            root = call % rt.size
            counts, displacements, total = uneven(rt, length)
            a = data(root, total, call) if rt.rank == root else None
            b = np.zeros(counts[rt.rank], np.int64)
            run(rt.world, "scatterv", form, a, counts, displacements, out=b, root=root)
            begin = displacements[rt.rank]
            check(b, data(root, total, call)[begin:begin + counts[rt.rank]], length, form)


def test_allgather(rt):
    for kind, make, length, form in cases(rt, False):
        call = next_call()
        a, _ = make(data(rt.rank, length, call))
        b, values = make(np.zeros(length * rt.size, np.int64))
        assert run(rt.world, "allgather", form, a, b) is b
        expected = np.concatenate([data(rank, length, call) for rank in range(rt.size)])
        check(values, expected, kind, length, form)
        whole = np.zeros((rt.size, length), np.int64)  # two dimensions
        whole[rt.rank] = data(rt.rank, length, call)
        assert run(rt.world, "allgather", form, whole) is whole
        check(whole, expected, kind, length, form)


def test_alltoall(rt):
    for kind, make, length, form in cases(rt, False):
        call = next_call()
        a, mine = make(data(rt.rank, length * rt.size, call))
        b, values = make(np.zeros(length * rt.size, np.int64))
        assert run(rt.world, "alltoall", form, a, out=b) is b
        block = slice(rt.rank * length, (rt.rank + 1) * length)
        expected = np.concatenate([data(rank, length * rt.size, call)[block] for rank in range(rt.size)])
        check(values, expected, kind, length, form)
        assert run(rt.world, "alltoall", form, a) is a
        check(mine, expected, kind, length, form)


def test_alltoallv(rt):
    for length in (0, 1, 300):
        for form in forms:
            call = next_call()
            sends = [length + rt.rank + 2 * rank for rank in range(rt.size)]
            receives = [length + rank + 2 * rt.rank for rank in range(rt.size)]
            a = data(rt.rank, sum(sends), call)
            b = np.zeros(sum(receives), np.int64)
            run(rt.world, "alltoallv", form, a, sends, out=b, receive_counts=receives, largest=length + 3 * rt.size)
            expected = []
            for rank in range(rt.size):
                theirs = [length + rank + 2 * to for to in range(rt.size)]
                begin = sum(theirs[:rt.rank])
                expected.append(data(rank, sum(theirs), call)[begin:begin + theirs[rt.rank]])
            check(b, np.concatenate(expected), length, form)


def contributions(rt, length, call, ranks=None, dtype=np.int64):
    return np.array([data(rank, length, call, dtype) for rank in (range(rt.size) if ranks is None else ranks)])


def test_allreduce_and_reduce(rt):
    for kind, make, length, form in cases(rt, True):
        call = next_call()
        root = call % rt.size
        expected = contributions(rt, length, call).sum(axis=0)
        a, mine = make(data(rt.rank, length, call))
        b, values = make(np.zeros(length, np.int64))
        assert run(rt.world, "allreduce", form, a, out=b) is b
        check(values, expected, kind, length, form)
        check(mine, data(rt.rank, length, call), kind, length, form)
        result = run(rt.world, "reduce", form, a, out=b if rt.rank == root else None, op=hmc.max, root=root)
        assert result is (b if rt.rank == root else None)
        if rt.rank == root:
            check(values, contributions(rt, length, call).max(axis=0), kind, length, form)
        assert run(rt.world, "allreduce", form, a, op="min", deterministic=True) is a
        check(mine, contributions(rt, length, call).min(axis=0), kind, length, form)


def test_scan_and_exscan(rt):
    for kind, make, length, form in cases(rt, True):
        call = next_call()
        a, mine = make(data(rt.rank, length, call))
        b, values = make(np.full(length, -9))
        run(rt.world, "exscan", form, a, out=b, op=hmc.sum)
        before = contributions(rt, length, call, range(rt.rank)).sum(axis=0) if rt.rank else np.full(length, -9)
        check(values, before, kind, length, form)
        run(rt.world, "scan", form, a)
        check(mine, contributions(rt, length, call, range(rt.rank + 1)).sum(axis=0), kind, length, form)


def test_reduce_scatter(rt):
    for kind, make, length, form in cases(rt, True):
        call = next_call()
        a, mine = make(data(rt.rank, length * rt.size, call))
        b, values = make(np.zeros(length, np.int64))
        run(rt.world, "reduce_scatter", form, a, out=b)
        everything = contributions(rt, length * rt.size, call).sum(axis=0)
        check(values, everything[rt.rank * length:(rt.rank + 1) * length], kind, length, form)
        run(rt.world, "reduce_scatter", form, a)
        check(values_of(mine).ravel()[:length], everything[rt.rank * length:(rt.rank + 1) * length], kind, length, form)
        counts = [length + rank for rank in range(rt.size)]
        total = sum(counts)
        b, values = make(np.zeros(counts[rt.rank] + 1, np.int64))
        run(rt.world, "reduce_scatterv", form, data(rt.rank, total, call), counts, out=b)
        begin = sum(counts[:rt.rank])
        check(values_of(values).ravel()[:-1],
              contributions(rt, total, call).sum(axis=0)[begin:begin + counts[rt.rank]], kind, length, form)


def test_every_element_type_and_operation(rt):
    for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"):
        a = ((np.arange(33) + rt.rank) % 5 + 1).astype(dtype)
        everything = np.array([((np.arange(33) + rank) % 5 + 1) for rank in range(rt.size)])
        operations = {"sum": everything.sum(axis=0), "max": everything.max(axis=0), "min": everything.min(axis=0)}
        if dtype[0] != "f":
            operations |= {"band": np.bitwise_and.reduce(everything), "bor": np.bitwise_or.reduce(everything),
                           "bxor": np.bitwise_xor.reduce(everything), "land": np.ones(33, int), "lor": np.ones(33, int)}
        else:
            operations["avg"] = everything.mean(axis=0)
        for name, expected in operations.items():
            out = np.empty_like(a)
            rt.world.allreduce(a, out=out, op=getattr(hmc, name))
            assert np.allclose(out.astype(float), expected, rtol=2e-3), (dtype, name)


def test_types_that_arrays_do_not_state(rt):
    bits = np.full(5, 0x3FC0, np.uint16)  # 1.5 in bfloat16
    rt.world.allreduce(bits, op=hmc.max, dtype="bf16")
    assert (bits == 0x3FC0).all()
    pairs = np.zeros(3, np.dtype([("value", "f8"), ("index", "i8")]))
    pairs["value"] = [rt.rank, -rt.rank, 7]
    pairs["index"] = rt.rank
    rt.world.allreduce(pairs, op=hmc.maxloc)
    assert pairs["index"].tolist() == [rt.size - 1, 0, 0]
    if torch is None:
        return
    tensor = torch.full((3,), rt.rank + 1, dtype=torch.bfloat16)
    rt.world.allreduce(tensor)
    assert tensor.tolist() == [rt.size * (rt.size + 1) / 2] * 3


def test_moves_of_types_without_reduction(rt):
    for values in (np.array([True, False]), np.array([1 + 2j, 3]), np.array(["2026-01-01"], "datetime64[D]"),
                   np.array([b"abc"]), np.array([1, 2], ">i4")):
        a = values.copy() if rt.rank == 0 else np.zeros_like(values)
        rt.world.broadcast(a)
        assert (a == values).all()


def test_objects_by_pickle(rt):
    def thing(rank):
        return {"rank": rank, "text": "x" * (rank * 1000), "set": {rank, -rank}}
    root = rt.size - 1
    everything = [thing(rank) for rank in range(rt.size)]
    assert rt.world.broadcast_object(thing(root) if rt.rank == root else None, root=root) == thing(root)
    assert rt.world.gather_object(thing(rt.rank), root=root) == (everything if rt.rank == root else None)
    assert rt.world.allgather_object(thing(rt.rank)) == everything
    assert rt.world.scatter_object(everything if rt.rank == root else None, root=root) == thing(rt.rank)
    received = rt.world.alltoall_object([(rt.rank, to) for to in range(rt.size)])
    assert received == [(rank, rt.rank) for rank in range(rt.size)]


def test_teams(rt):
    with rt.world.split(rt.rank % 2, key=-rt.rank) as half:
        members = [rank for rank in reversed(range(rt.size)) if rank % 2 == rt.rank % 2]
        assert (half.size, half.rank) == (len(members), members.index(rt.rank))
        assert [half.world_rank(i) for i in range(half.size)] == members
        a = np.array([rt.rank])
        half.allreduce(a)
        assert a[0] == sum(members)
    none = rt.world.subset([0])
    assert (none is None) == (rt.rank != 0)
    assert rt.world.split(-1) is None
    with rt.world.duplicate() as same, rt.world.node_team() as node:
        assert same.size == rt.size and node.size <= rt.size
        same.barrier()
    if none is not None:
        none.close()


def test_many_requests(rt):
    arrays = [data(rt.rank, 100 + i, i) for i in range(20)]
    requests = [rt.world.iallreduce(a) for a in arrays]
    hmc.wait_all(requests)
    for i, a in enumerate(arrays):
        check(a, contributions(rt, 100 + i, i).sum(axis=0), i)
    assert hmc.wait_any(requests) is None and all(request.done for request in requests)
    requests = [rt.world.iallgather(np.array([rt.rank, i]), np.zeros(2 * rt.size, np.int64)) for i in range(5)]
    left = set(range(5))
    while left:
        left.remove(hmc.wait_any(requests))
    barrier = rt.world.ibarrier()
    while not barrier.test():
        pass


def test_dropped_requests_keep_their_arrays(rt):
    expected = []
    for i in range(50):
        a = np.full(5000, rt.rank + i, np.int64)
        rt.world.iallreduce(a)  # the request and the array are dropped here
        del a
        expected.append(i)
    junk = [np.full(5000, 77) for _ in range(50)]
    total = rt.world.allreduce(np.array([1]))
    assert total[0] == rt.size and all((j == 77).all() for j in junk)


def test_requests_and_plans_hold_their_team(rt):
    a, b = np.full(4, rt.rank + 1), np.full(4, rt.rank + 1)
    request, plan = rt.world.duplicate().iallreduce(a), rt.world.duplicate().plan_allreduce(b)
    plan.start()
    gc.collect()
    total = rt.size * (rt.size + 1) // 2
    assert (request.wait() == total).all() and (plan.wait() == total).all()
    rt.world.barrier()
