/* Types of <smem_shm.h>. */
#ifndef HMC_COMPAT_SMEM_SHM_DEF_H
#define HMC_COMPAT_SMEM_SHM_DEF_H

#include <stdbool.h>
#include <stdint.h>

typedef void* smem_shm_t;

#define SMEM_SHM_TIMEOUT_MAX UINT32_MAX
#define SMEM_SHM_ATOMIC_NUM_LIMIT 1024U

/* Hints of smem_shm_create, and what smem_shm_topology_can_reach reports. */
typedef enum {
  SMEMS_DATA_OP_MTE = 1U << 0,  /* loads and stores, of the processor or of kernels */
  SMEMS_DATA_OP_SDMA = 1U << 1, /* copies on the node */
  SMEMS_DATA_OP_RDMA = 1U << 2, /* copies by a wire */
  SMEMS_DATA_OP_ROCE = SMEMS_DATA_OP_RDMA
} smem_shm_data_op_type;

typedef struct {
  uint32_t shmInitTimeout;                      /* seconds; 120 */
  uint32_t shmCreateTimeout;                    /* 120 */
  uint32_t controlOperationTimeout;             /* barrier, allgather; 120 */
  bool startConfigStoreServer;                  /* true: rank 0 serves the store */
#define startConfigStore startConfigStoreServer /* the first release's name */
  uint32_t flags;                               /* for the original's devices; no effect */
} smem_shm_config_t;

#endif
