/* Types of <smem_config_store_api.h>. */
#ifndef HMC_COMPAT_SMEM_CONFIG_STORE_DEF_H
#define HMC_COMPAT_SMEM_CONFIG_STORE_DEF_H

#include <stdint.h>

#include <smem_tls_options.h>

typedef void* smem_config_store_t;

typedef struct {
  uint8_t is_leader;
  const char* bindable_leader_address;
} smem_config_store_leader_info_t;

/* A client of BM or SHM has ended, or has lost its connection. link_id counts these calls from 0. The result is
 * ignored. */
typedef int32_t (*smem_config_store_broken_cb)(void* context, uint32_t link_id, uint32_t rank_id);
typedef void (*smem_config_store_leader_change_cb)(void* context, const smem_config_store_leader_info_t* leader);

#endif
