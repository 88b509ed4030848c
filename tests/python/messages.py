"""Two-sided messages, from every kind of array. Each rank sends to its right neighbour; alone, to itself."""
import asyncio
import os
import sys
import tempfile
import threading
import time

import numpy as np

import hmc
from collectives import check, data, next_call
from hmc import ANY_SOURCE, ANY_TAG
from kinds import all_kinds
from one_sided import neighbours, raises
from spmd import Skip

# Around a cache line of the ring, the largest eager message, the ring and a slot.
sizes = (0, 1, 31, 32, 33, 1000, 8191, 8192, 8193, 65537, 262145, 3_000_001)


def check_status(status, source, tag, length):
    assert isinstance(status, hmc.MessageStatus)
    assert (status.source, status.tag, status.bytes) == (source, tag, length), status


def test_every_kind_of_array(rt):
    right, left = neighbours(rt.world)
    for kind, make in all_kinds(False).items():
        for length in (0, 7, 5000):
            if length == 0 and kind in ("memoryview", "array"):
                continue  # cast and frombuffer refuse empty buffers
            for form in ("blocking", "non_blocking", "sendrecv"):
                call = next_call()
                source, _ = make(data(rt.rank, length, call))
                out, values = make(np.zeros(length, np.int64))
                if form == "sendrecv":
                    status = rt.world.sendrecv(source, right, out, left, sendtag=call, recvtag=call)
                elif form == "non_blocking":
                    received = rt.world.irecv(out, left, call)
                    sent = rt.world.isend(source, right, call)
                    status = received.wait()
                    assert sent.wait() is None and received.done and sent.done and received.wait() is status
                else:
                    sent = rt.world.isend(source, right, call) if rt.rank % 2 == 0 else None
                    status = rt.world.recv(out, left, call)
                    rt.world.send(source, right, call) if sent is None else sent.wait()
                check_status(status, left, call, 8 * length)
                check(values, data(left, length, call), kind, length, form)
    check_status(rt.world.sendrecv(b"read-only", right, bytearray(9), left), left, 0, 9)


def test_every_size(rt):
    right, left = neighbours(rt.world)
    for length in sizes:
        call = next_call()
        out = np.full(length + 5, 99, np.uint8)
        request = rt.world.isend(data(rt.rank, length, call, np.uint8), right, call)
        check_status(rt.world.probe(left, call), left, call, length)
        check_status(rt.world.recv(out, left, call), left, call, length)
        check(out, np.append(data(left, length, call, np.uint8), np.full(5, 99, np.uint8)), length)
        request.wait()


def test_tags_and_order(rt):
    right, left = neighbours(rt.world)
    numbers = [np.array([rt.rank * 1000 + i]) for i in range(60)]
    for i, number in enumerate(numbers):
        rt.world.send(number, right, i % 3)
    out = np.zeros(1, np.int64)
    for tag in (2, 0):  # the messages of one tag in the order of the sends
        for i in range(tag, 60, 3):
            check_status(rt.world.recv(out, left, tag), left, tag, 8)
            assert out[0] == left * 1000 + i, (out, i)
    for i in range(1, 60, 3):
        check_status(rt.world.recv(out), left, 1, 8)
        assert out[0] == left * 1000 + i, (out, i)
    assert rt.world.iprobe() is None
    rt.world.barrier()


