"""MemFabric's first release. memfabric_hybrid has the same and more, and returns codes where this one raises RuntimeError."""

from types import SimpleNamespace

from memfabric_hybrid import (get_and_clear_last_err_msg, get_last_err_msg, initialize, set_conf_store_tls,
                              set_conf_store_tls_key, set_extern_logger, set_log_level, uninitialize)

from mf_smem import bm, shm

__all__ = ["initialize", "uninitialize", "set_log_level", "set_extern_logger", "get_last_err_msg",
           "get_and_clear_last_err_msg", "set_conf_store_tls", "set_conf_store_tls_key", "set_ssl_option", "TlsOption", "bm",
           "shm"]


class TlsOption(SimpleNamespace):
    """Paths of certificates and keys, as attributes."""
    enable_tls = False


def set_ssl_option(tls_option):
    """Fails if TLS is enabled with a path: certificates aren't supported. Without one, as set_conf_store_tls(True)."""
    paths = {name: value for name, value in vars(tls_option).items() if name != "enable_tls"}
    return set_conf_store_tls(bool(tls_option.enable_tls), ";".join(str(value) for value in paths.values() if value))
