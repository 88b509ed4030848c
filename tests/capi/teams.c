#include <string.h>

#include "tests/capi/check.h"

static void check_sum_of_world_ranks(hmc_team_t team) {
  int64_t mine = 1 + rank, sum = 0, expected = 0;
  int i;
  OK(hmc_allreduce(team, &mine, &sum, 1, HMC_I64, NULL));
  for (i = 0; i < hmc_team_size(team); ++i) expected += 1 + hmc_team_world_rank(team, i);
  CHECK(sum == expected);
  CHECK(hmc_team_world_rank(team, hmc_team_rank(team)) == rank);
  CHECK(hmc_team_world_rank(team, hmc_team_size(team)) == -1);
}

static void check_window(hmc_team_t team) {
  hmc_window_t window = NULL;
  void* data = NULL;
  int next = (hmc_team_rank(team) + 1) % hmc_team_size(team);
  int previous = (hmc_team_rank(team) + hmc_team_size(team) - 1) % hmc_team_size(team);
  uint64_t value = 1000 + (uint64_t)rank, seen = 0;
  OK(hmc_window_create(team, 256, &window));
  OK(hmc_put_signal(window, next, 64, &value, sizeof value, 0, 7));
  OK(hmc_wait_until(window, 0, HMC_GE, 7, HMC_JOB_TIMEOUT, NULL));
  OK(hmc_window_data(window, &data));
  memcpy(&seen, (char*)data + 64, sizeof seen);
  CHECK(seen == 1000 + (uint64_t)hmc_team_world_rank(team, previous));
  CHECK(hmc_team_close(team) == HMC_INVALID_ARGUMENT); /* a window of the team is open */
  OK(hmc_window_close(window));
  hmc_window_destroy(window);
}

void test_teams(void) {
  hmc_team_t odd = NULL, all = NULL, node = NULL, leaders = NULL, turned = NULL;
  int list[64], i, again[2] = {0, 0};

  OK(hmc_team_split(world, rank % 2, -rank, &odd));
  CHECK(hmc_team_size(odd) == (size + 1 - rank % 2) / 2);
  check_sum_of_world_ranks(odd);
  check_window(odd);
  OK(hmc_team_close(odd));
  CHECK(hmc_barrier(odd) == HMC_CLOSED);
  hmc_team_destroy(odd);
  odd = NULL;
  OK(hmc_team_split(world, rank == 0 ? 3 : -1, 0, &odd));
  CHECK((odd != NULL) == (rank == 0));
  hmc_team_destroy(odd); /* local, without close */

  for (i = 0; i < size; ++i) list[i] = size - 1 - i;
  OK(hmc_team_subset(world, list, (size_t)size, &turned));
  CHECK(hmc_team_rank(turned) == size - 1 - rank);
  check_sum_of_world_ranks(turned);
  CHECK(hmc_team_subset(world, again, 2, &all) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_team_subset(world, NULL, 1, &all) == HMC_INVALID_ARGUMENT);

  OK(hmc_team_duplicate(turned, &all));
  OK(hmc_team_node(world, &node));
  OK(hmc_team_leaders(world, &leaders));
  CHECK(hmc_team_rank(all) == size - 1 - rank);
  CHECK((leaders != NULL) == (hmc_team_rank(node) == 0));
  if (leaders != NULL) CHECK(hmc_team_size(leaders) == hmc_runtime_node_count(runtime));
  check_sum_of_world_ranks(node);
  if (leaders != NULL) OK(hmc_team_close(leaders));
  OK(hmc_team_close(node));
  OK(hmc_team_close(all));
  OK(hmc_team_close(turned));
  hmc_team_destroy(leaders);
  hmc_team_destroy(node);
  hmc_team_destroy(all);
  hmc_team_destroy(turned);

  CHECK(hmc_team_split(NULL, 0, 0, &all) == HMC_INVALID_ARGUMENT);
  CHECK(hmc_team_close(world) == HMC_INVALID_ARGUMENT);
  hmc_team_destroy(world); /* no effect: the runtime owns the world */
  hmc_team_destroy(NULL);
  OK(hmc_barrier(world));
}
