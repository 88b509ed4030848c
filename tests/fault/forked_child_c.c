/* A child forked by a rank, in C: its calls fail, and its return from main doesn't affect the parent's job. */
#include <hmc/hmc_c.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures = 0;

static void expect(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "WRONG: %s: %s\n", what, hmc_last_error());
  ++failures;
}

static void expect_refused(hmc_code code, const char* what) {
  expect(code == HMC_CLOSED && strstr(hmc_last_error(), "forked from a rank") != NULL, what);
}

int main(void) {
  hmc_runtime_t runtime = NULL;
  hmc_window_t window = NULL;
  expect(hmc_runtime_create(&runtime) == HMC_SUCCESS, "hmc_runtime_create");
  hmc_team_t world = hmc_runtime_world(runtime);
  const int rank = hmc_runtime_rank(runtime);
  const int size = hmc_runtime_size(runtime);
  expect(hmc_window_create(world, 4096, &window) == HMC_SUCCESS, "hmc_window_create");
  const pid_t child = fork();
  double sum = 0;
  if (child == 0) {
    const uint64_t word = 1;
    expect_refused(hmc_put(window, (rank + 1) % size, 0, &word, 8), "hmc_put");
    expect_refused(hmc_barrier(world), "hmc_barrier");
    expect_refused(hmc_allreduce(world, &sum, &sum, 1, HMC_F64, NULL), "hmc_allreduce");
    expect_refused(hmc_window_close(window), "hmc_window_close");
    expect_refused(hmc_runtime_close(runtime), "hmc_runtime_close");
    hmc_window_destroy(window);
    hmc_runtime_destroy(runtime);
    return failures == 0 ? 0 : 1;
  }
  int status = -1;
  expect(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child's end");

  const uint64_t word = 100 + (uint64_t)rank;
  expect(hmc_put(window, (rank + 1) % size, 8, &word, 8) == HMC_SUCCESS, "hmc_put after the fork");
  expect(hmc_barrier(world) == HMC_SUCCESS, "hmc_barrier after the fork");
  void* data = NULL;
  expect(hmc_window_data(window, &data) == HMC_SUCCESS, "hmc_window_data");
  expect(data != NULL && ((const uint64_t*)data)[1] == 100 + (uint64_t)((rank + size - 1) % size), "the word");
  const double mine = rank + 0.5;
  expect(hmc_allreduce(world, &mine, &sum, 1, HMC_F64, NULL) == HMC_SUCCESS, "hmc_allreduce after the fork");
  expect(sum == size * size / 2.0, "the sum");
  expect(hmc_window_close(window) == HMC_SUCCESS, "hmc_window_close");
  hmc_window_destroy(window);
  expect(hmc_runtime_close(runtime) == HMC_SUCCESS, "hmc_runtime_close");
  hmc_runtime_destroy(runtime);
  if (failures == 0) printf("rank %d went on\n", rank);
  return failures == 0 ? 0 : 1;
}
