#include <string.h>

#include "tests/capi/check.h"

/* Selects the larger absolute value. Counts its calls in `context`. */
static void larger_magnitude(void* accumulated, const void* next, size_t count, hmc_dtype type, void* context) {
  int32_t* into = accumulated;
  const int32_t* from = next;
  size_t i;
  if (type != HMC_I32) return;
  for (i = 0; i < count; ++i) {
    if (abs(from[i]) > abs(into[i])) into[i] = from[i];
  }
  ++*(int*)context;
}

static void check_allreduce(void) {
  enum { count = 1000 };
  static double in[count], out[count];
  static int32_t numbers[count];
  size_t i;
  int calls = 0;
  hmc_reduction by_max = {0};
  hmc_request_t request = {0};
  by_max.struct_size = sizeof by_max;
  by_max.op = HMC_MAX;
  for (i = 0; i < count; ++i) in[i] = (double)(rank + 1) * (double)(i + 1);
  OK(hmc_allreduce(world, in, out, count, HMC_F64, HMC_SUM));
  for (i = 0; i < count; ++i) CHECK(out[i] == (double)(size * (size + 1) / 2) * (double)(i + 1));
  OK(hmc_allreduce(world, in, in, count, HMC_F64, HMC_MAX)); /* in place */
  /* Overlapping buffers are an error. The _on forms are unsupported: neither buffer is in device memory. */
  CHECK(hmc_allreduce(world, in, in + 1, count - 1, HMC_F64, HMC_MAX) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_iscan(world, in + 1, in, count - 1, HMC_F64, &by_max, &request) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_allreduce_on(world, NULL, in, out, count, HMC_F64, HMC_SUM) == HMC_UNSUPPORTED);
  CHECK(hmc_barrier_on(world, NULL, in) == HMC_UNSUPPORTED);
  for (i = 0; i < count; ++i) CHECK(in[i] == (double)size * (double)(i + 1));

  for (i = 0; i < count; ++i) numbers[i] = (rank % 2 == 0 ? 1 : -1) * (int32_t)((size_t)rank * count + i);
  OK(hmc_allreduce_user(world, numbers, numbers, count, HMC_I32, larger_magnitude, &calls));
  for (i = 0; i < count; ++i) {
    CHECK(numbers[i] == ((size - 1) % 2 == 0 ? 1 : -1) * (int32_t)((size_t)(size - 1) * count + i));
  }
  CHECK(size == 1 || calls > 0);
}

static void check_located(void) {
  hmc_located_f64 mine, most;
  hmc_located_i32 pair, least;
  mine.value = rank == 0 ? 7.0 : 8.0; /* ranks from 1 on have equal values: the lowest index wins */
  mine.index = 100 + rank;
  OK(hmc_allreduce(world, &mine, &most, 1, HMC_LOCATED_F64, HMC_MAXLOC));
  CHECK(most.value == (size == 1 ? 7.0 : 8.0) && most.index == (size == 1 ? 100 : 101));
  pair.value = -rank;
  pair.index = 5;
  OK(hmc_allreduce(world, &pair, &least, 1, HMC_LOCATED_I32, HMC_MINLOC));
  CHECK(least.value == 1 - size && least.index == 5);
  CHECK(hmc_allreduce(world, &pair, &least, 1, HMC_LOCATED_I32, HMC_MIN) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_allreduce(world, &pair, &least, 1, HMC_I32, HMC_MINLOC) == HMC_INVALID_ARGUMENT);
}

static void check_blocks(void) {
  int64_t in[64], out[64], sum = 0;
  size_t counts[64];
  int i;
  for (i = 0; i < size; ++i) in[i] = 1000 * rank + i;
  OK(hmc_alltoall(world, in, out, sizeof in[0]));
  for (i = 0; i < size; ++i) CHECK(out[i] == 1000 * i + rank);
  for (i = 0; i < size; ++i) counts[i] = i % 2 == 0 ? 1 : 0;
  OK(hmc_allgatherv(world, in, out, counts, NULL, sizeof in[0]));
  for (i = 0; i < size; i += 2) CHECK(out[i / 2] == 1000 * i);
  OK(hmc_gather(world, &in[0], out, sizeof in[0], 0));
  for (i = 0; i < size && rank == 0; ++i) CHECK(out[i] == 1000 * i);
  CHECK(hmc_gatherv(world, in, out, NULL, NULL, 0, 8) == HMC_INVALID_ARGUMENT);

  hmc_reduction how = {0};
  how.struct_size = sizeof how;
  OK(hmc_reduce_scatter(world, in, &sum, 1, HMC_I64, &how));
  CHECK(sum == 500 * size * (size - 1) + (int64_t)size * rank);
  OK(hmc_scan(world, &in[0], &sum, 1, HMC_I64, &how));
  CHECK(sum == 500 * rank * (rank + 1));
}

static void check_non_blocking(void) {
  int32_t mine[3] = {rank, -rank, 7}, most[3] = {0}, calls = 0;
  hmc_request_t requests[2] = {{0}};
  hmc_reduction how = {0};
  how.struct_size = sizeof how;
  how.function = larger_magnitude;
  how.context = &calls;
  OK(hmc_iallreduce(world, mine, most, 3, HMC_I32, &how, &requests[0]));
  OK(hmc_ibarrier(world, &requests[1]));
  OK(hmc_request_wait_all(requests, 2, -1));
  CHECK(most[0] == size - 1 && most[1] == 1 - size && most[2] == 7);
}

void test_collectives(void) {
  static int64_t all[64];
  int64_t mine = 100 + rank;
  char text[24] = "";
  int root, i;

  OK(hmc_barrier(world));
  CHECK(size <= 64);
  OK(hmc_allgather(world, &mine, all, sizeof mine));
  for (i = 0; i < size; ++i) CHECK(all[i] == 100 + i);

  for (root = 0; root < size; ++root) {
    if (rank == root) snprintf(text, sizeof text, "said by rank %d", root);
    OK(hmc_broadcast(world, text, sizeof text, root));
    CHECK(atoi(text + strlen("said by rank ")) == root);
  }
  CHECK(hmc_broadcast(world, text, sizeof text, size) == HMC_BAD_RANK);
  check_allreduce();
  check_located();
  check_blocks();
  check_non_blocking();
}
