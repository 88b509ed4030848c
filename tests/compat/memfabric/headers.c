/* MemFabric's headers in C99, as one program per form of the API: every function is declared and linked. */
#include <smem_bm.h>
#include <smem_hmc.h>
#include <smem_shm.h>
#include <smem_trans.h>
#include <stdio.h>
#include <string.h>

typedef void (*any_function)(void);
#define F(name) (any_function) name

static const any_function functions[] = {F(smem_init),
                                         F(smem_uninit),
                                         F(smem_create_config_store),
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
                                         F(smem_trans_batch_read_submit)};

int main(void) {
  size_t i;
  int32_t result;
  for (i = 0; i < sizeof functions / sizeof functions[0]; ++i)
    if (functions[i] == NULL) return 1;
#ifdef SMEM_FIRST_RELEASE
  result = smem_bm_copy(NULL, "a", NULL, 1, SMEMB_COPY_H2G, 0);
#else
  result = smem_bm_copy(NULL, &(smem_copy_params){"a", NULL, 1}, SMEMB_COPY_H2G, 0);
#endif
  if (result != SMEM_INVALID_PARAM || strstr(smem_get_last_err_msg(), "smem_bm_copy") == NULL) return 2;
  printf("%s\n", smem_get_last_err_msg());
  return smem_init(0) == SMEM_OK && smem_init(1) == SMEM_INVALID_PARAM ? 0 : 3;
}
