/* Types of <smem_bm.h>. */
#ifndef HMC_COMPAT_SMEM_BM_DEF_H
#define HMC_COMPAT_SMEM_BM_DEF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void* smem_bm_t;

#define SMEM_BM_TIMEOUT_MAX UINT32_MAX /* seconds; at least 1 */
#define SMEM_TLS_PATH_SIZE 256

/* Flags of smem_bm_create. */
#define SMEM_BM_BIND_NUMA_FLAG_INDEX 0 /* bits 0 to 6: a NUMA node, used with the performance mode */
#define SMEM_BM_BIND_NUMA_FLAG_LEN 7
#define SMEM_BM_PERFORMANCE_MODE_FLAG_INDEX 7 /* bind the host part to the NUMA node */
#define SMEM_BM_PERFORMANCE_MODE_FLAG_LEN 1
#define SMEM_BM_BIND_NUMA_AUTO_AFFINITY_FLAG ((1U << SMEM_BM_BIND_NUMA_FLAG_LEN) - 1) /* the caller's node */
#define SMEM_BM_FLAG_CREATE_WITH_SHM (1U << 8)   /* the host part is the shared memory dramShmFd */
#define SMEM_BM_FLAG_DRAM_MAP_HOST_VA (1U << 9)  /* no effect: host parts are mapped */
#define SMEM_BM_FLAG_DRAM_BEST_EFFORT (1U << 10) /* no effect: a part is allocated as a whole, or create fails */

typedef enum {
  SMEM_MEM_TYPE_LOCAL_DEVICE = 0,
  SMEM_MEM_TYPE_LOCAL_HOST,
  SMEM_MEM_TYPE_DEVICE, /* the device part of a member */
  SMEM_MEM_TYPE_HOST,   /* the host part of a member */
  SMEM_MEM_TYPE_BUTT
} smem_bm_mem_type;
typedef smem_bm_mem_type smem_bm_mem_type_t;

/* A set of hints: the pool uses the best way between two members, and logs it. tagOpInfo prefers a way. */
typedef enum {
  SMEMB_DATA_OP_SDMA = 1U << 0,
  SMEMB_DATA_OP_HOST_RDMA = 1U << 1,
  SMEMB_DATA_OP_ROCE = SMEMB_DATA_OP_HOST_RDMA, /* the first release's name */
  SMEMB_DATA_OP_HOST_TCP = 1U << 2,
  SMEMB_DATA_OP_DEVICE_RDMA = 1U << 3,
  SMEMB_DATA_OP_HOST_URMA = 1U << 4,
  SMEMB_DATA_OP_HOST_SHM = 1U << 5,
  SMEMB_DATA_OP_DEVICE_URMA = 1U << 6,
  SMEMB_DATA_OP_DEVICE_UBOE = 1U << 7,
  SMEMB_DATA_OP_BUTT
} smem_bm_data_op_type;
typedef smem_bm_data_op_type smem_bm_data_op_type_t;

/* L: device memory of this process. H: host memory of this process. G: an address of the pool; GH: of a host part. On a
 * machine without an accelerator, L is host memory. */
typedef enum {
  SMEMB_COPY_L2G = 0,
  SMEMB_COPY_G2L = 1,
  SMEMB_COPY_G2H = 2,
  SMEMB_COPY_H2G = 3,
  SMEMB_COPY_L2GH = 4,
  SMEMB_COPY_GH2L = 5,
  SMEMB_COPY_GH2H = 6,
  SMEMB_COPY_H2GH = 7,
  SMEMB_COPY_G2G = 8,
  SMEMB_COPY_AUTO = 9, /* detected */
  SMEMB_COPY_BUTT
} smem_bm_copy_type;
typedef smem_bm_copy_type smem_bm_copy_type_t;

typedef struct {
  bool tlsEnable; /* true: smem_bm_init fails, unless all paths are empty: see smem_set_conf_store_tls */
  char caPath[SMEM_TLS_PATH_SIZE];
  char crlPath[SMEM_TLS_PATH_SIZE];
  char certPath[SMEM_TLS_PATH_SIZE];
  char keyPath[SMEM_TLS_PATH_SIZE];
  char keyPassPath[SMEM_TLS_PATH_SIZE];
  char packagePath[SMEM_TLS_PATH_SIZE];
  char decrypterLibPath[SMEM_TLS_PATH_SIZE];
} smem_tls_config;
typedef smem_tls_config smem_tls_config_t;

typedef struct {
  uint32_t initTimeout;                         /* seconds, for smem_bm_init; 120 */
  uint32_t createTimeout;                       /* for smem_bm_join; 120 */
  uint32_t controlOperationTimeout;             /* for smem_bm_leave and smem_bm_wait; 120 */
  bool startConfigStoreServer;                  /* true: one process at the URL's address serves the store */
#define startConfigStore startConfigStoreServer /* the first release's name */
  bool startConfigStoreOnly;                    /* false; true: serve the store, don't become a member */
  bool dynamicWorldSize;                        /* false. Both values mean: members join and leave, at most worldSize */
  bool unifiedAddressSpace;                     /* must be true */
  bool autoRanking;                             /* false; true: the store assigns the rank */
  uint16_t rankId;                              /* the rank if autoRanking is false; UINT16_MAX: the store assigns it */
  uint32_t flags;                               /* for the original's devices; no effect */
  char hcomUrl[64]; /* "tcp://ip:port" or "tcp://ip/bits:port": the networks for TCP; see README.md */
  smem_tls_config hcomTlsConfig;
  smem_tls_config storeTlsConfig;
} smem_bm_config_t;

/* Sizes are multiples of 2 MiB; host at most 2 TiB, device at most 64 GiB. The maxima are the strides of the address
 * space: the same in all members. */
typedef struct {
  uint64_t maxDramSize;
  uint64_t maxHbmSize;
  uint64_t localDRAMSize;
  uint64_t localHBMSize;
  smem_bm_data_op_type dataOpType;
  uint32_t flags;
  char tag[32];         /* of this member: up to 30 letters, digits and `_` */
  char tagOpInfo[256];  /* "tagA:OP:tagB,...": the way between members with these tags; the same in all members */
  int dramShmFd;        /* used with SMEM_BM_FLAG_CREATE_WITH_SHM */
  bool enable56BitsGva; /* no effect: the address space of the process is used */
} smem_bm_create_option_t;

typedef struct {
  const void* src;
  void* dest;
  size_t dataSize;
  void* stream; /* used with SMEM_BM_FLAG_USE_EXTERNAL_STREAM */
} smem_copy_params;
typedef smem_copy_params smem_copy_params_t;

typedef struct {
  void** sources;
  void** destinations;
  const uint64_t* dataSizes;
  uint32_t batchSize;
  void* stream;
} smem_batch_copy_params;
typedef smem_batch_copy_params smem_batch_copy_params_t;

typedef enum { SMEM_GROUP_EVENT_JOIN, SMEM_GROUP_EVENT_LEAVE, SMEM_MEMBER_EVENT_BUTT } smem_bm_group_event_t;
typedef void (*smem_bm_group_event_cb)(smem_bm_t handle, uint32_t rankId, smem_bm_group_event_t event, void* context);
typedef void (*smem_bm_leader_change_cb)(void* userData);

#endif
