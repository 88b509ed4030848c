/* MemFabric's BM (Big Memory): a pool of host and device memory with members that join and leave.
 *
 * Two forms of two functions exist. C++ has both. In C the later release's is the default; a program that was written
 * for the first release defines SMEM_FIRST_RELEASE before it includes this header, or uses the headers in
 * include/smem/first_release/host:
 *   smem_bm_copy(handle, &params, type, flags)          smem_bm_copy(handle, source, destination, bytes, type, flags)
 *   smem_bm_join(handle, flags)                         smem_bm_join(handle, flags, &address)
 * All other functions of both releases have the same form in both. */
#ifndef HMC_COMPAT_SMEM_BM_H
#define HMC_COMPAT_SMEM_BM_H

#include <smem.h>
#include <smem_bm_def.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- process */
SMEM_API int32_t smem_bm_config_init(smem_bm_config_t* config);
/* Connects to the store at storeURL, or serves it, and gets a rank below worldSize. "hmc://" is the store of hmcrun.
 * Again with the same arguments: no effect; with others: SMEM_REPEAT_CALL. */
SMEM_API int32_t smem_bm_init(const char* storeURL, uint32_t worldSize, uint16_t deviceId,
                              const smem_bm_config_t* config);
SMEM_API void smem_bm_uninit(uint32_t flags);
SMEM_API uint32_t smem_bm_get_rank_id(void);

/* ---- another store, after the end of the first one. Connects to the store of the URL, and gets the same rank there:
 * for the pools that are created afterwards. Existing pools keep their members and copies, and see no joins and leaves
 * any more. If it fails, nothing has changed. */
SMEM_API int32_t smem_bm_update_store_url(const char* storeURL);
SMEM_API int32_t smem_bm_update_store_server(const char* ip, uint16_t port);
/* Leaders are elected among several servers (etcd). Here a store has one server, so these fail with
 * SMEM_OBJECT_NOT_EXISTS, and a program uses the URL that it has. */
SMEM_API int32_t smem_bm_register_leader_change_callback(smem_bm_leader_change_cb callback, void* userData);
SMEM_API int32_t smem_bm_get_bindable_leader_address(char* ip, size_t ipLen, uint16_t* port);
SMEM_API int32_t smem_bm_get_bindable_leader_address_by_store_url(const char* storeUrl,
                                                                  const smem_tls_config* tlsOption, uint32_t worldSize,
                                                                  char* ip, size_t ipLen, uint16_t* port);
SMEM_API void smem_bm_release_leader_address_store(void);

/* ---- pools */
/* Not collective. The maxima are the local sizes, so all members pass the same. memberSize: at most worldSize. */
SMEM_API smem_bm_t smem_bm_create(uint32_t id, uint32_t memberSize, smem_bm_data_op_type dataOpType,
                                  uint64_t localDRAMSize, uint64_t localHBMSize, uint32_t flags);
SMEM_API smem_bm_t smem_bm_create2(uint32_t id, const smem_bm_create_option_t* option);
SMEM_API void smem_bm_destroy(smem_bm_t handle);
/* Afterwards no member starts a copy to this member's memory. */
SMEM_API int32_t smem_bm_leave(smem_bm_t handle, uint32_t flags);
/* `size` more bytes, a multiple of 2 MiB, for this process's host part, up to maxDramSize. For pools without device
 * parts (maxHbmSize is 0). The contents remain. A member leaves and joins again meanwhile: copies of others to it fail
 * with SMEM_ERROR, and calls of other threads with this handle with SMEM_RESOURCE_IN_USE. Not in an event handler. */
SMEM_API int32_t smem_bm_extend_local_mem(smem_bm_t handle, smem_bm_mem_type memType, uint64_t size);
/* Calls `cb` for each join and leave of another member while this process is a member; a death is a leave. It runs on a
 * thread of the pool, one call at a time, and must not destroy the pool. Null: no more calls. */
SMEM_API int32_t smem_bm_set_group_event_handler(smem_bm_t handle, smem_bm_group_event_cb cb, void* context);

/* ---- addresses. They are valid before the member has joined, and equal in all processes if the machine allows it:
 * smem_bm_has_one_address_space in <smem_hmc.h> */
SMEM_API uint64_t smem_bm_get_local_mem_size_by_mem_type(smem_bm_t handle, smem_bm_mem_type memType);
SMEM_API void* smem_bm_ptr_by_mem_type(smem_bm_t handle, smem_bm_mem_type memType, uint16_t peerRankId);
SMEM_API uint32_t smem_bm_get_rank_id_by_gva(smem_bm_t handle, void* gva);
/* The address at which this process (SMEM_MEM_TYPE_LOCAL_HOST) or its device (..._LOCAL_DEVICE) accesses the byte.
 * SMEM_ERROR: it can't; copies can. */
SMEM_API int32_t smem_bm_gva_to_va(smem_bm_t handle, void* gva, smem_bm_mem_type vaMemType, void** va);
/* The first release's: of the device part, or of the host part if the pool has no device parts. */
SMEM_API uint64_t smem_bm_get_local_mem_size(smem_bm_t handle);
SMEM_API void* smem_bm_ptr(smem_bm_t handle, uint16_t peerRankId);

/* ---- copies */
/* Each piece of a batch has its own direction. All are checked before the first byte moves. */
SMEM_API int32_t smem_bm_copy_batch(smem_bm_t handle, smem_batch_copy_params* params, smem_bm_copy_type t,
                                    uint32_t flags);
SMEM_API int32_t smem_bm_copy_2d(smem_bm_t handle, const void* src, uint64_t spitch, void* dest, uint64_t dpitch,
                                 uint64_t width, uint64_t height, smem_bm_copy_type t, uint32_t flags);
/* Waits for all copies with ASYNC_COPY_FLAG. */
SMEM_API int32_t smem_bm_wait(smem_bm_t handle);
SMEM_API int32_t smem_bm_register_user_mem(smem_bm_t handle, uint64_t addr, uint64_t size);
SMEM_API int32_t smem_bm_unregister_user_mem(smem_bm_t handle, uint64_t addr);

/* ---- the two forms. join returns when this process and all members can reach each other */
SMEM_API int32_t smem_bm_copy_v1(smem_bm_t handle, const void* src, void* dest, uint64_t size, smem_bm_copy_type t,
                                 uint32_t flags);
SMEM_API int32_t smem_bm_join_v1(smem_bm_t handle, uint32_t flags, void** localGvaAddress);
#ifdef SMEM_FIRST_RELEASE
#define smem_bm_copy smem_bm_copy_v1
#define smem_bm_join smem_bm_join_v1
#else
SMEM_API int32_t smem_bm_copy(smem_bm_t handle, smem_copy_params* params, smem_bm_copy_type t, uint32_t flags);
SMEM_API int32_t smem_bm_join(smem_bm_t handle, uint32_t flags);
#endif

#ifdef __cplusplus
}

/* C++ has both forms at once. */
#ifndef SMEM_FIRST_RELEASE
inline int32_t smem_bm_copy(smem_bm_t handle, const void* src, void* dest, uint64_t size, smem_bm_copy_type t,
                            uint32_t flags) {
  return smem_bm_copy_v1(handle, src, dest, size, t, flags);
}
inline int32_t smem_bm_join(smem_bm_t handle, uint32_t flags, void** localGvaAddress) {
  return smem_bm_join_v1(handle, flags, localGvaAddress);
}
#endif
#endif
#endif
