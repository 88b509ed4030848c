/* MemFabric's config store as an object: a server, and what it knows about its clients. */
#ifndef HMC_COMPAT_SMEM_CONFIG_STORE_API_H
#define HMC_COMPAT_SMEM_CONFIG_STORE_API_H

#include <smem.h>
#include <smem_config_store_def.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As smem_set_conf_store_tls: with a path or a library it fails, and so do the init functions. Null: no TLS. */
SMEM_API int32_t smem_config_store_set_tls(const smem_tls_options_t* tls, const char* tls_library,
                                           const char* decrypter_library);
/* As smem_create_config_store. Null: an error. */
SMEM_API smem_config_store_t smem_config_store_create_server(const char* url);
/* Frees the handle, and ends the store of this URL; null as URL: the store remains until smem_uninit(). */
SMEM_API void smem_config_store_destroy_server(smem_config_store_t store, const char* url);
/* The callback runs on a thread of the library, one call at a time, and must not call functions of this store. Null: no
 * more calls. The reason for a failure is the last error. */
SMEM_API void smem_config_store_set_server_broken_handler(smem_config_store_t store,
                                                          smem_config_store_broken_cb callback, void* context);
/* 1: a store has one server, so there is no change of a leader. -1: the handle is null. */
SMEM_API int32_t smem_config_store_set_leader_handler(smem_config_store_t store,
                                                      smem_config_store_leader_change_cb callback, void* context);
/* A JSON array: an object for each store that this process serves, and for each one that it is a client of. *outLen:
 * the length without the final zero byte. SMEM_BUFFER_TOO_SMALL: *outLen has it. SMEM_NOT_EXIST: no store, and "[]". */
SMEM_API int32_t smem_config_store_get_cluster_status(char* json, uint32_t bufLen, uint32_t* outLen);

#ifdef __cplusplus
}
#endif
#endif
