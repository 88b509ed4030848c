/* Types of <smem_trans.h>. */
#ifndef HMC_COMPAT_SMEM_TRANS_DEF_H
#define HMC_COMPAT_SMEM_TRANS_DEF_H

#include <stdbool.h>
#include <stdint.h>

#include <smem_bm_def.h>

typedef void* smem_trans_t;

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
  uint32_t flags;                  /* must be 0 */
  smem_bm_data_op_type dataOpType; /* a hint; SDMA */
  bool startConfigServer;          /* false; true: this process serves the store */
} smem_trans_config_t;

#endif
