#include <string.h>

#include "tests/capi/check.h"

void test_runtime(void) {
  hmc_path path = {sizeof path, 0, 0, "", "", -1, -1};
  hmc_counters counters;
  int peer;

  CHECK(size >= 1 && rank >= 0 && rank < size);
  CHECK(hmc_team_rank(world) == rank && hmc_team_size(world) == size);
  CHECK(hmc_runtime_node_count(runtime) >= 1);
  CHECK(hmc_runtime_node_of(runtime, rank) == hmc_runtime_node(runtime));
  CHECK(hmc_runtime_node_of(runtime, size) == -1);
  CHECK(hmc_runtime_timeout_ns(runtime) > 0);
  CHECK(hmc_runtime_launcher(runtime)[0] != '\0');
  CHECK(strcmp(hmc_version(), "") != 0);

  for (peer = 0; peer < size; ++peer) {
    OK(hmc_runtime_path(runtime, peer, &path));
    CHECK(path.struct_size == sizeof path && path.wire[0] != '\0' && path.why[0] != '\0');
    CHECK(path.gigabytes_per_s == 0 && path.latency_us == 0);
  }
  /* A struct without the measured values, as in an older version. */
  path.struct_size = offsetof(hmc_path, gigabytes_per_s);
  path.gigabytes_per_s = -3;
  OK(hmc_runtime_path(runtime, 0, &path));
  CHECK(path.gigabytes_per_s == -3 && path.struct_size == offsetof(hmc_path, gigabytes_per_s));

  /* A program compiled with an older, shorter struct gets only the fields of that version. */
  memset(&counters, 0x5a, sizeof counters);
  counters.struct_size = offsetof(hmc_counters, puts_wire);
  OK(hmc_runtime_counters(runtime, &counters));
  CHECK(counters.puts_direct != UINT64_C(0x5a5a5a5a5a5a5a5a));
  CHECK(counters.puts_wire == UINT64_C(0x5a5a5a5a5a5a5a5a));
  counters.struct_size = 0;
  CHECK(hmc_runtime_counters(runtime, &counters) == HMC_INVALID_ARGUMENT);
}

/* A store with one key. */
typedef struct one_key {
  char key[64];
  char value[1024];
} one_key;

static int store_set(void* context, const char* key, const char* value) {
  one_key* const store = context;
  if (strlen(key) >= sizeof store->key || strlen(value) >= sizeof store->value) return 1;
  strcpy(store->key, key);
  strcpy(store->value, value);
  return 0;
}

static int store_get(void* context, const char* key, int64_t timeout_ns, char* value, size_t capacity) {
  const one_key* const store = context;
  (void)timeout_ns;
  if (strcmp(key, store->key) != 0 || strlen(store->value) >= capacity) return 2;
  strcpy(value, store->value);
  return 0;
}

static int store_refuses(void* context, const char* key, const char* expected, const char* desired, char* value,
                         size_t capacity) {
  (void)context, (void)key, (void)expected, (void)desired;
  return capacity > 8 ? (strcpy(value, "another"), 0) : 3;
}

static void check_store(void) {
  one_key keys = {"", ""};
  hmc_store store = {sizeof store, &keys, store_set, store_get, NULL};
  hmc_runtime_t alone = NULL;

  OK(hmc_runtime_create_over_store(&store, 0, 1, &alone));
  CHECK(hmc_runtime_size(alone) == 1 && strstr(hmc_runtime_launcher(alone), "store") != NULL);
  CHECK(strncmp(keys.key, "hmc", 3) == 0 && keys.value[0] != '\0');
  OK(hmc_runtime_close(alone));
  hmc_runtime_destroy(alone);
  alone = NULL;

  CHECK(hmc_runtime_create_over_store(NULL, 0, 1, &alone) == HMC_INVALID_ARGUMENT && alone == NULL);
  CHECK(hmc_runtime_create_over_store(&store, 2, 2, &alone) == HMC_INVALID_ARGUMENT && alone == NULL);
  keys.key[0] = '\0';
  CHECK(hmc_runtime_create_over_store(&store, 1, 2, &alone) == HMC_ERROR && strstr(hmc_last_error(), "get") != NULL);
  store.compare_set = store_refuses;
  CHECK(hmc_runtime_create_over_store(&store, 0, 1, &alone) == HMC_INVALID_CONFIG && alone == NULL);
  store.set = NULL;
  CHECK(hmc_runtime_create_over_store(&store, 0, 1, &alone) == HMC_INVALID_ARGUMENT && alone == NULL);
}

