"""Every message and collective: leaks, Ctrl-C, killed ranks, timeouts. python every_call.py NAME."""
import os
import sys

sys.dont_write_bytecode = True

import numpy as np

import hmc
from processes import expect_error, expect_no_leaks, job

here = os.path.dirname(os.path.abspath(__file__))


def test_messages_leak_no_references():
    with hmc.init() as rt:
        world, a, out, text, value = rt.world, np.zeros(8), np.zeros(8), b"12345678", {"x": [1, 2]}
        large, short = bytearray(10_000), bytearray(7)  # large: a rendezvous message

        def pair():
            received, sent = world.irecv(out), world.isend(a, 0)
            sent.wait()
            received.wait()

        def dropped():
            world.isend(a, 0)
            world.irecv(out)

        def rendezvous():
            sent = world.isend(large, 0)
            world.recv(large)
            sent.wait()

        def truncated():
            world.send(a, 0)
            expect_error(hmc.Mismatch, lambda: world.recv(short))

        def truncated_request():
            world.isend(a, 0)
            expect_error(hmc.Mismatch, world.irecv(short).wait)

        def truncated_and_dropped():
            world.irecv(short)
            world.isend(a, 0)

        def settle():
            """Completes dropped requests. The next request frees their arrays."""
            for _ in range(2):
                world.ibarrier().wait()
                world.isend(b"", 0, 9).wait()
                world.irecv(bytearray(0), 0, 9).wait()
        calls = {
            "send and recv": lambda: (world.send(a, 0), world.recv(out)), "isend and irecv": pair, "dropped": dropped,
            "rendezvous": rendezvous, "bytes": lambda: world.sendrecv(text, 0, large),
            "probe": lambda: (world.send(a, 0, 3), world.probe(0, 3), world.iprobe(), world.recv(out, 0, 3)),
            "iprobe": world.iprobe, "objects": lambda: (world.send_object(value, 0), world.recv_object()),
            "truncated": truncated, "truncated irecv": truncated_request, "truncated and dropped": truncated_and_dropped,
            "truncated sendrecv": lambda: expect_error(hmc.Mismatch, lambda: world.sendrecv(a, 0, short)), "wrong rank": lambda: expect_error(hmc.Error, lambda: world.sendrecv(a, 5, out)),
            "wrong array": lambda: expect_error(ValueError, lambda: world.isend(a[::2], 0)),
        }
        few = [name for name in calls if name.startswith(("truncated", "wrong"))]
        expect_no_leaks(calls, (a, out, text, large, short, value, world), settle, few)


def collective_arguments(size, root):
    """Of every collective, by name. The array has a block of 8 numbers for each rank. `root` has the result, or needs others' data."""
    a, out, block, counts = np.zeros(8 * size), np.zeros(8 * size), np.zeros(8), [8] * size
    return {
        "broadcast": (block, 0), "scatter": (a, block, 0), "scatterv": (a, counts, None, block, 0), "gather": (block, out, root),
        "gatherv": (block, counts, None, out, root), "reduce": (a, out, "sum", root), "allgather": (block, out),
        "allgatherv": (block, counts, None, out), "alltoall": (a, out), "alltoallv": (a, counts, out, counts), "allreduce": (a, out),
        "reduce_scatter": (a, block), "reduce_scatterv": (a, counts, block), "scan": (a, out), "exscan": (a, out), "barrier": (),
    }


def forms_of(team, name, arguments):
    """The three forms of a collective, as functions that wait for it."""
    keywords = {"largest": 8} if name == "alltoallv" else {}

    def run_plan():
        plan = getattr(team, "plan_" + name)(*arguments, **keywords)
        plan.start()
        return plan.wait()
    return {name: lambda: getattr(team, name)(*arguments), "i" + name: lambda: getattr(team, "i" + name)(*arguments, **keywords).wait(),
            "plan_" + name: run_plan}


def test_collectives_leak_no_references():
    with hmc.init() as rt:
        world, counts = rt.world, [8]
        every = collective_arguments(1, 0)
        names = {name[5:] for name in dir(world) if name.startswith("plan_")}
        assert names == set(every), names ^ set(every)
        calls = {form: call for name, arguments in every.items() for form, call in forms_of(world, name, arguments).items()}
        calls |= {"objects": lambda: (world.broadcast_object(counts), world.gather_object(counts), world.allgather_object(counts),
                                      world.scatter_object(counts), world.alltoall_object(counts)),
                  "split": lambda: world.split(0).close()}
        held = [world, counts, *(array for arguments in every.values() for array in arguments if isinstance(array, np.ndarray))]
        plans = {name for name in calls if name.startswith("plan_")}
        expect_no_leaks(calls, held, lambda: world.ibarrier().wait(), plans | {"objects", "split"})


