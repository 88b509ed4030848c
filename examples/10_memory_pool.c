/* <smem_bm.h>: a pool of host and device memory. Each process copies its numbers into its own device part, and from
 * there into both parts of the next member, which verifies them.
 *
 *   hmcrun -np 4 10_memory_pool
 *   10_memory_pool tcp://127.0.0.1:8570 4       in 4 terminals: one of the processes serves the store */
#include <smem_bm.h>
#include <smem_hmc.h>
#include <stdio.h>
#include <stdlib.h>

#define PART_BYTES (4u << 20)
#define COUNT 500000u

static void need(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "%s: %s\n", what, smem_get_last_err_msg());
  exit(1);
}

static uint32_t number(uint32_t rank, uint32_t i) { return rank * 1000003u + i * 7u; }

static void verify(const uint32_t* numbers, uint32_t rank, const char* where) {
  uint32_t i;
  for (i = 0; i < COUNT; ++i) {
    if (numbers[i] == number(rank, i)) continue;
    fprintf(stderr, "number %u in the %s part is wrong\n", i, where);
    exit(1);
  }
}

static void copy(smem_bm_t pool, const void* from, void* to, smem_bm_copy_type type) {
  smem_copy_params params;
  params.src = from;
  params.dest = to;
  params.dataSize = COUNT * sizeof(uint32_t);
  need(smem_bm_copy(pool, &params, type, 0) == SMEM_OK, "smem_bm_copy");
}

int main(int argc, char** argv) {
  const char* url = argc > 1 ? argv[1] : "hmc://";
  const char* size_text = argc > 2 ? argv[2] : getenv("HMC_SIZE");
  const uint32_t size = size_text != NULL ? (uint32_t)atoi(size_text) : 0;
  uint32_t* numbers = malloc(COUNT * sizeof *numbers);
  uint32_t rank, i;
  uint16_t next, previous;
  smem_bm_config_t config;
  smem_bm_create_option_t option = {0};
  smem_bm_t pool;

  need(numbers != NULL && smem_bm_config_init(&config) == SMEM_OK, "smem_bm_config_init");
  need(smem_bm_init(url, size, 0, &config) == SMEM_OK, "smem_bm_init");
  rank = smem_bm_get_rank_id();
  next = (uint16_t)((rank + 1) % size);
  previous = (uint16_t)((rank + size - 1) % size);

  option.maxDramSize = option.localDRAMSize = PART_BYTES;
  option.maxHbmSize = option.localHBMSize = PART_BYTES;
  option.dataOpType = SMEMB_DATA_OP_SDMA;
  pool = smem_bm_create2(0, &option);
  need(pool != NULL, "smem_bm_create2");
  need(smem_bm_join(pool, 0) == SMEM_OK, "smem_bm_join");

  for (i = 0; i < COUNT; ++i) numbers[i] = number(rank, i);
  copy(pool, numbers, smem_bm_ptr_by_mem_type(pool, SMEM_MEM_TYPE_DEVICE, (uint16_t)rank), SMEMB_COPY_H2G);
  need(smem_bm_barrier(pool, size) == SMEM_OK, "smem_bm_barrier"); /* all are members */
  /* The second half of the device part, as the first half is the next member's source. */
  copy(pool, smem_bm_ptr_by_mem_type(pool, SMEM_MEM_TYPE_DEVICE, (uint16_t)rank),
       (char*)smem_bm_ptr_by_mem_type(pool, SMEM_MEM_TYPE_DEVICE, next) + PART_BYTES / 2, SMEMB_COPY_G2G);
  copy(pool, smem_bm_ptr_by_mem_type(pool, SMEM_MEM_TYPE_DEVICE, (uint16_t)rank),
       smem_bm_ptr_by_mem_type(pool, SMEM_MEM_TYPE_HOST, next), SMEMB_COPY_G2G);
  need(smem_bm_barrier(pool, size) == SMEM_OK, "smem_bm_barrier");

  verify(smem_bm_ptr_by_mem_type(pool, SMEM_MEM_TYPE_HOST, (uint16_t)rank), previous, "host");
  copy(pool, (char*)smem_bm_ptr_by_mem_type(pool, SMEM_MEM_TYPE_DEVICE, (uint16_t)rank) + PART_BYTES / 2, numbers,
       SMEMB_COPY_G2H);
  verify(numbers, previous, "device");
  printf("rank %u of %u: both parts have the numbers of rank %u\n", (unsigned)rank, (unsigned)size, (unsigned)previous);

  need(smem_bm_barrier(pool, size) == SMEM_OK, "smem_bm_barrier");
  smem_bm_destroy(pool);
  smem_uninit();
  free(numbers);
  return 0;
}
