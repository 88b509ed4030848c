/* The C ABI. Each rank puts a number to its right neighbour, then all ranks sum the numbers. */
#include <stdio.h>
#include <stdlib.h>

#include <hmc/hmc_c.h>

static void need(hmc_code code) {
  if (code == HMC_SUCCESS) return;
  fprintf(stderr, "%s\n", hmc_last_error());
  exit(1); /* the launcher ends the other ranks */
}

int main(void) {
  hmc_runtime_t runtime;
  hmc_window_t window;
  hmc_team_t world;
  int64_t mine, sum = 0;
  uint64_t from_left = 0;
  void* data;
  int rank, size;

  need(hmc_runtime_create(&runtime));
  world = hmc_runtime_world(runtime);
  rank = hmc_runtime_rank(runtime);
  size = hmc_runtime_size(runtime);

  need(hmc_window_create(world, 4096, &window));
  need(hmc_window_data(window, &data));
  mine = 100 + rank;
  need(hmc_put_signal(window, (rank + 1) % size, 0, &mine, sizeof mine, 64, 1));
  need(hmc_wait_until(window, 64, HMC_GE, 1, HMC_JOB_TIMEOUT, NULL));
  from_left = *(const uint64_t*)data;

  need(hmc_allreduce(world, &mine, &sum, 1, HMC_I64, NULL));
  printf("rank %d of %d: %d from the left, sum %d\n", rank, size, (int)from_left, (int)sum);

  need(hmc_window_close(window));
  hmc_window_destroy(window);
  need(hmc_runtime_close(runtime));
  hmc_runtime_destroy(runtime);
  return from_left == (uint64_t)(100 + (rank + size - 1) % size) && sum == size * (199 + size) / 2 ? 0 : 1;
}
