"""HMC as a backend of torch.distributed.

>>> import torch.distributed as dist
>>> import hmc.torch                          # torch 2.5 and newer find the backend without this import
>>> dist.init_process_group("hmc")            # under hmcrun, torchrun, or with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT

All operations of torch.distributed work, on tensors in host memory. Tensors of devices are copied to host memory for each
operation, except in large all_reduces of CUDA tensors: where HMC can open the device, a window in its memory holds a copy that
the devices reduce (on one node).

The adapter is compiled for the installed torch when the first process group is created (``python -m hmc.torch build`` does it
beforehand). Without a C++ compiler torch 2.14 and newer use a slower backend in Python with fewer operations; older releases
fail with an error that says what to install.

- ``empty(*sizes, dtype=, group=)``: a tensor in a window. Large reductions of it are without copies. ``move(tensor)``
  moves an existing tensor and its views to a window.
- ``use_windows(model)``: for DistributedDataParallel, the buckets of gradients. For FSDP2, torch's
  ``set_allocate_memory_from_process_group_for_comm(True)`` does the same (2.14 and newer).
- ``HMC_TORCH_ALIAS=gloo``: scripts that name the backend "gloo" use HMC.
- A rank that ends is an exception on the other ranks within milliseconds. ``hmc.torch.abort(group)`` ends all operations.
"""

import torch
import torch.distributed as _dist

from hmc.torch import _register

__all__ = ["abort", "counters", "empty", "is_hmc", "move", "use_windows"]

_register.register()


def _backend(group, device="cpu"):
    """The C++ object of a group's backend."""
    group = group or _dist.distributed_c10d._get_default_group()
    return group._get_backend(torch.device(device)) if hasattr(group, "_get_backend") else group


def is_hmc(group=None):
    """True if the group's backend for tensors on the CPU is HMC."""
    backend = _backend(group)
    return type(backend).__name__ == "PythonBackend" or _register.adapter().is_hmc(backend)


def empty(*sizes, dtype=None, group=None):
    """A tensor on the CPU, not initialized except to zero, in a window of the group: a collective call.

    Collectives of the group use the memory of all ranks directly, without copies. The tensor may outlive the group.
    """
    if len(sizes) == 1 and not isinstance(sizes[0], int):
        sizes = tuple(sizes[0])
    return _register.adapter().empty(_backend(group), list(sizes), torch.empty(0, dtype=dtype, device="cpu"))


def move(tensor, group=None):
    """Moves the memory of a dense tensor on the CPU, and so all its views, to a window of the group: a collective call. The
    window is used again when the memory isn't in use on any rank. A tensor that is in such a window stays there."""
    _register.adapter().move(_backend(group), tensor)


def use_windows(model):
    """For a DistributedDataParallel whose process group is HMC: moves the buckets of gradients to windows, by a communication
    hook. With ``gradient_as_bucket_view=True`` the gradients are then reduced without a copy."""
    group = model.process_group
    backend = _backend(group)

    def hook(state, bucket):
        del state
        tensor = bucket.buffer()
        _register.adapter().move(backend, tensor)
        if not bucket.is_last():
            work = _dist.all_reduce(tensor, _dist.ReduceOp.AVG, group, async_op=True)
            return work.get_future().then(lambda done: done.value()[0])
        # Nothing is left to compute at the same time, so this thread executes the exchange.
        _dist.all_reduce(tensor, _dist.ReduceOp.AVG, group)
        future = torch.futures.Future()
        future.set_result(tensor)
        return future

    model.register_comm_hook(None, hook)


def counters(group=None):
    """For tests: how the group's large collectives on this rank have used their buffers since it was created. "in_place": in a
    window, "staged": copied, "read": private memory that the peers read, "direct_receives": from the network into the result."""
    return _register.adapter().counters(_backend(group))


def abort(group=None):
    """Ends all operations of the group, on all ranks, with an exception. Later calls of the group fail."""
    _register.adapter().abort(_backend(group))
