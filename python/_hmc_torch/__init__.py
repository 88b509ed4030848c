"""Called at the end of `import torch` by torch 2.5 and newer (entry points "torch.backends"): makes the backend "hmc" known
without importing the package hmc, because most programs don't use it."""


def autoload():
    import os

    import torch.distributed as dist

    if not dist.is_available() or "HMC" in dist.Backend._plugins:
        return
    if os.environ.get("HMC_TORCH_ALIAS"):
        import hmc.torch  # noqa: F401
    elif not hasattr(dist.Backend, "_ensure_backend_registered"):  # 2.14 and newer look for "torch.distributed.backends"
        dist.Backend.register_backend("hmc", _create, extended_api=True, devices=["cpu", "cuda"])


def _create(options, backend_options=None):
    from hmc.torch import _register

    return _register.create(options, backend_options)
