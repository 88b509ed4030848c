/* The C ABI used from C99 on every rank. Each file checks one part. */
#include "tests/capi/check.h"

hmc_runtime_t runtime;
hmc_team_t world;
int rank = -1, size;

int main(void) {
  CHECK(hmc_last_error()[0] == '\0');
  OK(hmc_runtime_create(&runtime));
  world = hmc_runtime_world(runtime);
  rank = hmc_runtime_rank(runtime);
  size = hmc_runtime_size(runtime);

  test_runtime();
  test_errors();
  test_buffer();
  test_window();
  test_transfers();
  test_requests();
  test_signals();
  test_atomics();
  test_collectives();
  test_teams();
  test_messages();

  OK(hmc_runtime_close(runtime));
  CHECK(hmc_barrier(world) == HMC_CLOSED);
  hmc_runtime_destroy(runtime);
  return 0;
}
