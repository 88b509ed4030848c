"""The names of MemFabric's first release. See memfabric_hybrid, which has the same and more."""

import sys
from types import SimpleNamespace

from memfabric_hybrid import bm, initialize, set_conf_store_tls, set_log_level, shm, uninitialize

__all__ = ["initialize", "uninitialize", "set_log_level", "set_ssl_option", "TlsOption", "bm", "shm"]

sys.modules[__name__ + ".bm"], sys.modules[__name__ + ".shm"] = bm, shm


class TlsOption(SimpleNamespace):
    """Paths of certificates and keys, as attributes."""


def set_ssl_option(option):
    """Fails if the option has a path: certificates aren't supported. Without one, as set_conf_store_tls(True)."""
    return set_conf_store_tls(True, ";".join(str(value) for value in vars(option).values() if value))
