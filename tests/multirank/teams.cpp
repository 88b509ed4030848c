// Teams other than the world: their members, and every collective on them.
#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "tests/multirank/collectives_every.hpp"

namespace {

using namespace hmc::spmd;
using hmc::Team;

/// The ranks for which `in` is true, sorted by `key`.
template <typename In, typename Key> std::vector<int> ranks_by(int size, In&& in, Key&& key) {
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank)
    if (in(rank)) ranks.push_back(rank);
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) { return key(a) < key(b); });
  return ranks;
}

void check_members(TestRank& me, const Team& team, const std::vector<int>& expected) {
  HMC_CHECK_EQ(team.size(), static_cast<int>(expected.size()));
  for (int rank = 0; rank < team.size(); ++rank)
    HMC_CHECK_EQ(team.world_rank(rank), expected[static_cast<std::size_t>(rank)]);
  HMC_CHECK_EQ(team.world_rank(team.rank()), me.rank);
}

/// Verifies that the team has exactly its ranks: a sum of world ranks, their mean by a schedule, and a barrier.
void use(TestRank& me, Team& team) {
  const std::int64_t mine = 1 + me.rank;
  std::int64_t sum = 0, expected = 0;
  team.allreduce(std::span(&mine, 1), std::span(&sum, 1), hmc::sum);
  for (int rank = 0; rank < team.size(); ++rank) expected += 1 + team.world_rank(rank);
  HMC_CHECK_EQ(sum, expected);
  const auto real = static_cast<double>(mine);
  double mean = 0;
  team.iallreduce(&real, &mean, 1, hmc::DType::f64, hmc::avg).wait();
  HMC_CHECK_EQ(mean, static_cast<double>(expected) / team.size());
  team.barrier();
}

/// Every collective in all its forms. The data depends on the team's ranks.
void use_all(Team& team, std::size_t count, std::uint64_t& number) {
  for (int i = 0; i < collective_count; ++i) {
    for (const bool irregular : {false, true}) {
      Every what = some(static_cast<CollectiveKind>(i), count, ++number);
      what.irregular = irregular;
      what.in_place = number % 3 == 0;
      what.root = static_cast<int>(number) % team.size();
      EveryCall blocking(team.rank(), team.size(), what);
      blocking.blocking(team);
      HMC_CHECK_CLEAN(blocking.check());
      what.call = ++number;
      EveryCall started(team.rank(), team.size(), what);
      started.start(team).wait();
      HMC_CHECK_CLEAN(started.check());
      what.call = ++number;
      EveryCall planned(team.rank(), team.size(), what);
      hmc::Plan plan = planned.plan(team);
      for (int run = 0; run < 2; ++run) {
        planned.fill(++number);
        plan.start();
        plan.wait();
        HMC_CHECK_CLEAN(planned.check());
      }
    }
  }
}

}  // namespace

HMC_SPMD_TEST(Teams, split_groups_by_color_and_orders_by_key) {
  Team& world = me.runtime->world();
  const auto odd = [](int rank) { return rank % 2; };
  Team halves = world.split(odd(me.rank));
  check_members(me, halves,
                ranks_by(
                    me.size, [&](int r) { return odd(r) == odd(me.rank); }, [](int r) { return r; }));
  use(me, halves);
  Team reversed = world.split(odd(me.rank), -me.rank);
  check_members(me, reversed,
                ranks_by(
                    me.size, [&](int r) { return odd(r) == odd(me.rank); }, [](int r) { return -r; }));
  use(me, reversed);
  // Equal keys: ordered by rank. Keys may be far apart.
  Team tied = world.split(0, me.rank % 2 == 0 ? INT32_MAX : INT32_MIN);
  check_members(me, tied,
                ranks_by(
                    me.size, [](int) { return true; }, [](int r) { return r % 2 == 0 ? 1 : 0; }));
  use(me, tied);
  tied.close();
  reversed.close();
  halves.close();
}

HMC_SPMD_TEST(Teams, split_without_a_color_returns_no_team) {
  Team& world = me.runtime->world();
  Team most = world.split(me.rank == me.size - 1 ? -1 : 7);
  HMC_CHECK_EQ(static_cast<bool>(most), me.rank != me.size - 1);
  if (most) {
    check_members(me, most,
                  ranks_by(
                      me.size, [&](int r) { return r != me.size - 1; }, [](int r) { return r; }));
    use(me, most);
  } else {
    HMC_CHECK_EQ(most.rank(), -1);
    HMC_CHECK_EQ(most.size(), 0);
    HMC_CHECK_THROWS(hmc::Code::closed, most.barrier());
    HMC_CHECK_THROWS(hmc::Code::closed, (void)most.split(0));
    HMC_CHECK_THROWS(hmc::Code::closed, (void)hmc::Window::create(most, 8));
  }
  Team none = world.split(-5);
  HMC_CHECK(!none);
  world.barrier();
  if (most) most.close();
}

