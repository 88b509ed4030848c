/* Entities: each process of a group has one, allocates slices of its part, exports them, and imports those of the
 * others. Slices are host memory, also those of the device type, and all processes are on one machine and of one user:
 * the exported bytes of another machine are refused with BM_NOT_SUPPORTED. For several machines: <smem_bm.h>. */
#ifndef HMC_COMPAT_HYBM_BIG_MEM_H
#define HMC_COMPAT_HYBM_BIG_MEM_H

#include <hybm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* `flags` have no effect unless stated. The same id in all processes; their addresses are equal if they create the same
 * entities in the same order, else the import fails. */
HYBM_API hybm_entity_t hybm_create_entity(uint16_t id, const hybm_options* options, uint32_t flags);
HYBM_API void hybm_destroy_entity(hybm_entity_t e, uint32_t flags);
HYBM_API int32_t hybm_reserve_mem_space(hybm_entity_t e, uint32_t flags);
/* Frees all slices, and forgets the imported ones. */
HYBM_API int32_t hybm_unreserve_mem_space(hybm_entity_t e, uint32_t flags);
/* The address of rank 0's part of this type; rank r's is at r times the maximum after it. Null: not reserved. */
HYBM_API void* hybm_get_memory_ptr(hybm_entity_t e, hybm_mem_type mType);

/* size: a multiple of 2 MiB. Slices follow each other in this rank's part. */
HYBM_API hybm_mem_slice_t hybm_alloc_local_memory(hybm_entity_t e, hybm_mem_type mType, uint64_t size, uint32_t flags);
/* Null: all slices. Other processes that have mapped a slice keep its memory. */
HYBM_API int32_t hybm_free_local_memory(hybm_entity_t e, hybm_mem_slice_t slice, uint32_t count, uint32_t flags);
HYBM_API void* hybm_get_slice_va(hybm_entity_t e, hybm_mem_slice_t slice);
HYBM_API uint64_t hybm_get_slice_size(hybm_entity_t e, hybm_mem_slice_t slice);
/* Memory of the caller. Copies accept any memory, registered or not; it can't be exported. */
HYBM_API hybm_mem_slice_t hybm_register_local_memory(hybm_entity_t e, const void* ptr, uint64_t size, uint32_t flags);

/* The slice must exist until all others have imported it. With HYBM_FLAG_EXPORT_ENTITY, or without a slice: the
 * entity. */
HYBM_API int32_t hybm_export(hybm_entity_t e, hybm_mem_slice_t slice, uint32_t flags, hybm_exchange_info* exInfo);
HYBM_API void hybm_export_info_free(hybm_exchange_info* exInfo);
/* All or none. addresses: null, or gets the address of each slice. */
HYBM_API int32_t hybm_import(hybm_entity_t e, const hybm_exchange_info allExInfo[], uint32_t count, void* addresses[],
                             uint32_t flags);
/* Makes the imported slices accessible, by loads and stores too. */
HYBM_API int32_t hybm_mmap(hybm_entity_t e, uint32_t flags);
/* BM_NOT_CONNECTED: one of the ranks hasn't been imported. */
HYBM_API int32_t hybm_transport_connect(hybm_entity_t e, const uint32_t* ranks, uint32_t count, uint32_t flags);
/* The opposite of hybm_mmap, for one rank or all. Afterwards an access faults. */
HYBM_API int32_t hybm_unmap_rank(hybm_entity_t e, uint32_t rankId);
HYBM_API void hybm_unmap(hybm_entity_t e, uint32_t flags);
/* Unmaps the rank's slices and forgets them. */
HYBM_API int32_t hybm_remove_imported(hybm_entity_t e, uint32_t rank, uint32_t flags);

/* MTE, SDMA and HOST_SHM if slices of the rank are accessible, else 0. */
#ifdef __cplusplus
HYBM_API int32_t hybm_entity_reach_types(hybm_entity_t e, uint32_t rank, hybm_data_op_type& reachTypes, uint32_t flags);
#else
HYBM_API int32_t hybm_entity_reach_types(hybm_entity_t e, uint32_t rank, hybm_data_op_type* reachTypes, uint32_t flags);
#endif
/* The address at which this process accesses an accessible byte of any entity: the same one. */
HYBM_API int32_t hybm_gva_to_va(uint64_t gva, hybm_mem_type vaMemType, uint64_t* va);

#ifdef __cplusplus
}
#endif
#endif
