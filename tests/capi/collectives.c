#include <string.h>

#include "tests/capi/check.h"

/* Keeps the larger absolute value, and counts its calls through the context. */
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
  for (i = 0; i < count; ++i) in[i] = (double)(rank + 1) * (double)(i + 1);
  OK(hmc_allreduce(world, in, out, count, HMC_F64, HMC_SUM));
  for (i = 0; i < count; ++i) CHECK(out[i] == (double)(size * (size + 1) / 2) * (double)(i + 1));
  OK(hmc_allreduce(world, in, in, count, HMC_F64, HMC_MAX)); /* in place */
  for (i = 0; i < count; ++i) CHECK(in[i] == (double)size * (double)(i + 1));

  for (i = 0; i < count; ++i) numbers[i] = (rank % 2 == 0 ? 1 : -1) * (int32_t)((size_t)rank * count + i);
  OK(hmc_allreduce_user(world, numbers, numbers, count, HMC_I32, larger_magnitude, &calls));
  for (i = 0; i < count; ++i) {
    CHECK(numbers[i] == ((size - 1) % 2 == 0 ? 1 : -1) * (int32_t)((size_t)(size - 1) * count + i));
  }
  CHECK(size == 1 || calls > 0);
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
}
