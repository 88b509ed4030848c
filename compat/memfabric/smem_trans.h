/* MemFabric's TRANS: peers are named by unique ids "ip:port", and read and write each other's registered memory. */
#ifndef HMC_COMPAT_SMEM_TRANS_H
#define HMC_COMPAT_SMEM_TRANS_H

#include <smem.h>
#include <smem_trans_def.h>

#ifdef __cplusplus
extern "C" {
#define SMEM_DEFAULT_0 = 0
#else
#define SMEM_DEFAULT_0
#endif

SMEM_API int32_t smem_trans_config_init(smem_trans_config_t* config);
SMEM_API int32_t smem_trans_init(const smem_trans_config_t* config);
SMEM_API void smem_trans_uninit(uint32_t flags);

/* A peer is ready for transfers when this returns. uniqueId: "a.b.c.d:port" or "[v6]:port", a name: nothing listens. */
SMEM_API smem_trans_t smem_trans_create(const char* storeUrl, const char* uniqueId, const smem_trans_config_t* config);
SMEM_API void smem_trans_destroy(smem_trans_t handle, uint32_t flags);

/* Called when a peer ends, or its process dies. Null: no more calls; one may still run. */
SMEM_API int32_t smem_trans_set_peer_down_callback(smem_trans_t handle, smem_trans_peer_down_callback_t callback,
                                                   void* userData);

/* ---- memory that peers may access: host memory, or device memory of this machine's accelerator */
SMEM_API void* smem_trans_malloc(smem_trans_t handle, size_t capacity); /* host memory, registered */
SMEM_API int32_t smem_trans_free(smem_trans_t handle, void* address);
SMEM_API int32_t smem_trans_register_mem(smem_trans_t handle, void* address, size_t capacity, uint32_t flags);
SMEM_API int32_t smem_trans_batch_register_mem(smem_trans_t handle, void* addresses[], size_t capacities[],
                                               uint32_t count, uint32_t flags);
SMEM_API int32_t smem_trans_deregister_mem(smem_trans_t handle, void* address);

/* ---- transfers. Complete at the return. Local memory needs no registration. Remote addresses are the owner's; beyond
 * its registered memory: SMEM_INVALID_PARAM, and no byte of the batch has moved. No peer of this id:
 * SMEM_OBJECT_NOT_EXISTS. `flags`: COPY_EXTEND_FLAG, a hint; may be omitted in C++ */
SMEM_API int32_t smem_trans_write(smem_trans_t handle, const void* localAddr, const char* remoteUniqueId,
                                  void* remoteAddr, size_t dataSize, uint32_t flags SMEM_DEFAULT_0);
SMEM_API int32_t smem_trans_batch_write(smem_trans_t handle, const void* localAddrs[], const char* remoteUniqueId,
                                        void* remoteAddrs[], size_t dataSizes[], uint32_t batchSize,
                                        uint32_t flags SMEM_DEFAULT_0);
SMEM_API int32_t smem_trans_read(smem_trans_t handle, void* localAddr, const char* remoteUniqueId,
                                 const void* remoteAddr, size_t dataSize, uint32_t flags SMEM_DEFAULT_0);
SMEM_API int32_t smem_trans_batch_read(smem_trans_t handle, void* localAddrs[], const char* remoteUniqueId,
                                       const void* remoteAddrs[], size_t dataSizes[], uint32_t batchSize,
                                       uint32_t flags SMEM_DEFAULT_0);

/* ---- in the order of a stream of this machine's accelerator: after the work that the stream has, and complete at the
 * return, before its later work. Null: no stream */
SMEM_API int32_t smem_trans_write_submit(smem_trans_t handle, const void* localAddr, const char* remoteUniqueId,
                                         void* remoteAddr, size_t dataSize, void* stream,
                                         uint32_t flags SMEM_DEFAULT_0);
SMEM_API int32_t smem_trans_read_submit(smem_trans_t handle, void* localAddr, const char* remoteUniqueId,
                                        const void* remoteAddr, size_t dataSize, void* stream,
                                        uint32_t flags SMEM_DEFAULT_0);
SMEM_API int32_t smem_trans_batch_write_submit(smem_trans_t handle, const void* localAddrs[],
                                               const char* remoteUniqueId, void* remoteAddrs[], size_t dataSizes[],
                                               uint32_t batchSize, void* stream, uint32_t flags SMEM_DEFAULT_0);
SMEM_API int32_t smem_trans_batch_read_submit(smem_trans_t handle, void* localAddrs[], const char* remoteUniqueId,
                                              const void* remoteAddrs[], size_t dataSizes[], uint32_t batchSize,
                                              void* stream, uint32_t flags SMEM_DEFAULT_0);

#undef SMEM_DEFAULT_0
#ifdef __cplusplus
}
#endif
#endif