def test_an_exception_leaves_no_objects():
    """Operations in flight form no cycle of references: nanobind reports objects that are left at the end."""
    output = job(2, """
        def main():
            rt = hmc.init()
            team, win = rt.world.duplicate(), hmc.Window(rt.world, 4096)
            request, plan = team.irecv(bytearray(8)), team.plan_allreduce(np.zeros(4))
            plan.start()
            team.irecv(bytearray(8))  # dropped
            win.put_nb(0, 0, np.zeros(4))
            atomic = win.fetch_add_nb(0, 0, 1)
            win.swap_nb(0, 8, 1)  # dropped
            raise ValueError("on purpose")
        main()
    """, "--keep-going")
    assert "on purpose" in output and "leaked" not in output, output


def test_ctrl_c_ends_every_collective():
    """Rank 0 takes no part: each of rank 1's waits lasts until Ctrl-C. A team has failed afterwards, so each wait has its own."""
    program = f"""
        sys.path.insert(0, {here!r})
        import every_call, processes
        rt = hmc.init()
        waits = {{}}
        for name, arguments in every_call.collective_arguments(2, root=1).items():
            for form in every_call.forms_of(None, name, arguments):
                team = rt.world.duplicate()
                waits[form] = every_call.forms_of(team, name, arguments)[form]
        if rt.rank == 1:
            for form, wait in waits.items():
                print(f"interrupted {{form}}: {{processes.interrupted(wait) * 1000:.0f}} ms", flush=True)
            rt.world.send(b"", 0)  # the world is usable
            os._exit(0)
        rt.world.recv(bytearray(0), 1)
        os._exit(0)
    """
    for nodes in ("1", "2"):
        output = job(2, program, "--nodes", nodes)
        print(output)
        assert output.count("interrupted") == 3 * 16 and "Traceback" not in output, output


def test_a_killed_rank_ends_every_collective():
    """Rank 2 dies while the others are in all collectives, each on a team of its own. It is rank 0 of these teams."""
    for nodes in ("1", "3"):
        output = job(3, f"""
            sys.path.insert(0, {here!r})
            import every_call
            rt = hmc.init()
            requests, plans = {{}}, {{}}
            for name, arguments in every_call.collective_arguments(3, root=2).items():
                keywords = {{"largest": 8}} if name == "alltoallv" else {{}}
                team, other = rt.world.split(0, -rt.rank), rt.world.split(0, -rt.rank)
                plans[name] = getattr(other, "plan_" + name)(*arguments, **keywords)
                if rt.rank != 2:
                    requests[name] = getattr(team, "i" + name)(*arguments, **keywords)
                    plans[name].start()
            if rt.rank == 2:
                for _ in range(2):  # the others have left all calls
                    rt.world.recv(bytearray(0))
                os.kill(os.getpid(), signal.SIGKILL)
            rt.world.send(b"", 2)
            for name, wait in [*requests.items(), *plans.items()]:
                try:
                    wait.wait()
                except hmc.PeerFailed as error:
                    print(f"<{{error.code}} {{name}} {{error.rank}} {{error.peer}}>", flush=True)
            os._exit(0)
        """, "--nodes", nodes, "--keep-going")
        for name in collective_arguments(3, 2):  # rank 0 needs data of rank 2 in all of them
            assert output.count(f"<peer_failed {name} 0 2>") == 2, (name, output)


def test_ctrl_c_ends_waits_for_messages():
    """Rank 1 sends nothing: each of rank 0's waits lasts until Ctrl-C."""
    program = f"""
        import asyncio
        sys.path.insert(0, {here!r})
        import every_call, processes
        rt = hmc.init()
        world, out, large = rt.world, bytearray(8), bytearray(10**6)
        async def receive(request):
            await request
        def expect_errors(call, what):
            # No call waits for a rank's death.
            begin = time.monotonic()
            for _ in range(50):
                every_call.expect_error(hmc.Error, call)
            assert time.monotonic() - begin < 25
            print(f"failed at once: {{what}}", flush=True)
        if rt.rank == 0:
            one, two = world.irecv(out, 1, 5), world.irecv(bytearray(8), 1, 6)
            waits = {{
                "recv": lambda: world.recv(out, 1), "recv of any": lambda: world.recv(out), "irecv": one.wait,
                "probe": lambda: world.probe(1), "recv_object": lambda: world.recv_object(1, 3),
                "sendrecv": lambda: world.sendrecv(b"", 0, out, 1), "wait_any": lambda: hmc.wait_any([one, two]),
                "wait_all": lambda: hmc.wait_all([one, two]), "asyncio": lambda: asyncio.run(receive(one)),
            }}
            for name, wait in waits.items():
                print(f"interrupted {{name}}: {{processes.interrupted(wait) * 1000:.0f}} ms", flush=True)
            # The requests and the team are usable: no cancelled receive takes a message.
            world.send(b"", 1)
            assert one.wait().tag == 5 and out == b"message5" and two.wait().tag == 6
            assert world.recv(out, 1).tag == 7 and out == b"message7"
            # A large send ends the messages in its direction.
            for name, wait in {{"isend": world.isend(large, 1, 8).wait, "send": lambda: world.send(large, 1, 9)}}.items():
                print(f"interrupted {{name}}: {{processes.interrupted(wait) * 1000:.0f}} ms", flush=True)
            expect_errors(lambda: world.send(b"", 1), "rank 0")
            every_call.expect_error(hmc.Error, lambda: world.recv(out, 1, 12))  # until rank 1 ends
            os._exit(0)
        world.recv(out)
        for tag in (7, 5, 6):
            world.send(b"message%d" % tag, 0, tag)
        try:
            world.recv(out, 0, 10)  # until rank 0 has interrupted its send
        except hmc.Error:
            expect_errors(lambda: world.recv(out, 0, 10), "rank 1")
        # This rank's direction is usable, until Ctrl-C here.
        print(f"interrupted both: {{processes.interrupted(lambda: world.send(large, 0, 11)) * 1000:.0f}} ms", flush=True)
        os._exit(0)
    """
    for nodes in ("1", "2"):
        output = job(2, program, "--nodes", nodes)
        print(output)
        assert output.count("interrupted") == 12 and output.count("failed at once") == 2, output
        assert "Traceback" not in output, output


