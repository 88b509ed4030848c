/* <smem_shm.h>: memory of the same size on each rank. Each rank tells all others by its extra context how far it shifts
 * its numbers; it puts them that far to the right, and gets them back.
 *
 *   hmcrun -np 4 11_shared_memory
 *   11_shared_memory tcp://127.0.0.1:8571 4 0   in 4 terminals, the last number is the rank; rank 0 serves the store */
#include <smem_hmc.h>
#include <smem_shm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_PER_RANK (2u << 20)
#define COUNT 1000u

struct context {
  uint32_t rank;
  uint32_t shift;
};

static void need(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "%s: %s\n", what, smem_get_last_err_msg());
  exit(1);
}

static uint32_t argument(int argc, char** argv, int i, const char* variable) {
  const char* text = argc > i ? argv[i] : getenv(variable);
  return text != NULL ? (uint32_t)atoi(text) : 0;
}

int main(int argc, char** argv) {
  const char* url = argc > 1 ? argv[1] : "hmc://";
  const uint32_t size = argument(argc, argv, 2, "HMC_SIZE");
  const uint32_t rank = argument(argc, argv, 3, "HMC_RANK");
  uint32_t numbers[COUNT], back[COUNT];
  uint32_t from, i, room, received = 0;
  smem_shm_config_t config;
  smem_shm_t memory;
  struct context context;
  void* gva = NULL;
  char* target;

  need(smem_shm_config_init(&config) == SMEM_OK, "smem_shm_config_init");
  need(smem_shm_init(url, size, rank, 0, &config) == SMEM_OK, "smem_shm_init");
  memory = smem_shm_create(0, size, rank, BYTES_PER_RANK, SMEMS_DATA_OP_MTE, 0, &gva);
  need(memory != NULL, "smem_shm_create");

  context.rank = rank;
  context.shift = 1 + rank % 2;
  need(smem_shm_set_extra_context(memory, &context, sizeof context) == SMEM_OK, "smem_shm_set_extra_context");
  for (i = 0; i < COUNT; ++i) numbers[i] = rank * 10007u + i;
  /* Each source has its own place at the target. */
  target = (char*)gva + (size_t)((rank + context.shift) % size) * BYTES_PER_RANK + rank * sizeof numbers;
  need(smem_shm_copy(memory, target, numbers, sizeof numbers) == SMEM_OK, "put");
  need(smem_shm_control_barrier(memory) == SMEM_OK, "smem_shm_control_barrier");

  for (from = 0; from < size; ++from) {
    room = sizeof context;
    need(smem_shm_get_extra_context(memory, from, &context, &room) == SMEM_OK, "smem_shm_get_extra_context");
    if ((from + context.shift) % size != rank) continue;
    need(smem_shm_copy(memory, back, (char*)gva + (size_t)rank * BYTES_PER_RANK + from * sizeof back, sizeof back) ==
             SMEM_OK,
         "read of the own memory");
    for (i = 0; i < COUNT; ++i) need(back[i] == from * 10007u + i, "a number of another rank is wrong");
    ++received;
  }
  need(smem_shm_copy(memory, back, target, sizeof back) == SMEM_OK, "get");
  need(memcmp(back, numbers, sizeof back) == 0, "the numbers that came back are wrong");
  printf("rank %u of %u: numbers of %u ranks, and its own came back\n", (unsigned)rank, (unsigned)size,
         (unsigned)received);

  need(smem_shm_control_barrier(memory) == SMEM_OK, "smem_shm_control_barrier");
  smem_shm_destroy(memory, 0);
  smem_uninit();
  return 0;
}
