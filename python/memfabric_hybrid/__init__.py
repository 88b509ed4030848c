"""MemFabric's Python API over HMC: a pool of memory over many processes.

>>> from memfabric_hybrid import bm
>>> config = bm.BmConfig()
>>> bm.initialize("tcp://127.0.0.1:8570", 4, 0, config)          # 0: success; this process serves the store, or another one
0
>>> pool = bm.create(0, local_dram_size=2 << 20, local_hbm_size=0, data_op_type=bm.BmDataOpType.HOST_TCP)
>>> pool.join()
0

`bm`: BigMemory. `shm`: ShareMemory. TransferEngine: transfers between peers by name. Functions that return a number return
0, or a code; get_last_err_msg() has the reason. create and the additions raise RuntimeError. Each call releases the GIL.
Differences from the original: compat/memfabric/README.md in HMC's sources.
"""

from memfabric_hybrid import _library as _l
from memfabric_hybrid import bm, shm
from memfabric_hybrid.transfer import TransDataOpType, TransferEngine, TransferOpcode

__all__ = ["initialize", "uninitialize", "set_log_level", "set_extern_logger", "get_last_err_msg",
           "get_and_clear_last_err_msg", "set_conf_store_tls", "set_conf_store_tls_key", "get_include_path", "get_lib_path",
           "create_config_store", "set_device_memory", "bm", "shm", "TransferEngine", "TransferOpcode", "TransDataOpType"]

_loggers = []  # each one that was set: a thread may still be in it


def initialize(flags=0):
    return _l.lib.smem_init(flags)


def uninitialize():
    _l.lib.smem_uninit()


def set_log_level(level):
    """0 debug, 1 info, 2 warning, 3 error."""
    return _l.lib.smem_set_log_level(level)


def set_extern_logger(log_fn):
    """log_fn(level, text) gets each line, on any thread. None: stderr."""
    if log_fn is None:
        return _l.lib.smem_set_extern_logger(_l.Logger())
    _loggers.append(_l.Logger(lambda level, text: log_fn(level, (text or b"").decode(errors="replace"))))
    return _l.lib.smem_set_extern_logger(_loggers[-1])


def get_last_err_msg():
    return _l.last_error()


def get_and_clear_last_err_msg():
    return _l.lib.smem_get_and_clear_last_err_msg().decode(errors="replace")


def set_conf_store_tls(enable, tls_info=""):
    """Certificates aren't supported: with a tls_info it fails, and so does each initialize afterwards."""
    text = tls_info.encode()
    return _l.lib.smem_set_conf_store_tls(enable, text, len(text))


def set_conf_store_tls_key(tls_pk, tls_pk_pw, py_decrypt_func=None):  # pylint: disable=unused-argument
    """Fails: private keys aren't supported."""
    key, password = tls_pk.encode(), tls_pk_pw.encode()
    return _l.lib.smem_set_config_store_tls_key(key, len(key), password, len(password), _l.Decryptor())


def get_include_path():
    """The folder of <smem.h>, also as smem/host/smem.h."""
    return _l.include_path


def get_lib_path():
    """The folder of libmf_smem."""
    return _l.lib_path


def create_config_store(store_url):
    return _l.lib.smem_create_config_store(store_url.encode(), 0)


def set_device_memory(memory_type):
    """The memory of device parts: a number of hmc's memory types; 0: the machine's accelerator."""
    return _l.lib.smem_set_device_memory(memory_type)
