"""HMC_TORCH_ALIAS: HMC under the name of another backend, for scripts that name it."""

import torch.distributed as dist


class _Options:
    """As torch's _DistributedBackendOptions, which older releases don't pass to built-in backends."""

    def __init__(self, store, rank, size, timeout):
        self.store, self.group_rank, self.group_size, self.timeout = store, rank, size, timeout
        self.group_id, self.global_ranks_in_group = "", []


def install(name, create):
    """`name`: "gloo". `create(name, options)` makes the backend of a group."""
    if name != "gloo":
        raise ValueError(f"HMC_TORCH_ALIAS={name}: only gloo is supported")
    c10d = dist.distributed_c10d
    if hasattr(dist.Backend, "_ensure_backend_registered"):
        dist.Backend._ensure_backend_registered(name)
    if name.upper() in dist.Backend._plugins:  # 2.14 and newer: torch's own backends are plugins, too
        # torch casts a backend of type GLOO to its own class.
        dist.Backend.backend_type_map[name] = dist.ProcessGroup.BackendType.CUSTOM
        dist.Backend._plugins[name.upper()] = dist.Backend._BackendPlugin(
            lambda options, backend_options=None: create(name, options), True)
        return
    # Older releases call the class by this name. The wrapper of TORCH_DISTRIBUTED_DEBUG=DETAIL needs torch's gloo.
    gloo, wrap = getattr(c10d, "ProcessGroupGloo", None), c10d._create_process_group_wrapper

    def create_gloo(store, rank, size, timeout):
        return create(name, _Options(store, rank, size, timeout))

    def create_wrapper(*arguments, **named):
        c10d.ProcessGroupGloo = gloo
        try:
            return wrap(*arguments, **named)
        finally:
            c10d.ProcessGroupGloo = create_gloo

    c10d.ProcessGroupGloo, c10d._create_process_group_wrapper = create_gloo, create_wrapper
    c10d._GLOO_AVAILABLE = True