HMC_SPMD_TEST(Teams, subset_keeps_the_order_of_its_list) {
  Team& world = me.runtime->world();
  std::vector<int> list;
  for (int rank = me.size - 1; rank >= 0; rank -= 2) list.push_back(rank);
  Team some_ranks = world.subset(list);
  const bool in = std::find(list.begin(), list.end(), me.rank) != list.end();
  HMC_CHECK_EQ(static_cast<bool>(some_ranks), in);
  if (in) {
    check_members(me, some_ranks, list);
    use(me, some_ranks);
    some_ranks.close();
  }
  HMC_CHECK(!world.subset({}));
  const int first[] = {0};
  Team alone = world.subset(first);
  HMC_CHECK_EQ(alone.size(), me.rank == 0 ? 1 : 0);
  if (alone) use(me, alone);
}

HMC_SPMD_TEST(Teams, node_teams_and_leader_teams_are_correct) {
  Team& world = me.runtime->world();
  const auto same_node = [&](int r) { return me.runtime->node(r) == me.runtime->node(); };
  const auto leads = [&](int r) {
    for (int other = 0; other < r; ++other)
      if (me.runtime->node(other) == me.runtime->node(r)) return false;
    return true;
  };
  Team node = world.node_team();
  check_members(me, node, ranks_by(me.size, same_node, [](int r) { return r; }));
  use(me, node);
  Team leaders = world.leaders();
  HMC_CHECK_EQ(static_cast<bool>(leaders), leads(me.rank));
  if (leaders) {
    check_members(me, leaders, ranks_by(me.size, leads, [](int r) { return r; }));
    use(me, leaders);
    leaders.close();
  }
  // In a team with another order than the world's, another rank is the first of its node.
  Team turned = world.split(0, -me.rank);
  Team last = turned.leaders();
  bool is_last = true;
  for (int other = me.rank + 1; other < me.size; ++other) is_last = is_last && !same_node(other);
  HMC_CHECK_EQ(static_cast<bool>(last), is_last);
  if (last) last.close();
  turned.close();
  node.close();
}

