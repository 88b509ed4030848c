"""libmf_smem by ctypes, whose CDLL releases the GIL in each call."""

import ctypes
import glob
import os
from ctypes import c_bool, c_char, c_char_p, c_int, c_int32, c_size_t, c_uint16, c_uint32, c_uint64, c_void_p

import hmc

_root = os.path.dirname(os.path.abspath(hmc.__file__))
lib_path = os.path.join(_root, "lib")
include_path = os.path.join(_root, "include")
# Without RTLD_GLOBAL: it uses the libhmc beside it.
lib = ctypes.CDLL(sorted(glob.glob(os.path.join(lib_path, "libmf_smem.so.*")))[0])

Logger = ctypes.CFUNCTYPE(None, c_int, c_char_p)
GroupEvent = ctypes.CFUNCTYPE(None, c_void_p, c_uint32, c_int, c_void_p)
PeerDown = ctypes.CFUNCTYPE(None, c_char_p, c_void_p)
StoreBroken = ctypes.CFUNCTYPE(c_int32, c_void_p, c_uint32, c_uint32)
Decryptor = ctypes.CFUNCTYPE(c_int, c_char_p, c_size_t, c_void_p, ctypes.POINTER(c_size_t))
NO_RANK = 2**32 - 1


class TlsConfig(ctypes.Structure):
    _fields_ = [("enable", c_bool)] + [(name, c_char * 256) for name in (
        "ca_path", "crl_path", "cert_path", "key_path", "key_pass_path", "package_path", "decrypter_lib_path")]


class BmConfigStruct(ctypes.Structure):
    _fields_ = [("init_timeout", c_uint32), ("create_timeout", c_uint32), ("operation_timeout", c_uint32),
                ("start_store", c_bool), ("start_store_only", c_bool), ("dynamic_world_size", c_bool),
                ("unified_address_space", c_bool), ("auto_ranking", c_bool), ("rank_id", c_uint16), ("flags", c_uint32),
                ("hcom_url", c_char * 64), ("hcom_tls", TlsConfig), ("store_tls", TlsConfig)]


class BmOptions(ctypes.Structure):
    _fields_ = [("max_dram_size", c_uint64), ("max_hbm_size", c_uint64), ("local_dram_size", c_uint64),
                ("local_hbm_size", c_uint64), ("data_op_type", c_uint32), ("flags", c_uint32), ("tag", c_char * 32),
                ("tag_op_info", c_char * 256), ("shm_fd", c_int), ("enable_56bits_gva", c_bool)]


class CopyParams(ctypes.Structure):
    _fields_ = [("source", c_void_p), ("destination", c_void_p), ("size", c_size_t), ("stream", c_void_p)]


class BatchParams(ctypes.Structure):
    _fields_ = [("sources", ctypes.POINTER(c_void_p)), ("destinations", ctypes.POINTER(c_void_p)),
                ("sizes", ctypes.POINTER(c_uint64)), ("count", c_uint32), ("stream", c_void_p)]


class Counter(ctypes.Structure):
    _fields_ = [("calls", c_uint64), ("failures", c_uint64), ("pieces", c_uint64), ("bytes", c_uint64)]


class ShmConfigStruct(ctypes.Structure):
    _fields_ = [("init_timeout", c_uint32), ("create_timeout", c_uint32), ("operation_timeout", c_uint32),
                ("start_store", c_bool), ("flags", c_uint32)]


class TransConfig(ctypes.Structure):
    _fields_ = [("role", c_uint32), ("init_timeout", c_uint32), ("device_id", c_uint32), ("flags", c_uint32),
                ("data_op_type", c_uint32), ("start_store", c_bool), ("nic", c_char * 64), ("hcom_tls", TlsConfig)]


