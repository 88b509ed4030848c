"""Group and alltoall: collectives on Sessions. New programs use hmc.Team."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass

from hmc.session import ConnType, HMCError, MemoryType, Session, nbytes_of

__all__ = ["Group", "GroupMember", "alltoall", "init_group"]

_most_in_flight = 64


@dataclass(frozen=True)
class GroupMember:
    """A process of a Group: its rank, its server's address and its buffer."""

    rank: int
    world: int
    ip: str
    port_ucx: int
    port_rdma: int
    port_ctrl: int
    mem_type: int
    device_id: int
    buffer_size: int

    @property
    def memory_type(self) -> MemoryType:
        return MemoryType(self.mem_type)

    def port_for(self, conn: ConnType) -> int:
        """The data port of a ConnType."""
        return self.port_ucx if conn == ConnType.UCX else self.port_rdma

    def to_dict(self) -> dict:
        return asdict(self)

    @classmethod
    def from_dict(cls, d: dict) -> GroupMember:
        return cls(**d)


class Group:
    """Sessions that take part in collectives. Rank r's Session has the id r."""

    def __init__(self, *, session: Session, members: list[GroupMember], rank: int, group_id: str = "default") -> None:
        self.session = session
        self.group_id = group_id
        self.members = sorted(members, key=lambda member: member.rank)
        self.rank = rank
        self.world = len(self.members)
        if [(member.rank, member.world) for member in self.members] != [(r, self.world) for r in range(self.world)]:
            raise ValueError(f"the members aren't ranks 0 to {self.world - 1} of {self.world}")
        if not 0 <= rank < self.world:
            raise ValueError(f"{rank} isn't a rank of {self.world} members")
        self.me = self.members[rank]
        self._calls = 0

    def peer(self, r: int) -> GroupMember:
        return self.members[r]

    @property
    def right(self) -> GroupMember:
        return self.members[(self.rank + 1) % self.world]

    @property
    def left(self) -> GroupMember:
        return self.members[self.rank - 1]


class _TorchJob:
    """torch.distributed with the functions of a Team that init_group uses."""

    def __init__(self, distributed):
        self._distributed = distributed
        self.rank, self.size = distributed.get_rank(), distributed.get_world_size()

    def allgather_object(self, value):
        values = [None] * self.size
        self._distributed.all_gather_object(values, value)
        return values

    def barrier(self):
        self._distributed.barrier()


def init_group(*, session: Session, my_ip: str, port_ucx: int, port_rdma: int, port_ctrl: int, group_id: str = "default",
               ctrl_tcp_port: int | None = None, ctrl_uds_dir: str = "/tmp", start_servers: bool = True,
               server_barrier: bool = True, team=None) -> Group:
    """Collective: exchange the addresses of all processes, and start their servers.

    The processes find each other by team (an hmc.Team, such as ``rt.world``), or by torch.distributed if that is initialized,
    or as hmc.init() does: by hmcrun, torchrun, mpirun, srun.
    """
    def start(job):
        me = GroupMember(job.rank, job.size, my_ip, port_ucx, port_rdma, port_ctrl, int(session.buf.mem_type),
                         session.buf.device_id, session.buf.size)
        members = [GroupMember.from_dict(each) for each in job.allgather_object(me.to_dict())]
        group = Group(session=session, members=members, rank=job.rank, group_id=group_id)
        if start_servers:
            session.init_server(bind_ip=my_ip, ucx_port=port_ucx, rdma_port=port_rdma, self_id=job.rank, ctrl_uds_dir=ctrl_uds_dir,
                                ctrl_tcp_port=port_ctrl if ctrl_tcp_port is None else ctrl_tcp_port)
            if server_barrier:
                job.barrier()
        return group

    distributed = sys.modules.get("torch.distributed")
    if team is not None:
        return start(team)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return start(_TorchJob(distributed))
    import hmc
    with hmc.init() as runtime:
        return start(runtime.world)


def _conn_of(group, peer, conn):
    if conn != "auto":
        return ConnType(conn)
    mine, theirs = group.me.memory_type, group.peer(peer).memory_type
    gpus = {mine, theirs} - {MemoryType.CPU}
    by_rdma = {MemoryType.CAMBRICON_MLU, MemoryType.MOORE_GPU}
    return ConnType.RDMA if len(gpus) == 2 or gpus & by_rdma else ConnType.UCX


