/* MemFabric's headers in C99, as one program per form of the API: every function is declared and linked. */
#include <hybm_big_mem.h>
#include <hybm_data_op.h>
#include <smem_bm.h>
#include <smem_config_store_api.h>
#include <smem_hmc.h>
#include <smem_shm.h>
#include <smem_trans.h>
#include <stdio.h>
#include <string.h>

typedef void (*any_function)(void);
#define F(name) (any_function) name

static const any_function functions[] = {F(smem_get_abi_version),
                                         F(smem_init),
                                         F(smem_uninit),
                                         F(smem_create_config_store),
                                         F(smem_destroy_config_store),
                                         F(smem_config_store_set_tls),
                                         F(smem_config_store_create_server),
                                         F(smem_config_store_destroy_server),
                                         F(smem_config_store_set_server_broken_handler),
                                         F(smem_config_store_set_leader_handler),
                                         F(smem_config_store_get_cluster_status),
                                         F(smem_get_last_err_code),
                                         F(smem_bm_update_store_url),
                                         F(smem_bm_update_store_server),
                                         F(smem_bm_register_leader_change_callback),
                                         F(smem_bm_get_bindable_leader_address),
                                         F(smem_bm_get_bindable_leader_address_by_store_url),
                                         F(smem_bm_release_leader_address_store),
                                         F(smem_bm_set_group_event_handler),
                                         F(smem_bm_extend_local_mem),
                                         F(smem_bm_gva_to_va),
                                         F(smem_shm_get_symmetric_size),
                                         F(smem_trans_set_peer_down_callback),
                                         F(smem_set_extern_logger),
                                         F(smem_set_log_level),
                                         F(smem_get_last_err_msg),
                                         F(smem_get_and_clear_last_err_msg),
                                         F(smem_set_conf_store_tls),
                                         F(smem_set_config_store_tls_key),
                                         F(smem_set_device_memory),
                                         F(smem_bm_config_init),
                                         F(smem_bm_init),
                                         F(smem_bm_uninit),
                                         F(smem_bm_get_rank_id),
                                         F(smem_bm_create),
                                         F(smem_bm_create2),
                                         F(smem_bm_destroy),
                                         F(smem_bm_join),
                                         F(smem_bm_leave),
                                         F(smem_bm_get_local_mem_size_by_mem_type),
                                         F(smem_bm_ptr_by_mem_type),
                                         F(smem_bm_get_rank_id_by_gva),
                                         F(smem_bm_get_local_mem_size),
                                         F(smem_bm_ptr),
                                         F(smem_bm_copy),
                                         F(smem_bm_copy_batch),
                                         F(smem_bm_copy_2d),
                                         F(smem_bm_wait),
                                         F(smem_bm_register_user_mem),
                                         F(smem_bm_unregister_user_mem),
                                         F(smem_bm_path),
                                         F(smem_bm_has_one_address_space),
                                         F(smem_bm_barrier),
                                         F(smem_bm_get_counter),
                                         F(smem_shm_config_init),
                                         F(smem_shm_init),
                                         F(smem_shm_uninit),
                                         F(smem_shm_query_support_data_operation),
                                         F(smem_shm_create),
                                         F(smem_shm_destroy),
                                         F(smem_shm_get_global_rank),
                                         F(smem_shm_get_global_rank_size),
                                         F(smem_shm_set_extra_context),
                                         F(smem_shm_get_extra_context),
                                         F(smem_shm_topology_can_reach),
                                         F(smem_shm_control_barrier),
                                         F(smem_shm_control_allgather),
                                         F(smem_shm_subgroup_barrier),
                                         F(smem_shm_subgroup_allgather),
                                         F(smem_shm_atomic_alloc_value),
                                         F(smem_shm_atomic_release_value),
                                         F(smem_shm_register_exit),
                                         F(smem_shm_global_exit),
                                         F(smem_shm_ptr),
                                         F(smem_shm_copy),
                                         F(smem_trans_config_init),
                                         F(smem_trans_init),
                                         F(smem_trans_uninit),
                                         F(smem_trans_create),
                                         F(smem_trans_destroy),
                                         F(smem_trans_malloc),
                                         F(smem_trans_free),
                                         F(smem_trans_register_mem),
                                         F(smem_trans_batch_register_mem),
                                         F(smem_trans_deregister_mem),
                                         F(smem_trans_write),
                                         F(smem_trans_batch_write),
                                         F(smem_trans_read),
                                         F(smem_trans_batch_read),
                                         F(smem_trans_write_submit),
                                         F(smem_trans_read_submit),
                                         F(smem_trans_batch_write_submit),
                                         F(smem_trans_batch_read_submit),
                                         F(hybm_alloc_local_memory),
                                         F(hybm_create_entity),
                                         F(hybm_data_batch_copy),
                                         F(hybm_data_copy),
                                         F(hybm_destroy_entity),
                                         F(hybm_entity_reach_types),
                                         F(hybm_export),
                                         F(hybm_export_info_free),
                                         F(hybm_free_local_memory),
                                         F(hybm_get_error_string),
                                         F(hybm_get_memory_ptr),
                                         F(hybm_get_slice_size),
                                         F(hybm_get_slice_va),
                                         F(hybm_gva_to_va),
                                         F(hybm_import),
                                         F(hybm_init),
                                         F(hybm_mmap),
                                         F(hybm_register_local_memory),
                                         F(hybm_remove_imported),
                                         F(hybm_reserve_mem_space),
                                         F(hybm_set_extern_logger),
                                         F(hybm_set_log_level),
                                         F(hybm_transport_connect),
                                         F(hybm_uninit),
                                         F(hybm_unmap),
                                         F(hybm_unmap_rank),
                                         F(hybm_unreserve_mem_space),
                                         F(hybm_wait)};

int main(void) {
  size_t i;
  int32_t result;
  for (i = 0; i < sizeof functions / sizeof functions[0]; ++i)
    if (functions[i] == NULL) return 1;
#ifdef SMEM_FIRST_RELEASE
  result = smem_bm_copy(NULL, "a", NULL, 1, SMEMB_COPY_H2G, 0);
#else
  result = smem_bm_copy(NULL, &(smem_copy_params){"a", NULL, 1, NULL}, SMEMB_COPY_H2G, 0);
#endif
  if (result != SMEM_INVALID_PARAM || strstr(smem_get_last_err_msg(), "smem_bm_copy") == NULL) return 2;
  printf("%s\n", smem_get_last_err_msg());
  if (smem_create_config_store(NULL) != SMEM_INVALID_PARAM) return 4; /* the flags may be omitted */
  if (smem_create_config_store(NULL, SMEM_STORE_SKIP_RECOVER) != SMEM_INVALID_PARAM) return 4;
  if (smem_get_last_err_code() != SMEM_INVALID_PARAM || smem_get_abi_version() != ((1U << 16) | 3U)) return 5;
  return smem_init(0) == SMEM_OK && smem_init(1) == SMEM_INVALID_PARAM ? 0 : 3;
}