def _declare():
    pointer = ctypes.POINTER
    text, handle, address, size = c_char_p, c_void_p, c_void_p, c_size_t
    addresses, sizes = pointer(c_void_p), pointer(c_size_t)
    signatures = {
        "smem_get_abi_version": (c_uint32,),
        "smem_init": (c_int32, c_uint32),
        "smem_uninit": (None,),
        "smem_create_config_store": (c_int32, text, c_uint64),
        "smem_destroy_config_store": (None, text),
        "smem_config_store_set_tls": (c_int32, c_void_p, text, text),
        "smem_config_store_create_server": (handle, text),
        "smem_config_store_destroy_server": (None, handle, text),
        "smem_config_store_set_server_broken_handler": (None, handle, StoreBroken, c_void_p),
        "smem_config_store_set_leader_handler": (c_int32, handle, c_void_p, c_void_p),
        "smem_config_store_get_cluster_status": (c_int32, c_char_p, c_uint32, pointer(c_uint32)),
        "smem_set_extern_logger": (c_int32, Logger),
        "smem_set_log_level": (c_int32, c_int),
        "smem_get_last_err_msg": (text,),
        "smem_get_and_clear_last_err_msg": (text,),
        "smem_get_last_err_code": (c_int32,),
        "smem_set_conf_store_tls": (c_int32, c_bool, text, c_uint32),
        "smem_set_config_store_tls_key": (c_int32, text, c_uint32, text, c_uint32, Decryptor),
        "smem_set_device_memory": (c_int32, c_int),
        "smem_bm_config_init": (c_int32, pointer(BmConfigStruct)),
        "smem_bm_init": (c_int32, text, c_uint32, c_uint16, pointer(BmConfigStruct)),
        "smem_bm_uninit": (None, c_uint32),
        "smem_bm_get_rank_id": (c_uint32,),
        "smem_bm_update_store_url": (c_int32, text),
        "smem_bm_update_store_server": (c_int32, text, c_uint16),
        "smem_bm_register_leader_change_callback": (c_int32, c_void_p, c_void_p),
        "smem_bm_get_bindable_leader_address": (c_int32, c_char_p, size, pointer(c_uint16)),
        "smem_bm_get_bindable_leader_address_by_store_url": (c_int32, text, pointer(TlsConfig), c_uint32, c_char_p, size,
                                                             pointer(c_uint16)),
        "smem_bm_release_leader_address_store": (None,),
        "smem_bm_create": (handle, c_uint32, c_uint32, c_uint32, c_uint64, c_uint64, c_uint32),
        "smem_bm_create2": (handle, c_uint32, pointer(BmOptions)),
        "smem_bm_destroy": (None, handle),
        "smem_bm_join": (c_int32, handle, c_uint32),
        "smem_bm_join_v1": (c_int32, handle, c_uint32, pointer(c_void_p)),
        "smem_bm_get_local_mem_size": (c_uint64, handle),
        "smem_bm_ptr": (address, handle, c_uint16),
        "smem_bm_leave": (c_int32, handle, c_uint32),
        "smem_bm_extend_local_mem": (c_int32, handle, c_uint32, c_uint64),
        "smem_bm_set_group_event_handler": (c_int32, handle, GroupEvent, c_void_p),
        "smem_bm_get_local_mem_size_by_mem_type": (c_uint64, handle, c_uint32),
        "smem_bm_ptr_by_mem_type": (address, handle, c_uint32, c_uint16),
        "smem_bm_get_rank_id_by_gva": (c_uint32, handle, address),
        "smem_bm_gva_to_va": (c_int32, handle, address, c_uint32, pointer(c_void_p)),
        "smem_bm_copy": (c_int32, handle, pointer(CopyParams), c_uint32, c_uint32),
        "smem_bm_copy_batch": (c_int32, handle, pointer(BatchParams), c_uint32, c_uint32),
        "smem_bm_copy_2d": (c_int32, handle, address, c_uint64, address, c_uint64, c_uint64, c_uint64, c_uint32, c_uint32),
        "smem_bm_wait": (c_int32, handle),
        "smem_bm_register_user_mem": (c_int32, handle, c_uint64, c_uint64),
        "smem_bm_unregister_user_mem": (c_int32, handle, c_uint64),
        "smem_bm_path": (c_int32, handle, c_uint32, c_uint32, c_char_p, c_size_t),
        "smem_bm_has_one_address_space": (c_bool, handle),
        "smem_bm_barrier": (c_int32, handle, c_uint32),
        "smem_bm_get_counter": (c_int32, handle, text, pointer(Counter)),
        "smem_shm_config_init": (c_int32, pointer(ShmConfigStruct)),
        "smem_shm_init": (c_int32, text, c_uint32, c_uint32, c_uint16, pointer(ShmConfigStruct)),
        "smem_shm_uninit": (None, c_uint32),
        "smem_shm_query_support_data_operation": (c_uint32,),
        "smem_shm_create": (handle, c_uint32, c_uint32, c_uint32, c_uint64, c_uint32, c_uint32, pointer(c_void_p)),
        "smem_shm_destroy": (c_int32, handle, c_uint32),
        "smem_shm_get_symmetric_size": (c_uint64, handle),
        "smem_shm_get_global_rank": (c_uint32, handle),
        "smem_shm_get_global_rank_size": (c_uint32, handle),
        "smem_shm_set_extra_context": (c_int32, handle, text, c_uint32),
        "smem_shm_get_extra_context": (c_int32, handle, c_uint32, address, pointer(c_uint32)),
        "smem_shm_topology_can_reach": (c_int32, handle, c_uint32, pointer(c_uint32)),
        "smem_shm_control_barrier": (c_int32, handle),
        "smem_shm_control_allgather": (c_int32, handle, text, c_uint32, address, c_uint32),
        "smem_shm_subgroup_barrier": (c_int32, handle, text, c_uint32, c_uint32),
        "smem_shm_subgroup_allgather": (c_int32, handle, text, c_uint32, c_uint32, text, c_uint32, address, c_uint32),
        "smem_shm_atomic_alloc_value": (c_int32, handle, c_uint32, pointer(c_uint32)),
        "smem_shm_atomic_release_value": (c_int32, handle, c_int32),
        "smem_shm_register_exit": (c_int32, handle, c_void_p),
        "smem_shm_global_exit": (None, handle, c_int),
        "smem_shm_ptr": (address, handle, c_uint32),
        "smem_shm_copy": (c_int32, handle, address, address, c_uint64),
        "smem_trans_config_init": (c_int32, pointer(TransConfig)),
        "smem_trans_init": (c_int32, pointer(TransConfig)),
        "smem_trans_uninit": (None, c_uint32),
        "smem_trans_create": (handle, text, text, pointer(TransConfig)),
        "smem_trans_destroy": (None, handle, c_uint32),
        "smem_trans_set_peer_down_callback": (c_int32, handle, PeerDown, c_void_p),
        "smem_trans_malloc": (address, handle, size),
        "smem_trans_free": (c_int32, handle, address),
        "smem_trans_register_mem": (c_int32, handle, address, size, c_uint32),
        "smem_trans_batch_register_mem": (c_int32, handle, addresses, sizes, c_uint32, c_uint32),
        "smem_trans_deregister_mem": (c_int32, handle, address),
    }
    for kind in ("write", "read"):
        one = (c_int32, handle, address, text, address, size)
        batch = (c_int32, handle, addresses, text, addresses, sizes, c_uint32)
        signatures[f"smem_trans_{kind}"] = (*one, c_uint32)
        signatures[f"smem_trans_batch_{kind}"] = (*batch, c_uint32)
        signatures[f"smem_trans_{kind}_submit"] = (*one, c_void_p, c_uint32)
        signatures[f"smem_trans_batch_{kind}_submit"] = (*batch, c_void_p, c_uint32)
    for name, (result, *arguments) in signatures.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return frozenset(signatures)


functions = _declare()


def last_error():
    return (lib.smem_get_last_err_msg() or b"").decode(errors="replace")


def checked(code):
    """Raises RuntimeError with the last error unless the call was successful. `code`: a result, or a handle."""
    if code is None or code != 0:
        raise RuntimeError(last_error())


def array_of(kind, values):
    return (kind * len(values))(*values)
