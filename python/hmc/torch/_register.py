"""Registers the backend in torch.distributed, and ends its groups at the end of the process."""

import atexit
import os
import sys

import torch
import torch.distributed as dist

# The seconds for which a process that ends waits for the other ranks, so that they get its last data.
_exit_timeout_s = 10
_adapter = None
_has_failed = False
_registered = False
_end_of_child = None  # the process that has it


def adapter():
    """The compiled module."""
    global _adapter
    if _adapter is None:
        from hmc.torch import _build

        _adapter = _build.load()
        atexit.register(_leave_all)
        _watch_for_exceptions()
    return _adapter


def _watch_for_exceptions():
    """Notes an exception that ends the program. Interactive sessions go on after one."""
    shown = sys.excepthook

    def hook(*exception):
        global _has_failed
        _has_failed = not (hasattr(sys, "ps1") or sys.flags.interactive)
        shown(*exception)

    sys.excepthook = hook


def _leave_all():
    """At the end of the process. After an uncaught exception the other ranks must not wait."""
    if _has_failed:
        _adapter.abort_all("a rank ends because of an exception")
    seconds = float(os.environ.get("HMC_TORCH_EXIT_S", _exit_timeout_s))
    _adapter.leave_all(int(1000 * seconds))
    if _adapter.open_groups():
        _adapter.abort_all(f"a rank has ended and the others still used its groups after {seconds:g} s: call destroy_process_group at "
                           "the same step on all ranks, or set HMC_TORCH_EXIT_S to more seconds")
        _adapter.leave_all(1000)


def _at_end_of_child():
    """A child of multiprocessing doesn't run atexit's functions if it was forked."""
    global _end_of_child
    if _end_of_child == os.getpid():
        return
    _end_of_child = os.getpid()
    from multiprocessing import util

    util.Finalize(None, _leave_all, exitpriority=0)


def _agree(options, has_adapter):
    """Whether the group uses the adapter: all of its ranks must. Rank 0 decides, so only ranks whose compiler fails can't join."""
    if options.group_size == 1:
        return has_adapter
    key = "hmc-adapter/" + os.environ.get("TORCHELASTIC_RESTART_COUNT", "")
    if options.group_rank == 0:
        options.store.set(key, b"yes" if has_adapter else b"no")
        return has_adapter
    options.store.wait([key], options.timeout)
    wanted = bytes(options.store.get(key)) == b"yes"
    if wanted and not has_adapter:
        raise RuntimeError(f"hmc.torch: rank {options.group_rank} has no compiled adapter, but rank 0 has; compile it on all machines: "
                           "python -m hmc.torch build")
    return wanted


def create_as(name, options):
    """The backend of a group; `name` is what it says it is."""
    import multiprocessing

    from hmc.torch import _build

    has_python = hasattr(dist.Backend, "_ensure_backend_registered")  # 2.14: backends in Python
    try:
        module = adapter()
    except _build.BuildError as error:
        if not has_python:
            raise
        module, why = None, error
    if has_python and not _agree(options, module is not None):
        from hmc.torch import _python

        _build.warn_once(f"{why if module is None else 'rank 0 has no compiled adapter'}\nThe backend in Python is used instead. "
                         "It is slower and has fewer operations: help(hmc.torch._python)")
        return _python.PythonBackend(options)
    if multiprocessing.parent_process() is not None:
        _at_end_of_child()
    return module.create(options.store, options.group_rank, options.group_size, int(options.timeout.total_seconds() * 1000), name,
                         str(options.group_id), [int(each) for each in options.global_ranks_in_group])


def create(options, backend_options=None):
    """The factory of torch.distributed's extended API."""
    del backend_options
    return create_as("hmc", options)


def register():
    """Makes the name "hmc" known; and HMC_TORCH_ALIAS. Repeated calls do nothing."""
    global _registered
    if _registered or not dist.is_available():
        return
    _registered = True
    if "HMC" not in dist.Backend._plugins:
        try:
            # Without a GPU only the CPU: else torch 2.15 looks for a GPU's stream in each barrier, 10 us.
            devices = ["cpu", "cuda"] if torch.cuda.device_count() else ["cpu"]
            dist.Backend.register_backend("hmc", create, extended_api=True, devices=devices)
        except TypeError:  # before 2.1
            dist.Backend.register_backend("hmc", create, extended_api=True)
    aliases = [each.strip().lower() for each in os.environ.get("HMC_TORCH_ALIAS", "").split(",") if each.strip()]
    if aliases:
        from hmc.torch import _alias

        for each in aliases:
            _alias.install(each, create_as)
