#include <string.h>

#include "tests/capi/check.h"

static int interrupt(void) { return 1; }

void test_signals(void) {
  enum { signal = 8192, rounds = 100 };
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  hmc_window_t window = NULL;
  uint64_t round, seen = 0, source, *mine;
  void* data;
  int holds = -1;
  OK(hmc_window_create(world, 16384, &window));
  OK(hmc_window_data(window, &data));
  mine = data;

  OK(hmc_test_until(window, signal, HMC_GE, 1, &holds));
  CHECK(holds == 0);
  CHECK(hmc_wait_until(window, 16376, HMC_NE, 0, 1000000, &seen) == HMC_TIMEOUT);
  CHECK(hmc_wait_until(window, 16376, HMC_EQ, 0, -2, &seen) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_flush(window, right, -1000000000) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_flush_all(window, INT64_MIN) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_request_wait_all(NULL, 0, -2) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_team_grow(world, -2) == HMC_INVALID_ARGUMENT);
  hmc_set_interrupt_check(interrupt);
  CHECK(hmc_wait_until(window, 16376, HMC_NE, 0, HMC_JOB_TIMEOUT, &seen) == HMC_TIMEOUT);
  hmc_set_interrupt_check(NULL);
  OK(hmc_barrier(world));

  for (round = 1; round <= rounds; ++round) {
    source = 1000 * (uint64_t)rank + round;
    OK(hmc_put_signal(window, right, 8 * round, &source, sizeof source, signal, round));
    OK(hmc_wait_until(window, signal, HMC_GE, round, HMC_JOB_TIMEOUT, &seen));
    CHECK(seen >= round && mine[round] == 1000 * (uint64_t)left + round);
  }
  OK(hmc_wait_until(window, signal, HMC_EQ, rounds, HMC_JOB_TIMEOUT, NULL));
  OK(hmc_test_until(window, signal, HMC_GE, rounds, &holds));
  CHECK(holds == 1);
  CHECK(hmc_put_signal(window, right, 0, &source, 8, signal + 4, 1) == HMC_MISALIGNED);
  /* An undefined comparison fails immediately. */
  CHECK(hmc_wait_until(window, signal, (hmc_cmp)6, 0, HMC_JOB_TIMEOUT, &seen) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_wait_until(window, signal, (hmc_cmp)7, 0, HMC_JOB_TIMEOUT, &seen) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_test_until(window, signal, (hmc_cmp)6, 0, &holds) == HMC_INVALID_ARGUMENT);
  OK(hmc_window_close(window));
  hmc_window_destroy(window);
}

/* All ranks update rank 0's words. Then each form is checked alone, on this rank's own words. */
static void check_64(hmc_window_t window) {
  uint64_t old = 0, olds[4];
  hmc_request_t requests[1];
  OK(hmc_fetch_add_64(window, 0, 0, UINT64_C(1) << 33, NULL));
  OK(hmc_add_64(window, 0, 0, (uint64_t)rank));
  OK(hmc_barrier(world));
  OK(hmc_fetch_64(window, 0, 0, &old));
  CHECK(old == (uint64_t)size * (UINT64_C(1) << 33) + (uint64_t)size * (uint64_t)(size - 1) / 2);

  OK(hmc_set_64(window, rank, 64, 0xf0));
  OK(hmc_fetch_and_64(window, rank, 64, 0x3c, &old));
  CHECK(old == 0xf0);
  OK(hmc_fetch_or_64(window, rank, 64, 0x01, &old));
  CHECK(old == 0x30);
  OK(hmc_fetch_xor_64(window, rank, 64, 0xff, &old));
  CHECK(old == 0x31);
  OK(hmc_and_64(window, rank, 64, 0x0f));
  OK(hmc_or_64(window, rank, 64, 0x40));
  OK(hmc_xor_64(window, rank, 64, 0x01));
  OK(hmc_swap_64(window, rank, 64, UINT64_MAX, &old));
  CHECK(old == 0x4f);
  OK(hmc_compare_swap_64(window, rank, 64, 1, 2, &old));
  CHECK(old == UINT64_MAX);
  OK(hmc_compare_swap_64(window, rank, 64, UINT64_MAX, 2, &old));
  OK(hmc_fetch_64(window, rank, 64, &old));
  CHECK(old == 2);

  OK(hmc_fetch_add_nb_64(window, rank, 64, 5, &olds[0], &requests[0]));
  OK(hmc_request_wait_all(requests, 1, HMC_JOB_TIMEOUT));
  OK(hmc_swap_nb_64(window, rank, 64, 9, &olds[1], &requests[0]));
  OK(hmc_request_wait_all(requests, 1, HMC_JOB_TIMEOUT));
  OK(hmc_compare_swap_nb_64(window, rank, 64, 9, 11, &olds[2], &requests[0]));
  OK(hmc_request_wait_all(requests, 1, HMC_JOB_TIMEOUT));
  OK(hmc_fetch_nb_64(window, rank, 64, &olds[3], &requests[0]));
  OK(hmc_request_wait_all(requests, 1, HMC_JOB_TIMEOUT));
  CHECK(olds[0] == 2 && olds[1] == 7 && olds[2] == 9 && olds[3] == 11);
  CHECK(hmc_fetch_nb_64(window, rank, 64, NULL, &requests[0]) == HMC_INVALID_ARGUMENT);
}