HMC_SPMD_TEST(Teams, every_collective_works_on_reversed_odd_and_even_ranks) {
  Team team = me.runtime->world().split(me.rank % 2, -me.rank);
  std::uint64_t number = 0;
  for (const std::size_t count : {std::size_t{0}, std::size_t{5}, std::size_t{9'001}}) use_all(team, count, number);
  team.close();
}

HMC_SPMD_TEST(Teams, every_collective_works_on_teams_of_uneven_size) {
  Team team = me.runtime->world().split(me.rank == me.size / 2 ? 0 : 1, me.rank * 7 % 5);
  std::uint64_t number = 1000;
  for (const std::size_t count : {std::size_t{1}, std::size_t{700}}) use_all(team, count, number);
  team.close();
}

HMC_SPMD_TEST(Teams, every_collective_works_on_a_duplicate_of_the_world) {
  Team& world = me.runtime->world();
  Team twin = world.duplicate();
  check_members(me, twin,
                ranks_by(
                    me.size, [](int) { return true; }, [](int r) { return r; }));
  std::uint64_t number = 2000;
  EveryCall behind(me.rank, me.size, some(CollectiveKind::alltoall, 500, 1999));
  hmc::Request request = behind.start(world);
  use_all(twin, 64, number);
  request.wait();
  HMC_CHECK_CLEAN(behind.check());
  twin.close();
}

HMC_SPMD_TEST(Teams, teams_outlive_their_parents) {
  std::vector<Team> teams{me.runtime->world()};
  while (teams.back().size() > 1) {
    Team& parent = teams.back();
    const int half = parent.rank() * 2 / parent.size();
    Team child = parent.split(half, -parent.rank());
    use(me, child);
    teams.push_back(child);
  }
  // Closes parents before their children, except the world: a team doesn't need its parent.
  for (std::size_t i = 1; i < teams.size(); ++i) {
    use(me, teams[i]);
    teams[i].close();
    HMC_CHECK_THROWS(hmc::Code::closed, teams[i].barrier());
  }
  use(me, me.runtime->world());
}

HMC_SPMD_TEST(Teams, overlapping_teams_have_calls_in_flight_at_once) {
  Team& world = me.runtime->world();
  // Rows and columns of a grid: two ranks share at most one of them, and every rank is in both.
  const int width = me.size >= 6 ? 3 : 2;
  Team row = world.split(me.rank / width, me.rank);
  Team column = world.split(me.rank % width, -me.rank);
  std::vector<Team*> teams{&world, &row, &column};
  std::uint64_t number = 5000;
  for (int round = 0; round < 12; ++round) {
    std::vector<std::unique_ptr<EveryCall>> calls;
    std::vector<hmc::Request> requests;
    for (int depth = 0; depth < 3; ++depth) {
      for (Team* const team : teams) {
        const auto collective = static_cast<CollectiveKind>((round + depth) % collective_count);
        calls.push_back(std::make_unique<EveryCall>(team->rank(), team->size(),
                                                    some(collective, depth == 0 ? 20'000 : 40, ++number)));
        requests.push_back(calls.back()->start(*team));
      }
    }
    // Blocking calls of one team while other teams' calls are in flight. Each rank waits in its own order.
    (round % 2 == 0 ? row : column).barrier();
    for (std::size_t i = 0; i < requests.size(); ++i)
      requests[(i * 4 + static_cast<std::size_t>(me.rank)) % requests.size()].wait();
    for (const auto& call : calls) HMC_CHECK_CLEAN(call->check());
  }
  EveryCall in_row(row.rank(), row.size(), some(CollectiveKind::allreduce, 300, 1));
  EveryCall in_column(column.rank(), column.size(), some(CollectiveKind::allgather, 30, 2));
  hmc::Plan first = in_row.plan(row);
  hmc::Plan second = in_column.plan(column);
  for (int run = 0; run < 20; ++run) {
    in_row.fill(++number);
    in_column.fill(1'000'000 + static_cast<std::uint64_t>(run));
    first.start();
    second.start();
    (me.rank % 2 == 0 ? first : second).wait();
    (me.rank % 2 == 0 ? second : first).wait();
    HMC_CHECK_CLEAN(in_row.check());
    HMC_CHECK_CLEAN(in_column.check());
  }
  column.close();
  row.close();
}

// Equal calls, so that only the team says which of them match.
HMC_SPMD_TEST(Teams, calls_on_two_duplicates_may_start_in_any_order) {
  Team teams[] = {me.runtime->world().duplicate(), me.runtime->world().duplicate()};
  std::uint64_t number = 9000;
  for (int i = 0; i < collective_count; ++i) {
    for (const std::size_t count : {std::size_t{3}, std::size_t{5000}}) {
      std::unique_ptr<EveryCall> started[2], planned[2];
      hmc::Request requests[2];
      hmc::Plan plans[2];
      for (std::size_t k = 0; k < 2; ++k) {
        started[k] =
            std::make_unique<EveryCall>(me.rank, me.size, some(static_cast<CollectiveKind>(i), count, ++number));
        planned[k] =
            std::make_unique<EveryCall>(me.rank, me.size, some(static_cast<CollectiveKind>(i), count, ++number));
      }
      const auto odd = static_cast<std::size_t>(me.rank % 2);
      for (const std::size_t k : {odd, 1 - odd}) {
        requests[k] = started[k]->start(teams[k]);
        plans[k] = planned[k]->plan(teams[k]);
        plans[k].start();
      }
      for (std::size_t k = 0; k < 2; ++k) {
        requests[k].wait();
        plans[k].wait();
        HMC_CHECK_CLEAN(started[k]->check());
        HMC_CHECK_CLEAN(planned[k]->check());
      }
    }
  }
  for (Team& team : teams) team.close();
}

// With latency, the question of a long wait arrives after the call is complete and the peer has dropped the team. Here
// the peer drops the team without the call, so that the question is late on a fast network too.
HMC_SPMD_TEST(Teams, question_to_a_rank_that_dropped_the_team_is_ignored) {
  if (me.size < 2) hmc::spmd::skip("for two ranks");
  Team& world = me.runtime->world();
  std::vector<std::uint64_t> all(static_cast<std::size_t>(me.size));
  hmc::Request request;
  Team team = world.duplicate();
  const std::uint64_t mine = 1;
  if (me.rank == 0) {
    request = team.igather(&mine, all.data(), 8, 0);  // the root only receives
  } else {
    team = Team();
  }
  world.barrier();
  if (me.rank == 0) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);  // the question comes after 2 ms
    while (std::chrono::steady_clock::now() < end) HMC_CHECK(!request.test());
  }
  for (int round = 0; round < 3; ++round) world.barrier();  // reports refused puts
  request.abandon();                                        // rank 0's gather never completes
  use(me, world);
}

HMC_SPMD_TEST(Teams, close_completes_calls_in_flight) {
  Team team = me.runtime->world().split(me.rank % 2);
  EveryCall call(team.rank(), team.size(), some(CollectiveKind::allreduce, 50'000, 77));
  hmc::Request request = call.start(team);
  team.close();
  HMC_CHECK_CLEAN(call.check());
  HMC_CHECK_THROWS(hmc::Code::closed, request.wait());
  HMC_CHECK_THROWS(hmc::Code::closed, team.barrier());
  HMC_CHECK_THROWS(hmc::Code::closed, team.close());
}

HMC_SPMD_TEST(Teams, teams_dropped_without_close_do_not_affect_others) {
  Team& world = me.runtime->world();
  for (int round = 0; round < 3; ++round) {
    Team team = world.split(me.rank % 3, -me.rank);
    use(me, team);
    world.barrier();  // all ranks have left the team
  }
  use(me, world);
}