def test_any_source_and_probe(rt):
    for to in range(rt.size):
        rt.world.send(data(rt.rank, 3 + rt.rank, to), to, 10 + rt.rank)
    seen = set()
    for i in range(rt.size):
        status = rt.world.probe(ANY_SOURCE, ANY_TAG)
        if i % 2:
            status = rt.world.iprobe(status.source)
        out = np.zeros(status.bytes // 8, np.int64)
        again = rt.world.recv(out, status.source, status.tag)
        check_status(again, status.source, 10 + status.source, 8 * (3 + status.source))
        check(out, data(status.source, 3 + status.source, rt.rank), status)
        seen.add(status.source)
    assert seen == set(range(rt.size)) and rt.world.iprobe() is None
    rt.world.barrier()


def test_messages_of_objects(rt):
    right, left = neighbours(rt.world)
    values = [None, {"rank": rt.rank}, data(rt.rank, 3, 4).tolist(), np.arange(100_000) + rt.rank, hmc.Error("text", "closed", "put", rt.rank)]

    def send():
        for tag, value in enumerate(values):
            rt.world.send_object(value, right, tag)
    received, status = [], hmc.MessageStatus()
    # The large object is a rendezvous message, so a rank receives it before it sends its own.
    if rt.size == 1:
        del values[3]
    if rt.rank == 0:
        send()
    for tag in range(len(values)):
        received.append(rt.world.recv_object(left if tag % 2 else ANY_SOURCE, tag, status))
        assert (status.source, status.tag) == (left, tag)
    if rt.rank != 0:
        send()
    assert received[:3] == [None, {"rank": left}, data(left, 3, 4).tolist()]
    assert received[-1].code == "closed" and received[-1].rank == left
    if rt.size > 1:
        check(received[3], np.arange(100_000) + left)
    raises(TypeError, "", rt.world.recv_object, 0, 0, 5)
    rt.world.barrier()


def test_truncation_names_both_sides(rt):
    right, left = neighbours(rt.world)
    for length in (100, 50_000):  # eager and rendezvous
        out = bytearray(b"x" * 99)
        request = rt.world.isend(bytes(length), right, 3)
        error = raises(hmc.Mismatch, f"rank {left} sent {length} bytes with tag 3, and rank {rt.rank} receives into 99 bytes",
                       rt.world.recv, out, left)
        assert (error.code, error.operation, error.rank, error.peer) == ("mismatch", "recv", rt.rank, left)
        request.wait()
        assert out == b"x" * 99
        rt.world.isend(bytes(length), right, 3)
        error = raises(hmc.Mismatch, f"rank {left} sent {length} bytes", rt.world.irecv(out, left).wait)
        assert error.operation == "irecv" and out == b"x" * 99
        # A request raises its error each time.
        received, other = rt.world.irecv(out, left, 3), rt.world.irecv(bytearray(1), left, 4)
        rt.world.isend(bytes(length), right, 3)
        text = f"rank {left} sent {length} bytes"
        raises(hmc.Mismatch, text, hmc.wait_any, [other, received])
        assert received.done and not other.done
        for again in (received.wait, received.test, lambda: hmc.wait_all([received])):
            raises(hmc.Mismatch, text, again)
        rt.world.barrier()
        rt.world.isend(b"4", right, 4)
        assert hmc.wait_any([other, received]) == 0 and hmc.wait_any([other, received]) is None
        # The team is usable.
        check_status(rt.world.sendrecv(b"12", right, out, left), left, 0, 2)
        rt.world.barrier()


def test_wrong_arguments_of_messages(rt):
    world, out = rt.world, bytearray(8)
    for call in (world.send, world.isend):
        assert raises(hmc.Error, "no rank", call, out, rt.size).code == "bad_rank"
        assert raises(hmc.Error, "no rank", call, out, ANY_SOURCE).code == "bad_rank"
        assert raises(hmc.Error, "tag", call, out, 0, -1).code == "invalid_argument"
        raises(ValueError, "contiguous", call, np.zeros(8)[::2], 0)
        raises(TypeError, "", call, 5, 0)
        raises(TypeError, "", call, out, "0")
    for call in (world.recv, world.irecv):
        assert raises(hmc.Error, "no rank", call, out, rt.size).code == "bad_rank"
        assert raises(hmc.Error, "tag", call, out, 0, -2).code == "invalid_argument"
        raises(ValueError, "contiguous", call, np.zeros(8)[::2])
        raises(BufferError, "read-only", call, b"12345678")
    assert raises(hmc.Error, "no rank", world.probe, rt.size).code == "bad_rank"
    assert raises(hmc.Error, "no rank", world.iprobe, rt.size).code == "bad_rank"
    assert raises(hmc.Error, "no rank", world.sendrecv, out, rt.size, bytearray(8)).code == "bad_rank"
    raises(ValueError, "overlap", world.sendrecv, memoryview(out)[:5], 0, memoryview(out)[4:])
    raises(BufferError, "read-only", world.sendrecv, out, 0, b"12345678")
    assert world.iprobe() is None  # nothing was sent
    world.barrier()


def test_requests_hold_their_arrays(rt):
    right, left = neighbours(rt.world)
    array, out = bytearray(100_000), np.zeros(4, np.int64)
    references = sys.getrefcount(out)
    sent, received = rt.world.isend(array, right, 1), rt.world.irecv(out, left, 2)
    assert sys.getrefcount(out) == references + 1
    raises(BufferError, "", array.append, 1)  # the export of the buffer protocol lasts until the send is complete
    # A request that the program drops still receives the first message with its tag.
    dropped = data(rt.rank, 4, 0)
    del received
    rt.world.isend(data(rt.rank, 4, 7), right, 2)
    rt.world.recv(bytearray(100_000), left, 1)
    sent.wait()
    array.append(1)
    check_status(rt.world.sendrecv(dropped, right, np.zeros(4, np.int64), left, 3, 3), left, 3, 32)
    check(out, data(left, 4, 7))
    rt.world.isend(b"", right, 4)  # the next request of this rank frees them
    rt.world.recv(bytearray(0), left, 4)
    assert sys.getrefcount(out) == references
    rt.world.barrier()


def test_many_dropped_requests(rt):
    """Each request looks at some of the dropped ones; all are freed in the end."""
    right, left = neighbours(rt.world)
    array, out = bytearray(16384), bytearray(16384)
    references = sys.getrefcount(array)
    for _ in range(300):
        rt.world.isend(array, right, 1)
    for _ in range(300):
        rt.world.recv(out, left, 1)
    rt.world.barrier()  # all are complete, though maybe not yet known to be
    for _ in range(10**5):
        if sys.getrefcount(array) == references:
            break
        rt.world.isend(b"", rt.rank, 2)
        rt.world.recv(out, rt.rank, 2)
    assert sys.getrefcount(array) == references
    rt.world.barrier()


def test_wait_with_a_timeout(rt):
    right, left = neighbours(rt.world)
    out = np.zeros(1, np.int64)
    request = rt.world.irecv(out, left, 5)
    for _ in range(2):
        error = raises(hmc.Timeout, "", request.wait, timeout=0.001)
        assert isinstance(error, TimeoutError) and not request.done and not request.test()
    rt.world.barrier()
    rt.world.send(np.array([rt.rank]), right, 5)
    check_status(request.wait(), left, 5, 8)
    assert out[0] == left
    requests = [rt.world.irecv(np.zeros(1), left, tag) for tag in range(4)]
    for tag in (2, 0, 3, 1):
        rt.world.send(np.zeros(1), right, tag)
        assert hmc.wait_any(requests) == tag
        assert requests[tag].done and requests[tag].wait().tag == tag
        rt.world.barrier()
    assert hmc.wait_any(requests) is None
    requests = [rt.world.irecv(np.zeros(1), left, tag) for tag in range(4)] + [rt.world.isend(np.zeros(1), right, tag) for tag in range(4)]
    hmc.wait_all(requests)
    assert [request.wait().tag for request in requests[:4]] == [0, 1, 2, 3]
    rt.world.barrier()


def test_messages_in_asyncio(rt):
    right, left = neighbours(rt.world)

    async def receive(tag):
        out = np.zeros(20_000, np.int64)
        status = await rt.world.irecv(out, left, tag)
        check_status(status, left, tag, 8 * (tag * 1000))
        check(out[:tag * 1000], data(left, tag * 1000, tag))

    async def everything():
        receives = [asyncio.create_task(receive(tag)) for tag in range(20)]
        await asyncio.sleep(0)
        # A cancelled wait leaves its request in flight.
        request = rt.world.irecv(bytearray(1), left, 99)
        waiting = asyncio.ensure_future(asyncio.wait_for(request, 0.01))
        try:
            await waiting
            raise AssertionError("nothing was sent")
        except asyncio.TimeoutError:
            assert not request.done
        rt.world.barrier()  # a faster rank sends to tag 99 after the wait above
        for tag in reversed(range(20)):
            await rt.world.isend(data(rt.rank, tag * 1000, tag), right, tag)
        await asyncio.gather(*receives)
        rt.world.isend(b"1", right, 99)
        check_status(await request, left, 99, 1)

    asyncio.run(everything())
    rt.world.barrier()


def test_a_recv_lets_other_threads_run(rt):
    if rt.size == 1:
        raise Skip("it needs two ranks")
    has_run = rt.world.broadcast_object(tempfile.mktemp())
    if rt.rank == 0:
        out = bytearray(1)
        receiver = threading.Thread(target=lambda: rt.world.recv(out, 1, 6))
        receiver.start()
        with open(has_run, "w", encoding="ascii"):  # by this thread, while the other one waits
            pass
        receiver.join()
        os.unlink(has_run)
        assert out == b"6"
    elif rt.rank == 1:
        while not os.path.exists(has_run):
            time.sleep(0.001)
        rt.world.send(b"6", 0, 6)
    rt.world.barrier()


def test_a_waiting_call_lets_other_threads_call(rt):
    """The message that ends a thread's wait is sent by the main thread, after calls of other kinds."""
    if rt.size == 1:
        raise Skip("it needs two ranks")
    right, left = neighbours(rt)
    out = np.zeros(1, np.int64)
    large, copy = data(rt.rank, 1 << 18, 32), np.zeros(1 << 18, np.int64)
    sends = [lambda: rt.world.send(data(rt.rank, 1, 31), right, 31), lambda: rt.world.send(large, right, 32)]
    waits = {"recv": (lambda: rt.world.recv(out, left, 31), 0), "probe": (lambda: rt.world.probe(left, 31), 0),
             "sendrecv": (lambda: rt.world.sendrecv(b"", rt.rank, out, left, 30, 31), 0),
             "recv_object": (lambda: rt.world.recv_object(left, 33), None), "wait": (lambda: rt.world.irecv(out, left, 31).wait(), 0),
             "wait_any": (lambda: hmc.wait_any([rt.world.irecv(out, left, 31)]), 0),
             "large recv": (lambda: rt.world.recv(copy, left, 32), 1)}
    for name, (wait, send) in waits.items():
        failed = []

        def run(wait=wait):
            try:
                wait()
            except Exception as error:  # shown below, by the main thread
                failed.append(error)
        waiter = threading.Thread(target=run)
        waiter.start()
        total = rt.world.allreduce(np.ones(4, np.int64))      # while the thread waits
        assert total.tolist() == [rt.size] * 4, name
        rt.world.send(b"x", right, 40)
        rt.world.recv(bytearray(1), left, 40)
        if send is None:
            rt.world.send_object("done", right, 33)
        else:
            sends[send]()
        waiter.join()
        assert not failed, (name, failed)
        if name == "probe":
            rt.world.recv(out, left, 31)
        if name == "sendrecv":
            rt.world.recv(bytearray(0), rt.rank, 30)
        if name == "large recv":
            check(copy, data(left, 1 << 18, 32))
        elif send == 0:
            check(out, data(left, 1, 31))
        rt.world.barrier()


def test_two_threads_wait_for_each_others_messages(rt):
    """Each thread's receive ends by a message that the other thread sends after its own receive."""
    right, left = neighbours(rt)

    def pass_on():
        for call in range(50):
            got = bytearray(1)
            rt.world.recv(got, left, 51)
            rt.world.send(got, right, 52)
    other = threading.Thread(target=pass_on)
    other.start()
    for call in range(50):
        rt.world.send(bytes([call]), right, 51)
        got = bytearray(1)
        rt.world.recv(got, left, 52)
    other.join()
    rt.world.barrier()


def test_messages_of_threads(rt):
    """Threads send, and the main thread polls."""
    right, left = neighbours(rt)

    def work(thread):
        for call in range(100):
            rt.world.send(data(rt.rank, 10, call), right, thread)
    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for call in range(100):
        out = [np.zeros(10, np.int64) for _ in threads]
        requests = [rt.world.irecv(array, left, thread) for thread, array in enumerate(out)]
        while not all([request.test() for request in requests]):
            time.sleep(0)
        for array in out:
            check(array, data(left, 10, call))
    for thread in threads:
        thread.join()
    rt.world.barrier()


def test_messages_of_teams(rt):
    """A team has ranks of its own, and its messages don't match those of another team."""
    reverse = rt.world.split(0, -rt.rank)
    twin = rt.world.duplicate()
    assert reverse.world_rank(reverse.rank) == rt.rank and reverse.rank == rt.size - 1 - rt.rank
    teams = (rt.world, reverse, twin)
    out = [np.zeros(1, np.int64) for _ in teams]
    requests = [team.irecv(array) for team, array in zip(teams, out)]
    for number in (2, 0, 1):
        team = teams[number]
        team.send(np.array([team.rank * 10 + number]), neighbours(team)[0], number)
    for number, team in enumerate(teams):
        left = neighbours(team)[1]
        check_status(requests[number].wait(), left, number, 8)
        assert out[number][0] == left * 10 + number
    odd = rt.world.subset(range(0, rt.size, 2))
    if odd is not None:
        right, left = neighbours(odd)
        odd.send_object(odd.rank, right)
        assert odd.recv_object(left) == left
        odd.close()
    reverse.close()
    twin.close()


def test_messages_from_and_into_windows(rt):
    right, left = neighbours(rt.world)
    with hmc.Window(rt.world, 1 << 17) as win:
        part = win.array(1 << 14, np.int64)
        for length in (8, 5000):
            part[:length] = data(rt.rank, length, 30)
            request = rt.world.isend(part[:length], right, 8)
            check_status(rt.world.recv(part[8000:8000 + length], left, 8), left, 8, 8 * length)
            request.wait()
            check(part[8000:8000 + length], data(left, length, 30))
        rt.world.barrier()
