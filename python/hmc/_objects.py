"""Collectives of any objects, by pickle."""

import array
import pickle


def _lengths(team, mine):
    """The numbers of all ranks."""
    lengths = array.array("q", [mine])
    return list(team.allgather(lengths, array.array("q", [0] * team.size)))


def broadcast_object(team, value, root):
    data = bytearray(pickle.dumps(value)) if team.rank == root else None
    size = array.array("q", [len(data) if data is not None else 0])
    team.broadcast(size, root)
    if data is None:
        data = bytearray(size[0])
    team.broadcast(data, root)
    return value if team.rank == root else pickle.loads(data)


def gather_object(team, value, root):
    data = bytearray(pickle.dumps(value))
    counts = _lengths(team, len(data))
    everything = bytearray(sum(counts)) if team.rank == root else None
    team.gatherv(data, counts, out=everything, root=root)
    return _split(everything, counts) if team.rank == root else None


def allgather_object(team, value):
    data = bytearray(pickle.dumps(value))
    counts = _lengths(team, len(data))
    everything = bytearray(sum(counts))
    team.allgatherv(data, counts, out=everything)
    return _split(everything, counts)


def scatter_object(team, values, root):
    counts, data = array.array("q", [0] * team.size), None
    if team.rank == root:
        pieces = _pieces(team, values)
        counts = array.array("q", map(len, pieces))
        data = bytearray().join(pieces)
    team.broadcast(counts, root)
    mine = bytearray(counts[team.rank])
    team.scatterv(data, counts, out=mine, root=root)
    return pickle.loads(mine)


def alltoall_object(team, values):
    pieces = _pieces(team, values)
    counts = array.array("q", map(len, pieces))
    receive_counts = array.array("q", [0] * team.size)
    team.alltoall(counts, receive_counts)
    everything = bytearray(sum(receive_counts))
    team.alltoallv(bytearray().join(pieces), counts, out=everything, receive_counts=receive_counts)
    return _split(everything, receive_counts)


def _pieces(team, values):
    values = list(values)
    if len(values) != team.size:
        raise ValueError(f"{len(values)} objects for {team.size} ranks")
    return [pickle.dumps(value) for value in values]


def _split(everything, counts):
    view, values, begin = memoryview(everything), [], 0
    for count in counts:
        values.append(pickle.loads(view[begin:begin + count]))
        begin += count
    return values