def test_a_killed_rank_ends_messages():
    for nodes in ("1", "3"):
        output = job(3, """
            import asyncio
            rt = hmc.init()
            world = rt.world
            request = world.irecv(bytearray(8), 2)
            if rt.rank == 2:
                for _ in range(2):  # the others have left all calls
                    world.recv(bytearray(0))
                os.kill(os.getpid(), signal.SIGKILL)
            world.send(b"", 2)
            async def receive():
                await world.irecv(bytearray(8), 2)
            for call in (lambda: world.recv(bytearray(8), 2), request.wait, lambda: world.recv_object(), lambda: world.probe(2),
                         lambda: world.send(bytes(10**6), 2), lambda: asyncio.run(receive())):
                try:
                    call()
                except hmc.PeerFailed as error:
                    print(f"<{error.code} {error.operation} {error.rank} {error.peer}>", flush=True)
            os._exit(0)
        """, "--nodes", nodes, "--keep-going")
        for rank in (0, 1):
            for operation in ("recv", "irecv", "probe", "send"):
                assert f"<peer_failed {operation} {rank} 2>" in output, (operation, output)
        assert output.count("<peer_failed") == 12, output


def test_messages_of_device_memory():
    """On a stand-in for the driver."""
    library = os.environ.get("HMC_TEST_CUDA_LIBRARY", "")
    if not os.path.exists(library):
        print(f"missing: {library} isn't built")
        sys.exit(77)
    for nodes in ("1", "2"):
        job(2, f"""
            sys.path.insert(0, {here!r})
            import sessions
            with hmc.init() as rt:
                right, left = (rt.rank + 1) % 2, (rt.rank - 1) % 2
                buffer = hmc.IOBuffer.create(0, 200_000, hmc.MemoryType.NVIDIA_GPU)
                source = sessions.DeviceArray(buffer, (500, 100), "|u1")
                out = sessions.DeviceArray(buffer, (100_000,), "|u1")
                out.__cuda_array_interface__["data"] = (buffer.ptr + 100_000, False)
                for call in range(3):
                    buffer.put(sessions.data(rt.rank, 50_000, call))
                    if call == 0:
                        status = rt.world.sendrecv(source, right, out, left)
                    else:  # from and into host memory
                        host = np.zeros(50_000, np.uint8)
                        received = rt.world.irecv(host if call == 1 else out, left)
                        sent = rt.world.isend(source if call == 1 else sessions.data(rt.rank, 50_000, call), right)
                        status = received.wait()
                        sent.wait()
                    got = host if call == 1 else sessions.content_of(buffer, 100_000, 50_000)
                    assert (status.source, status.bytes) == (left, 50_000)
                    sessions.same(got, sessions.data(left, 50_000, call), call)
        """, "--nodes", nodes, status=0, environment={"HMC_CUDA_LIBRARY": library})


def test_messages_end_at_the_timeout():
    output = job(2, """
        rt = hmc.init()
        world = rt.world
        if rt.rank == 0:
            for call in (lambda: world.recv(bytearray(8), 1), lambda: world.irecv(bytearray(8), 1, 3).wait(), lambda: world.probe(1)):
                try:
                    call()
                except hmc.Timeout as error:
                    print(f"<{error.code} {error.operation} {error.rank} {error.peer}>", flush=True)
            world.send(b"go", 1)
            process = world.recv_object(1)
            print("<received after the timeouts>", flush=True)
            os.kill(process, signal.SIGKILL)  # rank 1 doesn't exit by itself: its death could come before its message
        else:
            while world.iprobe() is None:
                time.sleep(0.01)
            world.send_object(os.getpid(), 0, 1)
            signal.pause()
        os._exit(0)
    """, environment={"HMC_TIMEOUT_S": "1"})
    for operation in ("recv", "irecv", "probe"):
        assert f"<timeout {operation} 0 1>" in output, output
    assert "<received after the timeouts>" in output and "Traceback" not in output, output


if __name__ == "__main__":
    globals()[sys.argv[1]]()
