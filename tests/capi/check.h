/* Minimal checks for tests in C: a failed check prints its condition and ends the whole job. */
#ifndef HMC_TESTS_CAPI_CHECK_H
#define HMC_TESTS_CAPI_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#include <hmc/hmc_c.h>

extern hmc_runtime_t runtime;
extern hmc_team_t world;
extern int rank, size;

#define CHECK(condition)                                                                                     \
  do {                                                                                                       \
    if (!(condition)) {                                                                                      \
      fprintf(stderr, "%s:%d: rank %d: %s is false; last error: %s\n", __FILE__, __LINE__, rank, #condition, \
              hmc_last_error());                                                                             \
      hmc_runtime_abort(runtime, 1, "a check failed");                                                       \
      exit(1);                                                                                               \
    }                                                                                                        \
  } while (0)
#define OK(call) CHECK((call) == HMC_SUCCESS)

void test_errors(void);
void test_runtime(void);
void test_buffer(void);
void test_window(void);
void test_transfers(void);
void test_requests(void);
void test_signals(void);
void test_atomics(void);
void test_collectives(void);
void test_teams(void);
void test_messages(void);

#endif
