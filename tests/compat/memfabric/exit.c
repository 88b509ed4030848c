/* One rank ends the job by smem_shm_global_exit(7): the handler of each rank ends its process with this status. */
#include <smem_shm.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static smem_shm_t memory;

static void handler(int status) {
  printf("the handler of process %d: %d\n", (int)getpid(), status);
  fflush(stdout);
  (void)smem_shm_control_barrier(memory); /* hmcrun ends the others at the first exit: after each handler has run */
  _exit(status);
}

int main(void) {
  const uint32_t size = (uint32_t)atoi(getenv("HMC_SIZE")), rank = (uint32_t)atoi(getenv("HMC_RANK"));
  smem_shm_config_t config;
  smem_shm_t memory;
  void* gva;
  if (smem_shm_config_init(&config) != SMEM_OK || smem_shm_init("hmc://", size, rank, 0, &config) != SMEM_OK) return 1;
  memory = smem_shm_create(0, size, rank, 2u << 20, SMEMS_DATA_OP_MTE, 0, &gva);
  if (memory == NULL || smem_shm_register_exit(memory, handler) != SMEM_OK) return 2;
  if (smem_shm_control_barrier(memory) != SMEM_OK) return 3;
  if (rank == size - 1) smem_shm_global_exit(memory, 7);
  sleep(600);
  return 4;
}
