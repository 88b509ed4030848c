"""HMC: MPI-style collectives on one-sided memory access (RMA).

A job is a number of ranks: processes, started by ``hmcrun -np 4 python program.py`` (or ``python -m hmc.run -np 4
program.py``, mpirun, srun, torchrun). Every rank joins by ``hmc.init()``:

>>> import hmc, numpy as np
>>> with hmc.init() as rt:
...     a = np.full(3, rt.rank + 1.0)
...     _ = rt.world.allreduce(a)                      # in place; or out=b, op=hmc.max
...     with hmc.Window(rt.world, 4096) as win:        # 4096 bytes of memory on each rank
...         win.put((rt.rank + 1) % rt.size, 0, a)     # to the right neighbour
...         rt.world.barrier()
...         left = win.array(3, float).copy()          # a numpy view of this rank's part
>>> left.tolist() == [rt.size * (rt.size + 1) / 2] * 3
True

- ``Runtime``: this rank's membership in the job. ``Runtime.world``: the ``Team`` of all ranks.
- ``Team``: the collectives. Blocking (``allreduce``), non-blocking (``iallreduce`` returns a ``Request``; ``await`` it in
  asyncio) and persistent (``plan_allreduce``). Messages have tags: ``send``, ``recv``, ``isend``, ``irecv``, ``sendrecv``,
  ``probe``. Objects travel by pickle only in functions that say so (``broadcast_object``, ``send_object``).
- ``Window``: put, get, signals and atomics; ``Window.array`` is a numpy view of a rank's memory.
- ``Buffer``: a vector in the memory of a device or of the host; numpy, torch and cupy share it. ``import hamr`` has HAMR's
  Python API over it.
- ``PhysicalMemory``, ``Mapping``: memory of a device that any processes share by a handle, also without a job.
- ``Error``: the base of HMC's exceptions, with code, rank, peer and operation. Beneath it: ``PeerFailed``, ``Timeout``,
  ``Mismatch``.
- ``Session``: transfers between processes without a launcher, in the form of HMC's older Python package
  (``help(hmc.session)``).

Arrays are Buffers, and objects with the buffer protocol, DLPack, ``__cuda_array_interface__`` or ``__array_interface__``. HMC
uses their memory directly. A non-contiguous array is a ValueError.

Calls that wait release the GIL. Python's signal handlers run in them: Ctrl-C ends a wait within 100 ms. A collective that
was ended so has failed on its team, as after a timeout.
"""

from hmc._core import (
    ANY_SOURCE,
    ANY_TAG,
    Buffer,
    BufferView,
    Cmp,
    DType,
    Mapping,
    Memory,
    MessageStatus,
    Op,
    Path,
    PhysicalMemory,
    Plan,
    Request,
    Runtime,
    Team,
    Window,
    __version__,
    avg,
    band,
    bor,
    bxor,
    init,
    land,
    lor,
    max,
    maxloc,
    min,
    minloc,
    prod,
    sum,
    wait_all,
    wait_any,
)
from hmc.errors import Error, Mismatch, PeerFailed, Timeout

__all__ = [
    "ANY_SOURCE", "ANY_TAG", "Buffer", "BufferView", "Cmp", "DType", "Error", "Mapping", "Memory", "MessageStatus", "Mismatch", "Op", "Path",
    "PeerFailed", "PhysicalMemory", "Plan", "Request", "Runtime", "Team", "Timeout", "Window", "__version__", "init", "wait_all", "wait_any",
]

TYPE_CHECKING = False  # type checkers take it as true
if TYPE_CHECKING:
    from hmc import collective, communicator, session
    from hmc.collective import Group, GroupMember, alltoall, init_group
    from hmc.communicator import Communicator, ConnBuffer, CtrlLink
    from hmc.session import (ConnType, CtrlTransport, HMCError, HMCStatusError, IOBuffer, MemoryType, Session, Status,
                             create_session, memory_supported, memory_type_from_torch_tensor, status_t)

# Imported at their first use, because most programs don't use them.
_lazy = {
    "collective": ("Group", "GroupMember", "alltoall", "init_group"),
    "communicator": ("Communicator", "ConnBuffer", "CtrlLink"),
    "session": ("ConnType", "CtrlTransport", "HMCError", "HMCStatusError", "IOBuffer", "MemoryType", "Session", "Status",
                "create_session", "memory_supported", "memory_type_from_torch_tensor", "status_t"),
}


def __getattr__(name):
    for module, names in _lazy.items():
        if name == module or name in names:
            from importlib import import_module
            loaded = import_module("hmc." + module)
            return loaded if name == module else getattr(loaded, name)
    raise AttributeError(f"module 'hmc' has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *(name for names in _lazy.values() for name in names)})
