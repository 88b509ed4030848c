"""Windows: every verb from every kind of array, views, lifetimes, threads, errors of arguments."""
import asyncio
import gc
import os
import pickle
import tempfile
import threading
import time

import numpy as np

import hmc
from kinds import Exporter, Interface, all_kinds, values_of
from spmd import Skip

call_number = 0


def data(rank, length, call):
    """Depends on rank, position and call."""
    return np.arange(length, dtype=np.int64) * 13 + rank * 1000003 + call * 101


def next_call():
    global call_number
    call_number += 1
    return call_number


def raises(kind, text, function, *arguments, **keywords):
    try:
        function(*arguments, **keywords)
    except kind as error:
        assert text in str(error), (text, str(error))
        return error
    raise AssertionError(f"{function} raised nothing; expected {kind.__name__} with '{text}'")


def neighbours(rt):
    return (rt.rank + 1) % rt.size, (rt.rank - 1) % rt.size


def local(win, length, offset=0):
    return win.array(length, np.int64, offset=offset)


def test_put_and_get(rt):
    right, left = neighbours(rt)
    with hmc.Window(rt.world, 400000) as win:
        for kind, make in all_kinds(False).items():
            for length, offset in ((1, 0), (7, 13), (600, 8), (40000, 4096)):
                call = next_call()
                a, _ = make(data(rt.rank, length, call))
                win.put(right, offset, a)
                rt.world.barrier()
                assert np.array_equal(np.frombuffer(win.memory(), np.int64, length, offset), data(left, length, call)), kind
                b, values = make(np.zeros(length, np.int64))
                assert win.get(right, offset, b) is b
                assert np.array_equal(values_of(values), data(rt.rank, length, call)), kind
                rt.world.barrier()
                a, mine = make(data(rt.rank, length, -call))
                assert win.put_nb(right, offset, a).wait() is None
                win.flush(right)
                rt.world.barrier()
                b, values = make(np.zeros(length, np.int64))
                assert win.get_nb(left, offset, b).wait() is b
                assert np.array_equal(values_of(values), data((left - 1) % rt.size, length, -call)), kind
                rt.world.barrier()
        win.put(right, 0, b"")
        win.put(right, 16, b"bytes")
        rt.world.barrier()
        assert bytes(win.memory(offset=16, nbytes=5)) == b"bytes"


def test_put_signal_and_wait_until(rt):
    right, left = neighbours(rt)
    with hmc.Window(rt.world, 8192) as win:
        for call in range(1, 200):
            win.put_signal(right, 0, data(rt.rank, 100, call), 8000, call)
            assert win.wait_until(8000, ">=", call) == call
            assert np.array_equal(local(win, 100), data(left, 100, call))
            win.set(left, 8008, call)  # the neighbour may overwrite its part of this rank
            win.wait_until(8008, hmc.Cmp.ge, call)
        assert win.test_until(8000, "eq", 199) and not win.test_until(8000, "<", 199)
        error = raises(hmc.Timeout, "8000", win.wait_until, 8000, ">", 10**6, timeout=0.01)
        assert isinstance(error, TimeoutError) and error.code == "timeout" and error.operation == "wait_until"
        for call in (win.wait_until, 8000, ">", 0), (win.flush,), (hmc.wait_any, []), (rt.world.grow,):
            assert raises(hmc.Error, "negative", *call, timeout=-0.5).code == "invalid_argument"
        rt.world.barrier()


def test_atomics(rt):
    with hmc.Window(rt.world, 256) as win:
        words = {"i32": 0, "u32": 8, "i64": 16, "u64": 24}
        for name, offset in words.items():
            old = {win.fetch_add(0, offset, 2, dtype=name) for _ in range(50)}
            assert len(old) == 50
            win.add(0, offset, 1, dtype=getattr(hmc.DType, name))
        win.flush()
        rt.world.barrier()
        assert all(win.fetch(0, offset, name) == 101 * rt.size for name, offset in words.items())
        rt.world.barrier()
        at = 64
        win.set(rt.rank, at, 0b1100)
        assert win.fetch_and(rt.rank, at, 0b0110) == 0b1100
        assert win.fetch_or(rt.rank, at, 0b0001) == 0b0100
        assert win.fetch_xor(rt.rank, at, 0b1111) == 0b0101
        win.atomic_and(rt.rank, at, 0b1110)
        win.atomic_or(rt.rank, at, 0b0011)
        win.atomic_xor(rt.rank, at, 0b0001)
        win.fence()
        assert win.swap(rt.rank, at, -5) == 0b1010
        assert win.compare_swap(rt.rank, at, 1, 2) == -5
        assert win.compare_swap(rt.rank, at, -5, 2**63 - 1) == -5
        assert win.fetch(rt.rank, at) == 2**63 - 1
        assert win.fetch(rt.rank, at, "u32") == 2**32 - 1
        raises(ValueError, "element type", win.add, 0, 0, 2**32, dtype="i32")
        raises(TypeError, "i32, u32", win.add, 0, 0, 1, dtype="f64")
        rt.world.barrier()


