/* MemFabric's lower layer on the host memory of one machine: start, end, log lines. */
#ifndef HMC_COMPAT_HYBM_H
#define HMC_COMPAT_HYBM_H

#include <hybm_def.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Counts: each hybm_init needs an hybm_uninit. The arguments have no effect. */
HYBM_API int32_t hybm_init(uint16_t deviceId, uint64_t flags);
/* The last one destroys all entities of this process. */
HYBM_API void hybm_uninit(void);

/* As smem_set_extern_logger and smem_set_log_level. */
HYBM_API void hybm_set_extern_logger(void (*logger)(int level, const char* msg));
HYBM_API int32_t hybm_set_log_level(int level);
/* The name of a result; null: there is no such result. */
HYBM_API const char* hybm_get_error_string(int32_t errCode);

#ifdef __cplusplus
}
#endif
#endif
