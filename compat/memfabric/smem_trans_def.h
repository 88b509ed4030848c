/* Types of <smem_trans.h>. */
#ifndef HMC_COMPAT_SMEM_TRANS_DEF_H
#define HMC_COMPAT_SMEM_TRANS_DEF_H

#include <stdbool.h>
#include <stdint.h>

#include <smem_bm_def.h>

typedef void* smem_trans_t;

#define SMEM_TRANS_RANK_COUNT_MAX (512U) /* peers of one store */

typedef enum {
  SMEM_TRANS_NONE = 0,
  SMEM_TRANS_SENDER,
  SMEM_TRANS_RECEIVER,
  SMEM_TRANS_BOTH,
  SMEM_TRANS_BUTT
} smem_trans_role_t;

typedef struct {
  smem_trans_role_t role; /* not NONE; each role may read and write */
  uint32_t initTimeout;   /* seconds; 120 */
  uint32_t deviceId;
  uint32_t flags;                  /* for the original's devices; no effect */
  smem_bm_data_op_type dataOpType; /* a hint; SDMA */
  bool startConfigServer;          /* false; true: this process serves the store */
  char nic[64];                    /* as hcomUrl of smem_bm_config_t */
  smem_tls_config hcomTlsConfig;
} smem_trans_config_t;

/* On a thread of the library. The id is valid during the call. The peer may be named again by a new process. */
typedef void (*smem_trans_peer_down_callback_t)(const char* peerUniqueId, void* userData);

#endif
