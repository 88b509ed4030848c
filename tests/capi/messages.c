#include <string.h>

#include "tests/capi/check.h"

static uint64_t value_of(int of, int call) { return 1000003u * (uint64_t)(of + 1) + (uint64_t)call; }

void test_messages(void) {
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  hmc_message_status status = {sizeof status, 0, 0, 0}, unset = {0, 0, 0, 0};
  hmc_request_t requests[2];
  static char large_out[100000], large_in[100001];
  uint64_t out = value_of(rank, 1), in = 0;
  int found = -1, i;

  OK(hmc_sendrecv(world, &out, 8, next, 5, &in, 8, previous, 5, &status));
  CHECK(in == value_of(previous, 1) && status.source == previous && status.tag == 5 && status.bytes == 8);
  CHECK(status.struct_size == sizeof status);

  out = value_of(rank, 2);
  OK(hmc_iprobe(world, HMC_ANY_SOURCE, 6, &found, NULL));
  CHECK(found == 0);
  OK(hmc_barrier(world));
  OK(hmc_send(world, &out, 8, next, 6));
  OK(hmc_probe(world, HMC_ANY_SOURCE, HMC_ANY_TAG, &status));
  CHECK(status.source == previous && status.tag == 6 && status.bytes == 8);
  OK(hmc_iprobe(world, previous, 6, &found, &status));
  CHECK(found == 1);
  OK(hmc_recv(world, &in, 8, HMC_ANY_SOURCE, 6, NULL));
  CHECK(in == value_of(previous, 2));

  for (i = 0; i < (int)sizeof large_out; ++i) large_out[i] = (char)(value_of(rank, i) >> 3);
  status.source = status.tag = -5;
  OK(hmc_irecv(world, large_in, sizeof large_in, previous, HMC_ANY_TAG, &status, &requests[0]));
  OK(hmc_isend(world, large_out, sizeof large_out, next, 7, &requests[1]));
  OK(hmc_request_wait_all(requests, 2, HMC_JOB_TIMEOUT));
  CHECK(status.source == previous && status.tag == 7 && status.bytes == sizeof large_out);
  for (i = 0; i < (int)sizeof large_out; ++i) CHECK(large_in[i] == (char)(value_of(previous, i) >> 3));

  OK(hmc_isend(world, large_out, 9, next, 8, &requests[0]));
  CHECK(hmc_recv(world, large_in, 8, previous, 8, NULL) == HMC_MISMATCH);
  CHECK(strstr(hmc_last_error(), "truncated") != NULL);
  OK(hmc_request_wait(&requests[0], HMC_JOB_TIMEOUT));

  CHECK(hmc_send(world, &out, 8, size, 0) == HMC_BAD_RANK);
  CHECK(hmc_send(world, &out, 8, 0, -1) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_send(NULL, &out, 8, 0, 0) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_recv(world, &in, 8, 0, 0, &unset) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_isend(world, &out, 8, 0, 0, NULL) == HMC_INVALID_ARGUMENT);
  OK(hmc_barrier(world));
}
