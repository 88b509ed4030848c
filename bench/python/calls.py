"""The time of one call from Python, on numpy arrays: the calls of calls.cpp, and with --mpi4py those of mpi4py."""
import sys
import time

import numpy as np

LARGE = 4 << 20


def large_array():
    """Numbers in huge pages, which numpy asks for. Their alignment changes the time of large transfers, so calls.cpp has the same."""
    memory = np.empty(2 * LARGE, np.uint8)
    begin = -memory.ctypes.data % (2 << 20)
    array = memory[begin:begin + LARGE].view(np.float64)
    array[:] = 1
    return array


def time_of(barrier, calls, call):
    """The fastest of five batches, in ns per call."""
    best = 1e18
    for _ in range(5):
        barrier()
        begin = time.perf_counter_ns()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter_ns() - begin) / calls)
    return best


def show(rank, name, ns):
    if rank == 0:
        print(f"{name}\t{ns:.1f}", flush=True)


def with_hmc():
    import hmc
    with hmc.init() as rt, hmc.Window(rt.world, LARGE + 64) as win:
        world, peer = rt.world, (rt.rank + 1) % rt.size
        a, b, big, result = np.zeros(1), np.zeros(1), large_array(), large_array()

        def round_trip(array):
            if rt.rank == 0:
                world.send(array, peer)
            world.recv(array, peer)
            if rt.rank != 0:
                world.send(array, peer)

        def requests():
            received, sent = world.irecv(b, peer), world.isend(a, peer)
            received.wait()
            sent.wait()
        calls = (("put 8 B", 100000, lambda: win.put(peer, 0, a)),
                 ("get 8 B", 100000, lambda: win.get(peer, 0, b)),
                 ("fetch_add", 100000, lambda: win.fetch_add(peer, 8, 1)),
                 ("allreduce 8 B", 20000, lambda: world.allreduce(a, b)),
                 ("iallreduce 8 B", 5000, lambda: world.iallreduce(a, b).wait()),
                 ("barrier", 20000, world.barrier),
                 ("round trip 8 B", 20000, lambda: round_trip(a)),
                 ("sendrecv 8 B", 20000, lambda: world.sendrecv(a, peer, b, peer)),
                 ("irecv, isend 8 B", 5000, requests),
                 ("put 4 MiB", 50, lambda: win.put(peer, 0, big)),
                 ("allreduce 4 MiB", 50, lambda: world.allreduce(big, result)),
                 ("round trip 4 MiB", 50, lambda: round_trip(big)))
        for name, count, call in calls:
            show(rt.rank, name, time_of(world.barrier, count, call))


def with_mpi4py():
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    peer = (world.rank + 1) % world.size
    a, b, big, result = np.zeros(1), np.zeros(1), large_array(), large_array()
    win = MPI.Win.Allocate(LARGE + 64, comm=world)
    win.Lock_all()

    def put(array):
        win.Put(array, peer)
        win.Flush_local(peer)

    def get(array):
        win.Get(array, peer)
        win.Flush(peer)
    one, old = np.ones(1, np.int64), np.zeros(1, np.int64)

    def fetch_add():
        win.Fetch_and_op(one, old, peer, 1, MPI.SUM)
        win.Flush(peer)

    def round_trip(array):
        if world.rank == 0:
            world.Send(array, peer)
        world.Recv(array, peer)
        if world.rank != 0:
            world.Send(array, peer)

    def requests():
        received, sent = world.Irecv(b, peer), world.Isend(a, peer)
        received.Wait()
        sent.Wait()
    calls = (("put 8 B", 20000, lambda: put(a)), ("get 8 B", 20000, lambda: get(b)), ("fetch_add", 20000, fetch_add),
             ("allreduce 8 B", 20000, lambda: world.Allreduce(a, b)),
             ("iallreduce 8 B", 5000, lambda: world.Iallreduce(a, b).Wait()), ("barrier", 20000, world.Barrier),
             ("round trip 8 B", 20000, lambda: round_trip(a)),
             ("sendrecv 8 B", 20000, lambda: world.Sendrecv(a, peer, recvbuf=b, source=peer)),
             ("irecv, isend 8 B", 5000, requests),
             ("put 4 MiB", 50, lambda: put(big)), ("allreduce 4 MiB", 50, lambda: world.Allreduce(big, result)),
             ("round trip 4 MiB", 50, lambda: round_trip(big)))
    for name, count, call in calls:
        show(world.rank, name, time_of(world.Barrier, count, call))
    win.Unlock_all()
    win.Free()


if __name__ == "__main__":
    (with_mpi4py if "--mpi4py" in sys.argv else with_hmc)()
