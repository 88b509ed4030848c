"""The measurements of each mode, and their layouts."""

K, M = 1 << 10, 1 << 20

FIRST = ("barrier", "allreduce", "allgather", "broadcast", "put", "get")
FURTHER = ("reduce", "reduce_scatter", "gather", "scatter", "alltoall", "scan", "exscan")
V_FORMS = ("allgatherv", "alltoallv")
OPERATIONS = FIRST + FURTHER + V_FORMS

# The operations that are measured between two nodes of two ranks each: those with hierarchical algorithms.
COMPOSED = ("barrier", "allreduce", "allgather", "broadcast")

# The largest total size over all ranks: an allgather's result is np times its size.
MOST_GATHERED = 16 * M
GATHERED = ("allgather", "gather", "scatter", "alltoall", "reduce_scatter", *V_FORMS)

# apart: each operation is a separate start, so that the contestants' times for it are measured close together. If it is
# False, a contestant makes all operations in one start, which saves time.
MODES = {
    "full": {
        "rounds": 5, "cell_s": 0.1, "limit_s": 8.0, "budget_s": None, "apart": True,
        "sizes": {2: [8, 64, K, 8 * K, 64 * K, 256 * K, M, 4 * M, 16 * M], 4: [8, K, 64 * K, M, 4 * M],
                  8: [8, K, 64 * K, M, 4 * M]},
        "further_sizes": {2: [8, K, 64 * K, M, 4 * M, 16 * M], 4: [8, 64 * K, M, 4 * M], 8: [8, 64 * K, M, 4 * M]},
        "v_sizes": {2: [8, 64 * K, M], 4: [8, 64 * K], 8: [8, 64 * K]}, "v_network_sizes": [64 * K],
        "network_sizes": [8, K, 8 * K, 64 * K, M, 4 * M], "further_network_sizes": [8, 64 * K, M, 4 * M],
        "composed_sizes": [8, 64 * K, M, 4 * M],
        "hello": [2, 16, 64], "hello_rounds": 5,
    },
    "quick": {
        "rounds": 5, "cell_s": 0.03, "limit_s": 2.5, "budget_s": 150.0, "apart": False,
        "sizes": {2: [8, 4 * K, 64 * K, M], 4: [8, 64 * K], 8: [8, 64 * K]},
        "further_sizes": {2: [8, 64 * K], 4: [64 * K], 8: []},
        "v_sizes": {2: [64 * K], 4: [], 8: []}, "v_network_sizes": [],
        "network_sizes": [8, 64 * K, M], "further_network_sizes": [64 * K],
        "composed_sizes": [64 * K],
        "hello": [2, 16, 64], "hello_rounds": 3,
    },
    "smoke": {
        "rounds": 2, "cell_s": 0.002, "limit_s": 2.0, "budget_s": 30.0, "apart": False,
        "sizes": {2: [8, 4 * K]},
        "further_sizes": {2: [8]},
        "v_sizes": {2: [8]}, "v_network_sizes": [],
        "network_sizes": [8], "further_network_sizes": [8],
        "composed_sizes": [],
        "hello": [2], "hello_rounds": 1,
    },
}


def cells(sizes, further_sizes, v_sizes, ranks, operations):
    """A contestant's arguments, by operation."""
    out = {}
    for operation in operations:
        wanted = v_sizes if operation in V_FORMS else further_sizes if operation in FURTHER else sizes
        words = [f"{operation}:{size}" for size in wanted
                 if operation not in GATHERED or size * ranks <= MOST_GATHERED]
        if operation == "barrier":
            words = ["barrier"]
        if words:
            out[operation] = words
    return out


def placed(ranks, cpus):
    """If each rank has its own core, the median call counts, since interrupted calls say nothing about a library. Else
    rank r is on core r % cores, and the mean counts, since it includes waiting for a core."""
    fit = ranks <= len(cpus)
    return {"pinned": fit, "figure": "us_p50" if fit else "us_mean", "cpu_list": list(cpus[:ranks])}


MPIS = ("openmpi5", "mpich5", "intelmpi", "openmpi", "mpich")


def only(names, wanted):
    return [name for name in names if wanted is None or name in wanted]


def layouts(mode, cpus, ranks=None, operations=OPERATIONS, nodes=(1, 2), names=None):
    """`cpus`: one of each core. `names`: the participants; None: all."""
    settings = MODES[mode]
    out = []
    for count, sizes in settings["sizes"].items():
        if 1 not in nodes or (ranks and count not in ranks):
            continue
        out.append({
            "name": f"memory-np{count}", "title": f"one node, {count} ranks on {len(cpus)} cores", "np": count, "nodes": 1,
            **placed(count, cpus), "cells": cells(sizes, settings["further_sizes"][count], settings["v_sizes"][count], count, operations),
            "contestants": only(["floor-window", "floor-private", "hmc-window", "hmc-private", *MPIS, "gloo"], names),
        })
    if 2 in nodes and (not ranks or 2 in ranks):
        out.append({
            "name": "network-np2", "title": "two nodes of one rank, TCP over loopback", "np": 2, "nodes": 2,
            **placed(2, cpus), "cells": cells(settings["network_sizes"], settings["further_network_sizes"], settings["v_network_sizes"], 2,
                                            operations),
            "contestants": only(["floor-tcp", "hmc-window", "hmc-private", *MPIS, "gloo"], names),
        })
    composed = [operation for operation in operations if operation in COMPOSED]
    if 2 in nodes and (not ranks or 4 in ranks) and composed and settings["composed_sizes"]:
        out.append({
            "name": "network-np4", "title": f"two nodes of two ranks, TCP over loopback, {len(cpus)} cores", "np": 4, "nodes": 2,
            **placed(4, cpus), "cells": cells(settings["composed_sizes"], [], [], 4, composed),
            "contestants": only(["hmc-window", "hmc-private", *MPIS], names),
        })
    return out


def hello_layouts(mode, ranks=None, nodes=(1, 2), names=None):
    return [{
        "name": f"hello-np{count}", "title": f"start, one barrier, stop: {count} ranks", "np": count, "nodes": 1,
        "pinned": False, "figure": "us", "cpu_list": [], "cells": {"hello": ["hello"]},
        "contestants": only(["floor-private", "hmc-private", *MPIS, "gloo"], names),
        "labels": {"floor-private": "fork and exec, no barrier", "hmc-private": "HMC, hmcrun",
                   "openmpi5": "Open MPI 5, mpirun", "mpich5": "MPICH 5, mpirun",
                   "intelmpi": "Intel MPI, mpiexec.hydra", "openmpi": "Open MPI (Debian), mpirun",
                   "mpich": "MPICH (Debian), mpirun", "gloo": "Gloo, fork and exec"},
    } for count in MODES[mode]["hello"] if 1 in nodes and (not ranks or count in ranks)]
