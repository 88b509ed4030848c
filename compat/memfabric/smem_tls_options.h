/* TLS options of <smem_config_store_api.h>. */
#ifndef HMC_COMPAT_SMEM_TLS_OPTIONS_H
#define HMC_COMPAT_SMEM_TLS_OPTIONS_H

#include <stdint.h>

/* Paths and keys: certificates aren't supported, see <smem_security.h>. */
typedef struct {
  uint8_t enable_tls;
  const char* tls_top_path;
  const char* tls_cert;
  const char* tls_crl_path;
  const char* tls_ca_path;
  const char* tls_ca_file;
  const char* tls_crl_file;
  const char* tls_private_key;
  const char* tls_private_key_password;
} smem_tls_options_t;

#endif
