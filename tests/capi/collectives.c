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
  int calls = 0, calls_of_all = 0;
  const hmc_reduction by_max = hmc_reduction_of(HMC_MAX);
  hmc_reduction by_magnitude = {0};
  hmc_request_t request = {0};
  by_magnitude.struct_size = sizeof by_magnitude;
  by_magnitude.function = larger_magnitude;
  by_magnitude.context = &calls;
  for (i = 0; i < count; ++i) in[i] = (double)(rank + 1) * (double)(i + 1);
  OK(hmc_allreduce(world, in, out, count, HMC_F64, NULL)); /* sum */
  for (i = 0; i < count; ++i) CHECK(out[i] == (double)(size * (size + 1) / 2) * (double)(i + 1));
  OK(hmc_allreduce(world, in, in, count, HMC_F64, &by_max)); /* in place */
  /* Overlapping buffers are an error. The _on forms are unsupported: neither buffer is in device memory. */
  CHECK(hmc_allreduce(world, in, in + 1, count - 1, HMC_F64, &by_max) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_iscan(world, in + 1, in, count - 1, HMC_F64, &by_max, &request) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_allreduce_on(world, NULL, in, out, count, HMC_F64, HMC_SUM) == HMC_UNSUPPORTED);
  CHECK(hmc_barrier_on(world, NULL, in) == HMC_UNSUPPORTED);
  for (i = 0; i < count; ++i) CHECK(in[i] == (double)size * (double)(i + 1));

  for (i = 0; i < count; ++i) numbers[i] = (rank % 2 == 0 ? 1 : -1) * (int32_t)((size_t)rank * count + i);
  OK(hmc_allreduce(world, numbers, numbers, count, HMC_I32, &by_magnitude));
  for (i = 0; i < count; ++i) {
    CHECK(numbers[i] == ((size - 1) % 2 == 0 ? 1 : -1) * (int32_t)((size_t)(size - 1) * count + i));
  }
  OK(hmc_allreduce(world, &calls, &calls_of_all, 1, HMC_I32, NULL)); /* not every rank of a schedule reduces */
  CHECK(size == 1 || calls_of_all > 0);
}