static void check_vocabulary(void) {
  CHECK(hmc_dtype_size(HMC_BF16) == 2 && hmc_dtype_size(HMC_F64) == 8 && hmc_dtype_size((hmc_dtype)18) == 0);
  CHECK(hmc_dtype_size(HMC_E4M3) == 1 && hmc_dtype_size(HMC_LOCATED_F64) == sizeof(hmc_located_f64));
  CHECK(strcmp(hmc_dtype_name(HMC_F32), "f32") == 0 && strcmp(hmc_op_name(HMC_BXOR), "bxor") == 0);
  CHECK(strcmp(hmc_code_name(HMC_OUT_OF_RANGE), "out_of_range") == 0);
  CHECK(hmc_f16_from_float(1.5f) == 0x3e00 && hmc_f16_to_float(0x3e00) == 1.5f);
  CHECK(hmc_e4m3_from_float(448.0f) == 0x7e && hmc_e4m3_to_float(0x7e) == 448.0f);
  CHECK(hmc_e5m2_from_float(-2.0f) == 0xc0 && hmc_e5m2_to_float(0xc0) == -2.0f);
  CHECK(hmc_bf16_from_float(-2.0f) == 0xc000 && hmc_bf16_to_float(0xc000) == -2.0f);
}

void test_errors(void) {
  hmc_error_detail detail;
  hmc_window_t window = NULL;
  hmc_reduction by;
  char byte = 1;

  check_vocabulary();
  check_store();
  CHECK(hmc_put(NULL, 0, 0, &byte, 1) == HMC_INVALID_ARGUMENT);
  CHECK(strstr(hmc_last_error(), "put") != NULL);
  CHECK(hmc_window_create(NULL, 64, &window) == HMC_INVALID_ARGUMENT && window == NULL);
  CHECK(hmc_window_create(world, 64, NULL) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_runtime_create(NULL) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_runtime_close(NULL) == HMC_INVALID_ARGUMENT);
  hmc_runtime_destroy(NULL);
  hmc_window_destroy(NULL);
  hmc_buffer_destroy(NULL);
  CHECK(hmc_runtime_rank(NULL) == -1 && hmc_team_size(NULL) == -1 && hmc_runtime_world(NULL) == NULL);

  OK(hmc_window_create(world, 4096, &window));
  CHECK(hmc_put(window, rank, 4090, &byte, 7) == HMC_OUT_OF_RANGE);
  detail.struct_size = sizeof detail;
  OK(hmc_last_error_detail(&detail));
  CHECK(detail.code == HMC_OUT_OF_RANGE && detail.peer == rank && detail.has_extent);
  CHECK(detail.offset == 4090 && detail.size == 7);
  CHECK(strstr(hmc_last_error(), "4090") != NULL);
  CHECK(hmc_put(window, rank, UINT64_MAX, &byte, 2) == HMC_OUT_OF_RANGE);
  CHECK(hmc_put(window, size, 0, &byte, 1) == HMC_BAD_RANK);
  CHECK(hmc_put(window, -1, 0, &byte, 1) == HMC_BAD_RANK);
  CHECK(hmc_put(window, rank, 0, NULL, 1) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_add_64(window, rank, 4, 1) == HMC_MISALIGNED);
  CHECK(hmc_wait_until(window, 0, (hmc_cmp)6, 0, 0, NULL) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_allreduce(world, &byte, &byte, 1, (hmc_dtype)18, NULL) == HMC_INVALID_ARGUMENT);
  by = hmc_reduction_of((hmc_op)10);
  CHECK(hmc_allreduce(world, &byte, &byte, 1, HMC_U8, &by) == HMC_INVALID_ARGUMENT);
  OK(hmc_window_close(window));
  CHECK(!hmc_window_is_open(window));
  CHECK(hmc_put(window, rank, 0, &byte, 1) == HMC_CLOSED);
  hmc_window_destroy(window);
}
