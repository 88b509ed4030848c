/* MemFabric's base API over HMC. C99 and C++; see README.md of compat/memfabric for the differences. */
#ifndef HMC_COMPAT_SMEM_H
#define HMC_COMPAT_SMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <smem_security.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Results. 0 is success. Functions that return a pointer return null, those that return a rank return UINT32_MAX; then
 * smem_get_last_err_msg() has the reason. */
#define SMEM_OK 0
#define SMEM_ERROR (-1)
#define SMEM_INVALID_PARAM (-2000)
#define SMEM_MALLOC_FAILED (-2001)
#define SMEM_NEW_OBJECT_FAILED (-2002)
#define SMEM_NOT_STARTED (-2003)
#define SMEM_TIMEOUT (-2004)
#define SMEM_REPEAT_CALL (-2005)
#define SMEM_DUPLICATED_OBJECT (-2006)
#define SMEM_OBJECT_NOT_EXISTS (-2007)
#define SMEM_NOT_INITIALIZED (-2008)
#define SMEM_RESOURCE_IN_USE (-2009)
#define SMEM_NOT_CONNECTED (-2014)
#define SMEM_BUFFER_TOO_SMALL (-2015)
/* Names of release 1.3. */
#define SMEM_NO_RESOURCES SMEM_NEW_OBJECT_FAILED
#define SMEM_REPEAT_INVOKE SMEM_REPEAT_CALL
#define SMEM_DUPLICATED SMEM_DUPLICATED_OBJECT
#define SMEM_NOT_EXIST SMEM_OBJECT_NOT_EXISTS
#define SMEM_NOT_INIT SMEM_NOT_INITIALIZED
#define SMEM_RES_IN_USE SMEM_RESOURCE_IN_USE
#define SMEM_PARTIAL_FAILED (-2012) /* isn't returned */

/* Flags of copies. */
#define ASYNC_COPY_FLAG (1UL << 0)  /* the copy is complete when smem_bm_wait() returns */
#define COPY_EXTEND_FLAG (1UL << 1) /* a hint, as a data operation type is */
/* The copy comes after the work of params->stream, a stream of this machine's accelerator, and is complete at the
 * return. */
#define SMEM_BM_FLAG_USE_EXTERNAL_STREAM (1UL << 2)

#define SMEM_WORLD_SIZE_MAX 1024U
#define SMEM_INVALID_DEV_ID (-1) /* no device: device parts are in host memory */

/* Major and minor version of the original's API that these functions have: (major << 16) + minor. */
SMEM_API uint32_t smem_get_abi_version(void);
/* Starts this process's use of the library. `flags` must be 0. May be repeated. */
SMEM_API int32_t smem_init(uint32_t flags);
/* Ends BM, SHM and TRANS of this process, and the stores that it serves. */
SMEM_API void smem_uninit(void);

/* Serves a key-value store at "tcp://a.b.c.d:port" or "tcp://[v6]:port", port 1025..65535, until
 * smem_destroy_config_store() or smem_uninit(). A child of fork() doesn't serve it. `flags` may be omitted;
 * SMEM_STORE_SKIP_RECOVER has no effect, as a store begins empty. */
#define SMEM_STORE_SKIP_RECOVER (1UL << 0)
#ifdef __cplusplus
SMEM_API int32_t smem_create_config_store(const char* url, uint64_t flags = 0);
#else
SMEM_API int32_t smem_create_config_store(const char* url, uint64_t flags);
#define smem_create_config_store(...) SMEM_CREATE_CONFIG_STORE_(__VA_ARGS__, 0, 0)
#define SMEM_CREATE_CONFIG_STORE_(url, flags, ...) (smem_create_config_store)(url, flags)
#endif
/* Ends the store that this process serves at this URL: its clients fail with SMEM_ERROR. Another URL has no effect. */
SMEM_API void smem_destroy_config_store(const char* url);

/* The function gets each log line from the set level on, on any thread, instead of stderr. Null: stderr. It must not
 * call functions of this library. */
SMEM_API int32_t smem_set_extern_logger(void (*function)(int level, const char* text));
/* 0 debug, 1 info, 2 warning (the default), 3 error. */
SMEM_API int32_t smem_set_log_level(int level);

/* The last failure of the calling thread; "" if there is none. Valid until the thread's next call of this library. */
SMEM_API const char* smem_get_last_err_msg(void);
SMEM_API const char* smem_get_and_clear_last_err_msg(void);
/* The code of that failure; 0 if there is none. */
SMEM_API int32_t smem_get_last_err_code(void);

#ifdef __cplusplus
}
#endif
#endif