static void check_located(void) {
  hmc_located_f64 mine, most;
  hmc_located_i32 pair, least;
  const hmc_reduction maxloc = hmc_reduction_of(HMC_MAXLOC), minloc = hmc_reduction_of(HMC_MINLOC);
  const hmc_reduction min = hmc_reduction_of(HMC_MIN);
  mine.value = rank == 0 ? 7.0 : 8.0; /* ranks from 1 on have equal values: the lowest index wins */
  mine.index = 100 + rank;
  OK(hmc_allreduce(world, &mine, &most, 1, HMC_LOCATED_F64, &maxloc));
  CHECK(most.value == (size == 1 ? 7.0 : 8.0) && most.index == (size == 1 ? 100 : 101));
  pair.value = -rank;
  pair.index = 5;
  OK(hmc_allreduce(world, &pair, &least, 1, HMC_LOCATED_I32, &minloc));
  CHECK(least.value == 1 - size && least.index == 5);
  CHECK(hmc_allreduce(world, &pair, &least, 1, HMC_LOCATED_I32, &min) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_allreduce(world, &pair, &least, 1, HMC_I32, &minloc) == HMC_INVALID_ARGUMENT);
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

/* A number that depends on both ranks, the element and the run. */
static int64_t number(int from, int to, int i, int run) {
  return 1000000 * (int64_t)from + 10000 * (int64_t)to + 100 * (int64_t)run + i;
}
static int64_t sum_of_numbers(int to, int i, int run) {
  int64_t sum = 0;
  int from;
  for (from = 0; from < size; ++from) sum += number(from, to, i, run);
  return sum;
}

static void run_plan(hmc_plan_t plan) {
  int done = 0;
  OK(hmc_plan_start(plan));
  OK(hmc_plan_wait(plan, -1));
  OK(hmc_plan_test(plan, &done));
  CHECK(done == 1);
}

/* Blocks lie in descending rank order with gaps, so a plan that ignores displacements fails. */
enum { most_ranks = 8, most_numbers = 8 * most_ranks };
static size_t count_of(int from, int to) { return (size_t)(1 + (from + 2 * to) % 3); }
static void spread(size_t* displacements) {
  int i;
  for (i = 0; i < size; ++i) displacements[i] = (size_t)(5 * (size - 1 - i) + 1);
}
static void mark_untouched(int64_t* numbers) {
  int i;
  for (i = 0; i < most_numbers; ++i) numbers[i] = -1;
}
/* Checks one block per rank at the displacements, and that the rest is untouched. */
static void check_spread(const int64_t* got, const size_t* counts, const size_t* displacements, int to, int run) {
  int64_t expected[most_numbers];
  int from, i;
  mark_untouched(expected);
  for (from = 0; from < size; ++from)
    for (i = 0; i < (int)counts[from]; ++i) expected[(int)displacements[from] + i] = number(from, to, i, run);
  for (i = 0; i < most_numbers; ++i) CHECK(got[i] == expected[i]);
}

static void check_plans_of_blocks(void) {
  int64_t in[3] = {0}, out[most_numbers], all[most_numbers], into[most_numbers];
  size_t counts[most_ranks], displacements[most_ranks], received[most_ranks], from[most_ranks];
  const int root = size - 1;
  hmc_plan_t gatherv, scatterv, allgatherv, alltoallv;
  int run, i, k;
  spread(displacements);
  for (i = 0; i < size; ++i) counts[i] = count_of(i, i);
  OK(hmc_plan_gatherv(world, in, out, counts, displacements, root, sizeof in[0], &gatherv));
  OK(hmc_plan_allgatherv(world, in, all, counts, displacements, sizeof in[0], &allgatherv));
  OK(hmc_plan_scatterv(world, all, in, counts, displacements, root, sizeof in[0], &scatterv));
  for (i = 0; i < size; ++i) {
    counts[i] = count_of(rank, i);
    received[i] = count_of(i, rank);
    from[i] = displacements[size - 1 - i];
  }
  OK(hmc_plan_alltoallv(world, all, counts, displacements, into, received, from, 3, sizeof in[0], &alltoallv));
  for (run = 0; run < 3; ++run) {
    for (i = 0; i < size; ++i) counts[i] = count_of(i, i);
    for (i = 0; i < 3; ++i) in[i] = number(rank, 0, i, run);
    mark_untouched(out);
    mark_untouched(all);
    mark_untouched(into);
    run_plan(gatherv);
    if (rank == root) check_spread(out, counts, displacements, 0, run);
    run_plan(allgatherv);
    check_spread(all, counts, displacements, 0, run);

    for (i = 0; i < size && rank == root; ++i)
      for (k = 0; k < (int)counts[i]; ++k) all[(int)displacements[i] + k] = number(root, i, k, run);
    in[0] = in[1] = in[2] = -1;
    run_plan(scatterv);
    for (k = 0; k < 3; ++k) CHECK(in[k] == (k < (int)counts[rank] ? number(root, rank, k, run) : -1));

    for (i = 0; i < size; ++i)
      for (k = 0; k < (int)count_of(rank, i); ++k) all[(int)displacements[i] + k] = number(rank, i, k, run);
    run_plan(alltoallv);
    check_spread(into, received, from, rank, run);
  }
  hmc_plan_destroy(gatherv);
  hmc_plan_destroy(allgatherv);
  hmc_plan_destroy(scatterv);
  hmc_plan_destroy(alltoallv);
  hmc_plan_destroy(NULL);
}

static void check_plans_of_reductions(void) {
  int64_t in[most_numbers] = {0}, sums[3] = {0}, part[3];
  int32_t mine[2] = {0}, most[2];
  size_t counts[most_ranks];
  int calls = 0, done = -1, run, i, k, at;
  hmc_plan_t allreduce, reduce_scatterv, by_function, broadcast, barrier;
  hmc_reduction how = {0};
  how.struct_size = sizeof how;
  how.function = larger_magnitude;
  how.context = &calls;
  for (i = 0; i < size; ++i) counts[i] = count_of(i, 0);
  OK(hmc_plan_barrier(world, &barrier));
  OK(hmc_plan_allreduce(world, in, sums, 3, HMC_I64, NULL, &allreduce));
  OK(hmc_plan_reduce_scatterv(world, in, part, counts, HMC_I64, NULL, &reduce_scatterv));
  OK(hmc_plan_allreduce(world, mine, most, 2, HMC_I32, &how, &by_function));
  OK(hmc_plan_broadcast(world, sums, sizeof sums, 0, &broadcast));
  how.function = NULL; /* a plan keeps its own copy */
  OK(hmc_plan_test(barrier, &done));
  CHECK(done == 1);
  for (run = 0; run < 3; ++run) {
    for (at = 0, i = 0; i < size; ++i)
      for (k = 0; k < (int)counts[i]; ++k) in[at++] = number(rank, i, k, run);
    for (; at < 3; ++at) in[at] = 0;
    run_plan(reduce_scatterv);
    for (k = 0; k < (int)counts[rank]; ++k) CHECK(part[k] == sum_of_numbers(rank, k, run));
    for (i = 0; i < 3; ++i) in[i] = number(rank, 5, i, run);
    run_plan(allreduce);
    for (i = 0; i < 3; ++i) CHECK(sums[i] == sum_of_numbers(5, i, run));
    mine[0] = -rank - run;
    mine[1] = 7;
    run_plan(by_function);
    CHECK(most[0] == 1 - size - run && most[1] == 7);
    for (i = 0; i < 3; ++i) sums[i] = number(rank, 6, i, run);
    run_plan(broadcast);
    for (i = 0; i < 3; ++i) CHECK(sums[i] == number(0, 6, i, run));
    run_plan(barrier);
  }
  CHECK(hmc_plan_allreduce(world, in, sums, 3, HMC_I64, NULL, NULL) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_plan_start(NULL) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_plan_gatherv(world, in, sums, NULL, NULL, 0, 8, &allreduce) == HMC_INVALID_ARGUMENT);
  hmc_plan_destroy(allreduce);
  hmc_plan_destroy(reduce_scatterv);
  hmc_plan_destroy(by_function);
  hmc_plan_destroy(broadcast);
  hmc_plan_destroy(barrier);
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
  CHECK(size <= most_ranks);
  check_plans_of_blocks();
  check_plans_of_reductions();
}