def test_atomics_in_flight(rt):
    """Each rank draws tickets at every rank, and claims the tickets' slots, with all atomics in flight at once."""
    draws = 40
    slots = draws * rt.size
    with hmc.Window(rt.world, 64 + 8 * slots) as win:
        for name, offset, step in (("i64", 0, 1), ("u64", 8, 2**40), ("i32", 16, -3), ("u32", 20, 5)):
            requests = [win.fetch_add_nb(i % rt.size, offset, step, name) for i in range(slots)]
            assert hmc.wait_any(requests) is not None
            hmc.wait_all(requests)
            tickets = [request.wait() for request in requests]
            assert [request.wait() for request in requests] == tickets
            assert all(0 <= ticket // step < slots and ticket % step == 0 for ticket in tickets), name
            for owner in range(rt.size):
                assert len(set(tickets[owner::rt.size])) == draws, name
            if name == "i64":
                drawn = tickets
        claims = [win.compare_swap_nb(i % rt.size, 64 + 8 * drawn[i], 0, 100 * i + rt.rank + 1) for i in range(slots)]
        assert [claim.wait() for claim in claims] == [0] * slots  # no other rank has these tickets
        seen = [win.fetch_nb(i % rt.size, 64 + 8 * drawn[i]) for i in range(slots)]
        assert [request.wait() for request in seen] == [100 * i + rt.rank + 1 for i in range(slots)]
        right, left = neighbours(rt)
        assert win.compare_swap_nb(right, 64 + 8 * drawn[right], 0, -1).wait() != 0  # another value: no change
        first = win.swap_nb(right, 32, rt.rank - 5, "i32")
        second = win.swap_nb(right, 40, 2**64 - 1 - rt.rank, "u64")
        assert (first.wait(), second.wait()) == (0, 0)
        for _ in range(100):
            win.fetch_add_nb(right, 48, rt.rank + 1)  # dropped: it is executed, and its memory isn't freed before
        win.flush()
        rt.world.barrier()
        assert win.fetch_nb(rt.rank, 32, "i32").wait() == left - 5
        assert win.fetch_nb(rt.rank, 40, "u64").wait() == 2**64 - 1 - left
        assert win.fetch_nb(rt.rank, 48).wait() == 100 * (left + 1)
        raises(ValueError, "element type", win.fetch_add_nb, 0, 0, 2**32, dtype="i32")
        raises(TypeError, "i32, u32", win.fetch_nb, 0, 0, dtype="f64")
        raises(hmc.Error, "swap_nb", win.swap_nb, rt.size, 0, 1)
        rt.world.barrier()


def test_views(rt):
    with hmc.Window(rt.world, 4096) as win:
        mine = win.array((4, 5), np.float32, offset=64)
        mine[:] = rt.rank + np.arange(20).reshape(4, 5)
        assert mine.flags.writeable and mine.flags.c_contiguous
        rt.world.barrier()
        for rank in range(rt.size):
            view = win.array((4, 5), "f4", rank=rank, offset=64)
            assert (view is None) == (not rt.path(rank).direct)
            if view is not None:
                assert np.array_equal(view, rank + np.arange(20).reshape(4, 5))
        rt.world.allreduce(mine)  # a view as a collective's buffer, in place in the window
        assert np.array_equal(mine.ravel(), np.arange(20) * rt.size + sum(range(rt.size)))
        assert win.array(3).dtype == np.uint8 and win.nbytes == win.nbytes_of(0) == 4096
        raises(hmc.Error, "4096", win.array, 1025, np.float32)
        raises(hmc.Error, "rank", win.array, 1, rank=rt.size)
        assert win.alloc(100) == 0 and win.alloc(8) == 128
        win.free(0)
        win.free(128)
        rt.world.barrier()
    assert repr(win) == "<hmc.Window: closed>" and not win.is_open


def test_views_outlive_their_window(rt):
    views = []
    for call in range(3):
        win = hmc.Window(rt.world, 100000)
        local(win, 12500)[:] = data(rt.rank, 12500, call)
        rt.world.barrier()
        for rank in range(rt.size):
            view = win.array(12500, np.int64, rank=rank)
            if view is not None:
                views.append((view, rank, call))
        memory = memoryview(win.memory())
        if call == 0:
            win.close()
            error = raises(hmc.Error, "closed", win.put, rt.rank, 0, b"x")
            assert error.code == "closed"
        elif call == 1:
            rt.world.barrier()
            del win  # dropped without close()
        else:
            with win:
                pass
        gc.collect()
        assert np.array_equal(np.frombuffer(memory, np.int64, 12500), data(rt.rank, 12500, call))
    for view, rank, call in views:
        assert np.array_equal(view, data(rank, 12500, call))
    rt.world.barrier()  # the memory is still shared
    for view, rank, call in views:
        if rank == rt.rank:
            view[0] = -call
    rt.world.barrier()
    assert all(view[0] == -call for view, _, call in views)


def test_wrong_arguments(rt):
    world = rt.world
    grid = np.zeros((4, 6))
    with hmc.Window(world, 64) as win:
        for scattered in (grid[:, :2], grid.T, grid[::2, 0], memoryview(bytearray(8))[::2], Exporter(grid[:, 1])):
            raises(ValueError, "contiguous", win.put, 0, 0, scattered)
            raises(ValueError, "contiguous", world.allreduce, scattered)
        locked = np.zeros(3)
        locked.flags.writeable = False
        for read_only in (locked, b"abcd", memoryview(b"abcd")):
            raises(BufferError, "read-only", win.get, 0, 0, read_only)
            raises(BufferError, "read-only", world.allreduce, read_only)
        win.put(rt.rank, 0, locked)
        for thing in (5, [1, 2], "text", object()):
            raises(TypeError, "buffer protocol", win.put, 0, 0, thing)
        for offset, size in ((60, 8), (2**63, 1)):
            assert raises(hmc.Error, "out", win.put, rt.rank, offset, bytearray(size)).code == "out_of_range"
        error = raises(hmc.Error, "rank", win.put, rt.size, 0, b"x")
        assert (error.code, error.operation, error.rank, error.peer) == ("bad_rank", "put", rt.rank, rt.size)
        raises(hmc.Error, "elements", world.allreduce, np.zeros(3), out=np.zeros(4))
        raises(hmc.Error, "element type", world.allreduce, np.zeros(3), out=np.zeros(3, np.int64))
        raises(hmc.Error, "elements", world.allgather, np.zeros(3), out=np.zeros(3 * rt.size + 1))
        raises(TypeError, "dtype=", world.allreduce, np.zeros(2, complex))
        raises(TypeError, "dtype=", world.allreduce, np.zeros(2, ">f8"))
        raises(ValueError, "operation", world.allreduce, np.zeros(2), op="mean")
        raises(ValueError, "comparison", win.wait_until, 0, "=>", 1)
        raises(TypeError, "", win.put, 0, -1, b"x")
        assert raises(hmc.Error, "aligned", win.fetch, rt.rank, 4, "i64").code == "misaligned"
        world.barrier()
    error = hmc.Error("text", "closed", "put", 1, 2)
    again = pickle.loads(pickle.dumps(error))
    assert (again.code, again.rank, again.peer, str(again)) == ("closed", 1, 2, "text")


def test_objects_and_impossible_shapes(rt):
    world = rt.world
    record = np.zeros(2, [("number", "i8"), ("O", "f8"), ("other", object)])
    late = np.zeros(2, [("when", "M8[s]"), ("other", object)])  # numpy has no buffer of it
    late.flags.writeable = True
    for objects in (np.zeros(3, object), record, record["other"], late, Interface(np.zeros(2, object)), Interface(record)):
        raises(TypeError, "type object", world.allreduce, objects)
        raises(TypeError, "type object", world.broadcast, objects)
        raises(TypeError, "type object", world.allgather, objects, out=np.zeros(2 * world.size, object))
        raises(TypeError, "type object", world.send, objects, rt.rank)
        raises(TypeError, "type object", world.irecv, objects, rt.rank)
        raises(TypeError, "type object", hmc.Window, world, objects)
        raises(TypeError, "type object", hmc.IOBuffer.borrow, objects)
        raises(TypeError, "", hmc.Buffer.from_array, objects)
    with hmc.Window(world, 64) as win:
        for objects in (np.zeros(3, object), record, late):
            raises(TypeError, "type object", win.put, rt.rank, 0, objects)
            raises(TypeError, "type object", win.put_nb, rt.rank, 0, objects)
            raises(TypeError, "type object", win.put_signal, rt.rank, 0, objects, 56, 1)
            raises(TypeError, "type object", win.get, rt.rank, 0, objects)
            raises(TypeError, "type object", win.get_nb, rt.rank, 0, objects)
        for dtype in (object, "O", record.dtype):
            raises(TypeError, "type object", win.array, 1, dtype)
        for shape in (-1, (-1,), (2, -3), 2**62, (2**40, 2**40), 2**70, (2**70,)):
            raises(ValueError, "", win.array, shape, "i8")
        for shape in (1.5, "12", (1.5,), None, ("1",)):
            raises(TypeError, "", win.array, shape)
        assert win.array(np.int64(2), "i4").shape == (2,) and win.array((np.int8(2), 3)).shape == (2, 3)
        fields = np.zeros(2, [("O", "i4"), ("Oo", "f4")])
        fields["O"] = 7
        win.put(rt.rank, 0, fields)
        assert win.array(2, fields.dtype)["O"].tolist() == [7, 7]
        for shape, strides, data, error in (((-1,), None, (8, False), ValueError), ((2**62, 8), None, (8, False), ValueError),
                                            ((1.5,), None, (8, False), TypeError), (("2",), None, (8, False), TypeError),
                                            ((2,), ("8",), (8, False), TypeError), ((2,), None, ("8", False), TypeError),
                                            ((2,), None, (-8, False), TypeError)):
            wrong = Interface(np.zeros(2))
            wrong.__array_interface__ |= {"shape": shape, "strides": strides, "data": data}
            raises(error, "", win.put, rt.rank, 0, wrong)
        world.barrier()


def test_empty_and_small_arrays_everywhere(rt):
    rt.world.allreduce(np.zeros(0))
    rt.world.allreduce(np.array(3.0))
    scalar = np.array(float(rt.rank))
    assert rt.world.allreduce(scalar, op=hmc.max) == rt.size - 1


def test_calls_of_threads_are_executed_one_after_the_other(rt):
    with hmc.Window(rt.world, 8 * 64) as win:
        counts = []

        def work(number):
            mine = 0
            for _ in range(300):
                win.fetch_add(rt.rank, 8 * number, 1)
                win.put(rt.rank, 256, np.zeros(16))
                mine += 1
            counts.append(mine)
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            rt.world.allreduce(np.ones(1000))
        for thread in threads:
            thread.join()
        assert counts == [300] * 4 and local(win, 4).tolist() == [300] * 4
        rt.world.barrier()


def test_waiting_releases_the_gil(rt):
    if rt.size == 1:
        raise Skip("it needs two ranks")
    has_run = rt.world.broadcast_object(tempfile.mktemp())
    with hmc.Window(rt.world, 64) as win:
        if rt.rank == 0:
            waiter = threading.Thread(target=lambda: win.wait_until(0, ">=", 1))
            waiter.start()
            with open(has_run, "w", encoding="ascii"):  # by this thread, while the other one waits
                pass
            waiter.join()
            os.unlink(has_run)
        elif rt.rank == 1:
            while not os.path.exists(has_run):
                time.sleep(0.001)
            win.set(0, 0, 1)
        rt.world.barrier()


def test_asyncio(rt):
    async def one(i):
        a = np.full(1000, rt.rank + i, np.int64)
        result = await rt.world.iallreduce(a)
        assert result is a and (a == sum(rank + i for rank in range(rt.size))).all()

    async def everything():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)
        ticker = asyncio.create_task(tick())
        for i in range(5):
            await asyncio.gather(*[one(i * 10 + j) for j in range(3)])
        with hmc.Window(rt.world, 8000) as win:
            a = data(rt.rank, 1000, 9)
            await win.put_nb(neighbours(rt)[0], 0, a)
            win.flush()
            await rt.world.ibarrier()
            assert await win.fetch_nb(rt.rank, 8) == data(neighbours(rt)[1], 1000, 9)[1]
            b = await win.get_nb(rt.rank, 0, np.zeros(1000, np.int64))
            assert np.array_equal(b, data(neighbours(rt)[1], 1000, 9))
        ticker.cancel()
        assert ticks > 0

    asyncio.run(everything())


def test_facts(rt):
    assert rt.launcher == "hmcrun" or rt.size == 1
    assert rt.world is rt.world and rt.world.size == rt.size and rt.world.rank == rt.rank
    assert rt.path(rt.rank).direct and rt.node_of(rt.rank) == rt.node < rt.node_count
    assert isinstance(rt.counters()["puts_direct"], int) and rt.timeout > 0
    assert "allreduce" in dir(rt.world) and not rt.is_replacement
