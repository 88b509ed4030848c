// Errors of a team's ranks when one of them makes another call, doesn't call, or dies: in time, and with its world
// rank. Ranks are threads; each case ends its job.
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <hmc/hmc.hpp>

#include "bootstrap/inproc.hpp"
#include "runtime/base/env.hpp"
#include "tests/multirank/short_deadline.hpp"

namespace hmc {
namespace {

using namespace std::chrono_literals;

constexpr int ranks = 5;

/// Parameters: number of simulated nodes, and whether HMC_TRANSPORT forces ucx.
class TeamFailure : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  using Body = std::function<void(Runtime& runtime, Team& team)>;

  /// Runs `body` on the ranks 4, 2 and 1 of a new job, which form the team; the other ranks aren't members. Returns
  /// each member's error, by world rank.
  static std::vector<std::optional<Error>> run(const Body& body, std::chrono::nanoseconds deadline = 5s) {
    auto places = bootstrap::make_inproc(ranks, std::get<0>(GetParam()));
    std::vector<std::optional<Error>> met(ranks);
    std::barrier everybody(ranks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank, place = std::move(places[static_cast<std::size_t>(rank)])]() mutable {
        base::Env env = base::Env::from_process();
        if (std::get<1>(GetParam())) env.transport = "ucx";
        Runtime runtime = start_without_hurry(std::move(place), env);
        const int members[] = {4, 2, 1};
        Team team = runtime.world().subset(members);
        everybody.arrive_and_wait();  // a rank that fails earlier would end the team's other calls
        set_deadline(runtime, deadline);
        try {
          if (team) body(runtime, team);
        } catch (const Error& error) {
          met[static_cast<std::size_t>(rank)] = error;
        }
        everybody.arrive_and_wait();  // the other ranks report a rank that leaves earlier as failed
      });
    }
    for (std::thread& thread : threads) thread.join();
    return met;
  }

  static void expect(const std::optional<Error>& error, Code code, int peer, const std::string& text) {
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->code(), code) << error->what();
    EXPECT_EQ(error->peer(), peer) << error->what();
    EXPECT_NE(std::string(error->what()).find(text), std::string::npos) << error->what();
  }
};

TEST_P(TeamFailure, mismatch_names_world_ranks) {
  const auto met = run(
      [](Runtime& runtime, Team& team) {
        std::uint64_t value = 1;
        if (runtime.rank() == 2) {
          team.allreduce(&value, &value, 1, DType::u64, sum);
        } else {
          team.barrier();
        }
        team.barrier();
      },
      3s);
  int told = 0;
  for (const int rank : {1, 2, 4}) {
    const auto& error = met[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(error.has_value()) << rank;
    if (error->code() != Code::mismatch) continue;
    ++told;
    const std::string text = error->what();
    EXPECT_NE(text.find("world rank"), std::string::npos) << text;
    EXPECT_NE(text.find("world rank 2 called allreduce"), std::string::npos) << text;
    EXPECT_EQ(text.find("rank 0"), std::string::npos) << text;
  }
  EXPECT_GE(told, 1);
}

TEST_P(TeamFailure, split_against_a_collective_is_a_mismatch) {
  const auto met = run(
      [](Runtime& runtime, Team& team) {
        if (runtime.rank() == 1) {
          (void)team.split(0);
        } else {
          (void)team.ibarrier().wait();
        }
        (void)team.split(0);
      },
      3s);
  int told = 0;
  for (const int rank : {1, 2, 4}) {
    ASSERT_TRUE(met[static_cast<std::size_t>(rank)].has_value()) << rank;
    told += met[static_cast<std::size_t>(rank)]->code() == Code::mismatch ? 1 : 0;
  }
  EXPECT_GE(told, 1);
}

TEST_P(TeamFailure, missing_rank_is_named_by_world_rank) {
  const auto met = run(
      [](Runtime& runtime, Team& team) {
        if (runtime.rank() != 2) team.barrier();
      },
      400ms);
  for (const int rank : {1, 4}) {
    const auto& error = met[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->code(), Code::timeout) << error->what();
    EXPECT_EQ(error->peer(), 2) << error->what();
    EXPECT_NE(std::string(error->what()).find("world rank 2"), std::string::npos) << error->what();
  }
}

TEST_P(TeamFailure, death_of_a_member_names_its_world_rank) {
  const auto met = run([](Runtime& runtime, Team& team) {
    team.barrier();
    if (runtime.rank() == 4) {
      const Runtime gone = std::move(runtime);  // without a goodbye; all objects that hold the job are destroyed
      team = Team();
      return;
    }
    for (;;) team.ibarrier().wait();
  });
  for (const int rank : {1, 2}) expect(met[static_cast<std::size_t>(rank)], Code::peer_failed, 4, "rank 4");
}

TEST_P(TeamFailure, invalid_put_names_the_world_rank) {
  const auto met = run([](Runtime&, Team& team) {
    Window win = Window::create(team, 64);
    const char byte = 0;
    if (team.rank() == 0) win.put(1, 100, &byte, 1);
  });
  expect(met[4], Code::out_of_range, 2, "team rank 1 (world rank 2)");
}

TEST_P(TeamFailure, open_team_is_closed_with_its_runtime) {
  std::vector<std::thread> threads;
  for (auto& each : bootstrap::make_inproc(ranks, std::get<0>(GetParam()))) {
    threads.emplace_back([place = std::move(each)]() mutable {
      base::Env env = base::Env::from_process();
      if (std::get<1>(GetParam())) env.transport = "ucx";
      Runtime runtime(std::make_unique<job::JobCore>(std::move(place), env));
      Team team = runtime.world().split(runtime.rank() % 2);
      Window win = Window::create(team, 64);
      team.barrier();
      runtime.close();
      try {
        team.barrier();
        ADD_FAILURE() << "a barrier without a job";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::closed) << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Layouts, TeamFailure,
                         testing::Values(std::tuple(1, false), std::tuple(2, false), std::tuple(1, true)),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) + "_nodes" +
                                  (std::get<1>(info.param) ? "_ucx" : "");
                         });

}  // namespace
}  // namespace hmc
