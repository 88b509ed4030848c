/* MemFabric's settings of TLS. Certificates aren't supported. After a setter has failed, the init functions fail too,
 * so that nothing is sent in clear text by mistake: until smem_set_conf_store_tls(false, ...), or with HMC_TLS=1. */
#ifndef HMC_COMPAT_SMEM_SECURITY_H
#define HMC_COMPAT_SMEM_SECURITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SMEM_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* `enable` with an empty `tls_info`: succeeds if the process runs with HMC_TLS=1 and HMC_SECRET, so that the control
 * plane is encrypted (TLS 1.3, keys derived from the secret). With a text about certificates: fails. */
SMEM_API int32_t smem_set_conf_store_tls(bool enable, const char* tls_info, const uint32_t tls_info_len);

#ifdef __cplusplus
typedef int (*smem_decrypt_handler)(const char* cipher, size_t cipher_len, char* plain, size_t& plain_len);
#else
typedef int (*smem_decrypt_handler)(const char* cipher, size_t cipher_len, char* plain, size_t* plain_len);
#endif
/* Fails: there are no private keys. */
SMEM_API int32_t smem_set_config_store_tls_key(const char* tls_pk, const uint32_t tls_pk_len, const char* tls_pk_pw,
                                               const uint32_t tls_pk_pw_len, const smem_decrypt_handler h);

#ifdef __cplusplus
}
#endif
#endif