static void check_32(hmc_window_t window) {
  uint32_t old = 0, olds[4];
  hmc_request_t requests[1];
  OK(hmc_fetch_add_32(window, 0, 132, 1000, NULL));
  OK(hmc_add_32(window, 0, 132, (uint32_t)rank));
  OK(hmc_barrier(world));
  OK(hmc_fetch_32(window, 0, 132, &old));
  CHECK(old == 1000U * (uint32_t)size + (uint32_t)(size * (size - 1) / 2));

  OK(hmc_set_32(window, rank, 196, 0xf0));
  OK(hmc_fetch_and_32(window, rank, 196, 0x3c, &old));
  CHECK(old == 0xf0);
  OK(hmc_fetch_or_32(window, rank, 196, 0x01, &old));
  CHECK(old == 0x30);
  OK(hmc_fetch_xor_32(window, rank, 196, 0xff, &old));
  CHECK(old == 0x31);
  OK(hmc_and_32(window, rank, 196, 0x0f));
  OK(hmc_or_32(window, rank, 196, 0x40));
  OK(hmc_xor_32(window, rank, 196, 0x01));
  OK(hmc_swap_32(window, rank, 196, UINT32_MAX, &old));
  CHECK(old == 0x4f);
  OK(hmc_compare_swap_32(window, rank, 196, 1, 2, &old));
  CHECK(old == UINT32_MAX);
  OK(hmc_compare_swap_32(window, rank, 196, UINT32_MAX, 2, &old));
  OK(hmc_fetch_32(window, rank, 196, &old));
  CHECK(old == 2);

  OK(hmc_fetch_add_nb_32(window, rank, 196, 5, &olds[0], &requests[0]));
  OK(hmc_request_wait_all(requests, 1, HMC_JOB_TIMEOUT));
  OK(hmc_swap_nb_32(window, rank, 196, 9, &olds[1], &requests[0]));
  OK(hmc_request_wait_all(requests, 1, HMC_JOB_TIMEOUT));
  OK(hmc_compare_swap_nb_32(window, rank, 196, 9, 11, &olds[2], &requests[0]));
  OK(hmc_request_wait_all(requests, 1, HMC_JOB_TIMEOUT));
  OK(hmc_fetch_nb_32(window, rank, 196, &olds[3], &requests[0]));
  OK(hmc_request_wait_all(requests, 1, HMC_JOB_TIMEOUT));
  CHECK(olds[0] == 2 && olds[1] == 7 && olds[2] == 9 && olds[3] == 11);
  CHECK(hmc_fetch_nb_32(window, rank, 196, NULL, &requests[0]) == HMC_INVALID_ARGUMENT);
}

void test_atomics(void) {
  hmc_window_t window = NULL;
  OK(hmc_window_create(world, 4096, &window));
  check_64(window);
  check_32(window);
  OK(hmc_window_close(window));
  hmc_window_destroy(window);
}
