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

#include <set>
#include <string>

/* The first release's form. */
struct smem_tls_option {
  bool enableTls = false;
  std::string tlsTopPath, tlsCert, tlsCrlPath, tlsCaPath;
  std::set<std::string> tlsCaFile, tlsCrlFile;
  std::string tlsPk, tlsPkPwd, kmcKsfMaster, kmcKsfStandby, packagePath;
};
/* Fails if TLS is enabled with a path; without one, as smem_set_conf_store_tls(true, "", 0). */
inline int32_t smem_set_ssl_option(const smem_tls_option* tlsOption) {
  if (tlsOption == nullptr) return -2000; /* SMEM_INVALID_PARAM */
  if (!tlsOption->enableTls) return smem_set_conf_store_tls(false, nullptr, 0);
  std::string paths = tlsOption->tlsTopPath + tlsOption->tlsCert + tlsOption->tlsCrlPath + tlsOption->tlsCaPath +
                      tlsOption->tlsPk + tlsOption->tlsPkPwd + tlsOption->kmcKsfMaster + tlsOption->kmcKsfStandby +
                      tlsOption->packagePath;
  for (const std::string& file : tlsOption->tlsCaFile) paths += file;
  for (const std::string& file : tlsOption->tlsCrlFile) paths += file;
  return smem_set_conf_store_tls(true, paths.c_str(), static_cast<uint32_t>(paths.size()));
}
#endif
#endif
