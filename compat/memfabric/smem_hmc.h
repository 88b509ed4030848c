/* Additions to MemFabric's API: the ways between members, counters, and other vendors' devices. */
#ifndef HMC_COMPAT_SMEM_HMC_H
#define HMC_COMPAT_SMEM_HMC_H

#include <smem_bm.h>
#include <smem_shm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The memory of device parts, a number of hmc_memory_type in <hmc/hmc_c.h>. 0, the default: the machine's accelerator,
 * else host memory. For pools that are created afterwards. */
SMEM_API int32_t smem_set_device_memory(int memory_type);

/* "load_store: reason": the way to a part of a member, and why. Returns the length without the final zero byte, like
 * snprintf; negative: a result code. */
SMEM_API int32_t smem_bm_path(smem_bm_t handle, smem_bm_mem_type memType, uint32_t rank, char* text, size_t size);
SMEM_API bool smem_bm_has_one_address_space(smem_bm_t handle);
/* The first `size` members wait for each other: BM itself has no barrier. */
SMEM_API int32_t smem_bm_barrier(smem_bm_t handle, uint32_t size);

typedef struct {
  uint64_t calls;
  uint64_t failures;
  uint64_t pieces;
  uint64_t bytes;
} smem_counter_t;
/* operation: "copy", "copy_batch", "copy_2d", "copy_async", "join", "leave", ... */
SMEM_API int32_t smem_bm_get_counter(smem_bm_t handle, const char* operation, smem_counter_t* counter);

/* The address at which this process, or its device, accesses a rank's memory; null if it can't. */
SMEM_API void* smem_shm_ptr(smem_shm_t handle, uint32_t rank);
/* Source and destination: an address of the SHM, or memory of this process. Works to each rank. */
SMEM_API int32_t smem_shm_copy(smem_shm_t handle, void* dest, const void* src, uint64_t size);
/* *size: the room, then the size. A rank without a context: SMEM_OBJECT_NOT_EXISTS. */
SMEM_API int32_t smem_shm_get_extra_context(smem_shm_t handle, uint32_t rank, void* context, uint32_t* size);

#ifdef __cplusplus
}
#endif
#endif
