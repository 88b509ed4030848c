/* Copies to and from the slices of an entity. */
#ifndef HMC_COMPAT_HYBM_DATA_OP_H
#define HMC_COMPAT_HYBM_DATA_OP_H

#include <hybm_def.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ASYNC_COPY_FLAG (1UL << 0)  /* no effect: a copy is complete at the return */
#define COPY_EXTEND_FLAG (1UL << 1) /* a hint */

/* Global: accessible slices. Local: any memory of this process, or of its device. Copies from local to local memory are
 * BM_INVALID_PARAM. stream: null, or the copy comes after its work. A batch is checked before the first byte moves. */
HYBM_API int32_t hybm_data_copy(hybm_entity_t e, hybm_copy_params* params, hybm_data_copy_direction direction,
                                void* stream, uint32_t flags);
HYBM_API int32_t hybm_data_batch_copy(hybm_entity_t e, hybm_batch_copy_params* params,
                                      hybm_data_copy_direction direction, void* stream, uint32_t flags);
HYBM_API int32_t hybm_wait(hybm_entity_t e);

#ifdef __cplusplus
}
#endif
#endif