def _expect(group, peer, tag):
    got = group.session.ctrl_recv(peer)
    if got != tag:
        raise HMCError(f"alltoall: rank {peer} is in another call: tag {got} instead of {tag}", "mismatch", "alltoall",
                       group.rank, peer)


def _meet(group, peers, tag, conn):
    """Waits until all peers are ready. The lower rank of each pair connects first; then its peer finds the connection."""
    session = group.session
    for peer in peers:
        if group.rank < peer:
            member, kind = group.peer(peer), _conn_of(group, peer, conn)
            session.connect(peer_id=peer, self_id=group.rank, peer_ip=member.ip, data_port=member.port_for(kind),
                            ctrl_tcp_port=member.port_ctrl, conn=kind)
            session.ctrl_send(peer, tag)
    for peer in peers:
        if peer < group.rank:
            _expect(group, peer, tag)
            session.ctrl_send(peer, tag)
    for peer in peers:
        if group.rank < peer:
            _expect(group, peer, tag)


def alltoall(group: Group, send, recv, *, algo: str = "auto", conn: ConnType | str = "auto", send_bias: int = 0,
             recv_bias: int | None = None, chunk_bytes: int = 4 * 1024 * 1024, do_self_copy: bool = True) -> None:
    """Collective: block i of ``send`` arrives at rank i, as block r (this rank) of its ``recv``.

    The data passes through the session's buffer, at send_bias and recv_bias (default: behind ``send``). A put has at most
    chunk_bytes. conn: "auto" selects it by the memory types of each pair.
    algo: "direct" transfers to all peers at once, "ring" to one peer after another; "auto" is "ring" above 8 ranks.
    Without do_self_copy this rank's own block of ``recv`` gets what the buffer contains there.
    """
    session, rank, world = group.session, group.rank, group.world
    total = nbytes_of(send)
    if nbytes_of(recv) != total:
        raise ValueError(f"alltoall: send has {total} bytes, recv {nbytes_of(recv)}")
    if total % world != 0:
        raise ValueError(f"alltoall: {total} bytes aren't divisible by {world} ranks")
    if chunk_bytes <= 0:
        raise ValueError(f"alltoall: chunk_bytes is {chunk_bytes}")
    algo = algo.strip().lower()
    if algo not in ("auto", "direct", "ring"):
        raise ValueError(f"alltoall: algo is {algo!r}, not 'auto', 'direct' or 'ring'")
    if algo == "auto":
        algo = "direct" if world <= 8 else "ring"
    recv_bias = send_bias + total if recv_bias is None else recv_bias
    if max(send_bias, recv_bias) + total > session.buf.size:
        raise ValueError(f"alltoall: {max(send_bias, recv_bias) + total} bytes of the buffer are needed; it has {session.buf.size}")
    if send_bias < recv_bias + total and recv_bias < send_bias + total and total > 0:
        raise ValueError("alltoall: the ranges at send_bias and recv_bias overlap")

    block = total // world
    session.buf.get_into(recv, nbytes=0, offset=recv_bias)  # a read-only or scattered recv fails before anything moves
    session.buf.put(send, nbytes=total, offset=send_bias)
    if do_self_copy:
        session.buf.buffer_copy_within(dst_offset=recv_bias + rank * block, src_offset=send_bias + rank * block, nbytes=block)

    def transfer(peer):
        kind, member, ids = _conn_of(group, peer, conn), group.peer(peer), []
        for begin in range(0, block, chunk_bytes):
            ids.append(session.put_nb(member.ip, member.port_for(kind), send_bias + peer * block + begin,
                                      recv_bias + rank * block + begin, min(chunk_bytes, block - begin), kind))
            if len(ids) == _most_in_flight:
                session.wait(ids)
                ids.clear()
        return ids

    ready, done = 2 * group._calls, 2 * group._calls + 1
    group._calls += 1
    steps = range(1, world)
    if algo == "direct":
        peers = [(rank + step) % world for step in steps]
        _meet(group, peers, ready, conn)
        session.wait([each for peer in peers for each in transfer(peer)])
        for peer in peers:
            session.ctrl_send(peer, done)
        for peer in peers:
            _expect(group, peer, done)
    else:
        for step in steps:
            to, origin = (rank + step) % world, (rank - step) % world
            _meet(group, {to, origin}, ready, conn)
            session.wait(transfer(to))
            session.ctrl_send(to, done)
            _expect(group, origin, done)
    session.buf.get_into(recv, nbytes=total, offset=recv_bias)
