"""Group and alltoall of hmc.Session: python session_groups.py NAME. The ranks are functions of this file in processes."""
import importlib.util
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import numpy as np

import hmc
from hmc import ConnType, MemoryType
from sessions import SIZE, await_line, data, finish, listening, own_address, same, start

RANKS = int(os.environ.get("HMC_TEST_RANKS", 9))


def exchange(group, algo, block, call, conn="auto"):
    """alltoall against a serial reference."""
    def sent(rank):
        return np.concatenate([data(rank, block, call * 100 + to) for to in range(group.world)])
    recv = np.zeros(block * group.world, np.uint8)
    hmc.alltoall(group, sent(group.rank), recv, algo=algo, conn=conn, chunk_bytes=1000)
    expected = np.concatenate([data(rank, block, call * 100 + group.rank) for rank in range(group.world)])
    same(recv, expected, group.world, algo, block)


def alltoall_rank(rank, ip, folder):
    rank = int(rank)
    session = hmc.create_session(buffer_size=SIZE, local_ip=ip)
    members = [hmc.GroupMember(r, 0, ip, 2100 + r, 2200 + r, 2300 + r, MemoryType.CPU, 0, SIZE) for r in range(RANKS)]
    me = members[rank]
    session.init_server(bind_ip=ip, ucx_port=me.port_ucx, rdma_port=me.port_rdma, ctrl_tcp_port=me.port_ctrl, self_id=rank,
                        ctrl_uds_dir=folder)
    listening()
    assert sys.stdin.readline() == "go\n"  # all ranks listen
    for world in range(1, RANKS + 1):
        if rank >= world:
            continue
        mine = [hmc.GroupMember.from_dict({**member.to_dict(), "world": world}) for member in members[:world]]
        group = hmc.Group(session=session, members=mine[::-1], rank=rank)
        assert group.right.rank == (rank + 1) % world and group.left.rank == (rank + world - 1) % world
        for call, (algo, block) in enumerate([("direct", 1500), ("ring", 2001), ("auto", world % 2)]):
            exchange(group, algo, block, call, ConnType.RDMA)
        exchange(group, "auto", 999, 3)


def test_alltoall_of_each_number_of_ranks():
    with tempfile.TemporaryDirectory() as folder:
        processes = [start("--peer", "alltoall_rank", rank, own_address(), folder, HMC_TRANSPORT=os.environ.get("HMC_TRANSPORT", "shm"))
                     for rank in range(RANKS)]
        for process in processes:
            await_line(process, "<listens>")
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        finish(*processes)


def test_alltoall_errors():
    session = hmc.create_session(buffer_size=1000)
    group = hmc.collective.Group(session=session, members=[hmc.GroupMember(0, 1, "", 1, 2, 3, 1, 0, 1000)], rank=0)
    recv = np.zeros(10, np.uint8)
    hmc.collective.alltoall(group, data(0, 10, 1), recv)
    same(recv, data(0, 10, 1))
    hmc.alltoall(group, np.arange(10, dtype=np.uint8)[::-1], recv, recv_bias=0, send_bias=10)  # a copy of the source
    assert recv.tolist() == list(range(10))[::-1]
    hmc.alltoall(group, bytearray(10), recv, do_self_copy=False)
    assert recv.tolist() == list(range(10))[::-1]  # the buffer's bytes at 10
    for send, out, keywords in [(recv, recv[:5], {}), (recv, recv, {"algo": "tree"}), (recv, recv, {"recv_bias": 5}),
                                (recv, recv, {"recv_bias": 995}), (recv, np.zeros(20, np.uint8)[::2], {}), (recv, bytes(10), {}),
                                (recv, recv, {"chunk_bytes": 0})]:
        try:
            hmc.alltoall(group, send, out, **keywords)
        except ValueError:
            continue
        raise AssertionError(keywords)
    for members, rank in [([], 0), ([group.me], 1), ([hmc.GroupMember(1, 1, "", 1, 2, 3, 1, 0, 1000)], 0)]:
        try:
            hmc.Group(session=session, members=members, rank=rank)
        except ValueError:
            continue
        raise AssertionError((members, rank))


def group_rank(how, ip, folder, rank="-1"):
    if how == "torch":
        import torch.distributed as distributed
        rank = int(rank)
        distributed.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=3)
    elif how == "team":
        rt = hmc.init()
        rank = rt.rank
    else:
        rank = int(os.environ["HMC_RANK"])
    session = hmc.create_session(buffer_size=SIZE)
    group = hmc.init_group(session=session, my_ip=ip, port_ucx=2100 + rank, port_rdma=2200 + rank, port_ctrl=2300 + rank,
                           ctrl_uds_dir=folder, group_id="test", **({"team": rt.world} if how == "team" else {}))
    assert (group.rank, group.world, group.group_id) == (rank, 3, "test")
    assert group.peer(2).to_dict()["buffer_size"] == SIZE and group.me.memory_type is MemoryType.CPU
    exchange(group, "auto", 5000, 1)
    exchange(group, "ring", 5000, 2)
    print(f"<group {rank}>", flush=True)
    if how == "torch":
        distributed.barrier()
    elif how == "team":
        rt.close()


def test_groups_of_a_launchers_job():
    hmcrun = os.path.join(os.path.dirname(sys.executable), "hmcrun")
    for how in ("launcher", "team"):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([hmcrun, "-np", "3", "--timeout", "100", sys.executable, __file__, "--peer", "group_rank", how,
                                   own_address(), folder], text=True, check=False, capture_output=True, timeout=200)
        output = done.stdout + done.stderr
        assert done.returncode == 0 and all(f"<group {rank}>" in output for rank in range(3)), output


def test_groups_of_torch():
    if importlib.util.find_spec("torch") is None:
        print("missing: torch")
        sys.exit(77)
    import multiprocessing
    import torch.distributed  # noqa: F401: the ranks are forks, because its import takes longer than the test
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    with tempfile.TemporaryDirectory() as folder:
        fork = multiprocessing.get_context("fork")
        ranks = [fork.Process(target=group_rank, args=("torch", own_address(), folder, rank)) for rank in range(3)]
        for each in ranks:
            each.start()
        for each in ranks:
            each.join()
        assert [each.exitcode for each in ranks] == [0] * 3


if __name__ == "__main__":
    if sys.argv[1] == "--peer":
        globals()[sys.argv[2]](*sys.argv[3:])
    else:
        globals()[sys.argv[1]]()
