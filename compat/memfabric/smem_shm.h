/* MemFabric's SHM (Share Memory): memory of the same size on each rank, in one address space, and control operations.
 *
 * Kernels access it by <hmc/hmc_device.cuh>'s means: smem_shm_ptr in <smem_hmc.h> is the address on the device. The
 * AscendC functions of the original aren't offered. */
#ifndef HMC_COMPAT_SMEM_SHM_H
#define HMC_COMPAT_SMEM_SHM_H

#include <smem.h>
#include <smem_shm_def.h>

#ifdef __cplusplus
extern "C" {
#endif

SMEM_API int32_t smem_shm_config_init(smem_shm_config_t* config);
SMEM_API int32_t smem_shm_init(const char* configStoreIpPort, uint32_t worldSize, uint32_t rankId, uint16_t deviceId,
                               smem_shm_config_t* config);
SMEM_API void smem_shm_uninit(uint32_t flags);
SMEM_API uint32_t smem_shm_query_support_data_operation(void); /* SMEMS_DATA_OP_MTE */

/* Collective over rankSize ranks. id: 0..63. symmetricSize: a multiple of 2 MiB, at most 64 GiB. *gva: the address of
 * rank 0's memory; rank r's is at *gva + r * symmetricSize. If one rank fails, all ranks fail and free all. */
SMEM_API smem_shm_t smem_shm_create(uint32_t id, uint32_t rankSize, uint32_t rankId, uint64_t symmetricSize,
                                    smem_shm_data_op_type dataOpType, uint32_t flags, void** gva);
SMEM_API int32_t smem_shm_destroy(smem_shm_t handle, uint32_t flags);
SMEM_API uint64_t smem_shm_get_symmetric_size(smem_shm_t handle); /* 0: an error */
SMEM_API uint32_t smem_shm_get_global_rank(smem_shm_t handle);
SMEM_API uint32_t smem_shm_get_global_rank_size(smem_shm_t handle);
/* 1..65,536 bytes of this rank, for smem_shm_get_extra_context in <smem_hmc.h>. */
SMEM_API int32_t smem_shm_set_extra_context(smem_shm_t handle, const void* context, uint32_t size);
SMEM_API int32_t smem_shm_topology_can_reach(smem_shm_t handle, uint32_t remoteRank, uint32_t* reachInfo);

/* Control operations. sendSize: 1..65,536; recvSize: sendSize times the number of ranks. A late rank is SMEM_TIMEOUT.
 */
SMEM_API int32_t smem_shm_control_barrier(smem_shm_t handle);
SMEM_API int32_t smem_shm_control_allgather(smem_shm_t handle, const char* sendBuf, uint32_t sendSize, char* recvBuf,
                                            uint32_t recvSize);
/* Any rankSize callers that use the same key, with the ranks 0..rankSize-1. key: 1..63 characters. */
SMEM_API int32_t smem_shm_subgroup_barrier(smem_shm_t handle, const char* key, uint32_t rankSize, uint32_t rankId);
SMEM_API int32_t smem_shm_subgroup_allgather(smem_shm_t handle, const char* key, uint32_t rankSize, uint32_t rankId,
                                             const char* sendBuf, uint32_t sendSize, char* recvBuf, uint32_t recvSize);

/* A number below limit (1..1024) that no rank uses. */
SMEM_API int32_t smem_shm_atomic_alloc_value(smem_shm_t handle, uint32_t limit, uint32_t* value);
SMEM_API int32_t smem_shm_atomic_release_value(smem_shm_t handle, int32_t value);

/* The handler runs on a thread of its own, once, when any rank calls smem_shm_global_exit. Null: no handler. */
SMEM_API int32_t smem_shm_register_exit(smem_shm_t handle, void (*exit)(int));
SMEM_API void smem_shm_global_exit(smem_shm_t handle, int status);

#ifdef __cplusplus
}
/* Release 1.3 has a signed value. */
inline int32_t smem_shm_atomic_alloc_value(smem_shm_t handle, uint32_t limit, int32_t* value) {
  return smem_shm_atomic_alloc_value(handle, limit, reinterpret_cast<uint32_t*>(value));
}
#endif
#endif
