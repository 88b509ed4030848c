// Ranks that don't agree on what they call: every rank gets an Error within the deadline, and none a
// wrong result. A disagreement ends a team, so each case has a job of its own, with ranks as threads.
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <hmc/hmc.hpp>

#include "bootstrap/inproc.hpp"
#include "collectives/select/selector.hpp"
#include "runtime/base/env.hpp"
#include "runtime/job/core.hpp"

namespace hmc {
namespace {

using namespace std::chrono_literals;

/// What one rank met: the code, or success, and the text.
struct Outcome {
  Code code = Code::success;
  std::string text;
  std::chrono::nanoseconds took{};
};

/// Ranks and (pretended) nodes.
class Mismatch : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  int nodes() const { return std::get<1>(GetParam()); }

  /// Runs `body` on every rank of a new job, each until its first Error.
  std::vector<Outcome> run(const std::function<void(Team& world, int rank)>& body,
                           std::chrono::nanoseconds deadline = 4s) {
    auto places = bootstrap::make_inproc(ranks(), nodes());
    std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks()));
    std::barrier everybody(ranks());
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks(); ++rank) {
      threads.emplace_back([&, rank, place = std::move(places[static_cast<std::size_t>(rank)])]() mutable {
        base::Env env = base::Env::from_process();
        env.timeout = deadline;
        Runtime runtime(job::make_core(std::move(place), env));
        Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
        const auto start = std::chrono::steady_clock::now();
        try {
          body(runtime.world(), rank);
        } catch (const Error& error) {
          outcome = {error.code(), error.what(), {}};
        }
        outcome.took = std::chrono::steady_clock::now() - start;
        everybody.arrive_and_wait();  // who goes earlier has failed in the eyes of the others
      });
    }
    for (std::thread& thread : threads) thread.join();
    return outcomes;
  }

  /// All have failed in time; someone was told of the mismatch.
  static void expect_mismatch(const std::vector<Outcome>& outcomes) {
    int told = 0;
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
      const Outcome& outcome = outcomes[rank];
      EXPECT_NE(outcome.code, Code::success) << "rank " << rank;
      EXPECT_LT(outcome.took, 10s) << "rank " << rank;
      told += outcome.code == Code::mismatch ? 1 : 0;
    }
    EXPECT_GE(told, 1);
    if (testing::Test::HasFailure())
      for (const Outcome& outcome : outcomes) ADD_FAILURE() << outcome.text;
  }

  std::vector<std::uint64_t> in = std::vector<std::uint64_t>(200'000, 1);
  /// Threads share the input and nothing else.
  static std::vector<std::uint64_t> output() { return std::vector<std::uint64_t>(1'600'000); }
};

void reduce_nothing(void*, const void*, std::size_t, DType, void*) {}

TEST_P(Mismatch, of_counts) {
  using Counts = std::pair<std::size_t, std::size_t>;
  for (const auto& [one, other] : {Counts{1, 2}, {0, 1}, {6, 7}, {512, 513}, {5, 100'000}, {100'000, 100'001}}) {
    SCOPED_TRACE(testing::Message() << one << " against " << other);
    for (const int odd : {0, ranks() - 1}) {
      expect_mismatch(run([&, one = one, other = other](Team& world, int rank) {
        auto out = output();
        world.allreduce(in.data(), out.data(), rank == odd ? other : one, DType::u64, sum);
        world.barrier();
      }));
    }
  }
}

TEST_P(Mismatch, of_types) {
  for (const std::size_t count : {std::size_t{4}, std::size_t{100'000}}) {
    expect_mismatch(run([&](Team& world, int rank) {
      auto out = output();
      world.allreduce(in.data(), out.data(), count, rank == 1 ? DType::f64 : DType::u64, sum);
      world.barrier();
    }));
  }
}

TEST_P(Mismatch, of_operations) {
  for (const std::size_t count : {std::size_t{4}, std::size_t{100'000}}) {
    expect_mismatch(run([&](Team& world, int rank) {
      auto out = output();
      world.allreduce(in.data(), out.data(), count, DType::u64, rank == 1 ? max : sum);
      world.barrier();
    }));
    expect_mismatch(run([&](Team& world, int rank) {
      auto out = output();
      if (rank == 1) {
        world.allreduce(in.data(), out.data(), count, DType::u64, reduce_nothing, nullptr);
      } else {
        world.allreduce(in.data(), out.data(), count, DType::u64, sum);
      }
      world.barrier();
    }));
  }
}

// How a reduction is done chooses the algorithm, so it is part of what was called.
TEST_P(Mismatch, of_how_a_reduction_is_done) {
  expect_mismatch(run([&](Team& world, int rank) {
    auto out = output();
    world.reduce_scatter(in.data(), out.data(), 6, DType::u64, rank == 1 ? deterministic(sum) : Reduction(sum));
    world.barrier();
  }));
  expect_mismatch(run([&](Team& world, int rank) {
    auto out = output();
    world.reduce_scatter(in.data(), out.data(), 6, DType::u64, Reduction(reduce_nothing, nullptr, rank == 1));
    world.barrier();
  }));
}

TEST_P(Mismatch, of_collectives) {
  const auto call = [&](Team& world, int kind, std::size_t bytes) {
    auto out = output();
    switch (kind) {
      case 0: return world.barrier();
      case 1: return world.broadcast(out.data(), bytes, 0);
      case 2: return world.allgather(in.data(), out.data(), bytes);
      default: return world.allreduce(in.data(), out.data(), bytes / 8, DType::u64, sum);
    }
  };
  for (const std::size_t bytes : {std::size_t{16}, std::size_t{3000}, std::size_t{400'000}}) {
    for (int kind = 0; kind < 4; ++kind) {
      for (int other = 0; other < 4; ++other) {
        if (kind == other || (kind == 0 && bytes > 16 && other == 0)) continue;
        SCOPED_TRACE(testing::Message() << "kind " << kind << " against " << other << ", " << bytes << " bytes");
        expect_mismatch(run([&](Team& world, int rank) {
          call(world, rank == 0 ? kind : other, bytes);
          world.barrier();
        }));
      }
    }
  }
}

TEST_P(Mismatch, of_roots_and_sizes) {
  for (const std::size_t bytes : {std::size_t{16}, std::size_t{3000}, std::size_t{400'000}}) {
    SCOPED_TRACE(bytes);
    expect_mismatch(run([&](Team& world, int rank) {
      auto out = output();
      world.broadcast(out.data(), bytes, rank == 0 ? 0 : 1);
      world.barrier();
    }));
    expect_mismatch(run([&](Team& world, int rank) {
      auto out = output();
      world.broadcast(out.data(), bytes + static_cast<std::size_t>(rank == 1), 0);
      world.barrier();
    }));
    expect_mismatch(run([&](Team& world, int rank) {
      auto out = output();
      world.allgather(in.data(), out.data(), bytes + static_cast<std::size_t>(rank == 1));
      world.barrier();
    }));
  }
}

// Collectives that are always schedules.
TEST_P(Mismatch, of_schedules) {
  const auto call = [&](Team& world, int kind) {
    auto out = output();
    constexpr std::size_t bytes = 4000;
    switch (kind) {
      case 0: return world.gather(in.data(), out.data(), bytes, 0);
      case 1: return world.gather(in.data(), out.data(), bytes, ranks() - 1);
      case 2: return world.gather(in.data(), out.data(), bytes + 8, 0);
      case 3: return world.scatter(in.data(), out.data(), bytes, 0);
      case 4: return world.alltoall(in.data(), out.data(), bytes);
      case 5: return world.reduce_scatter(in.data(), out.data(), bytes / 8, DType::u64, sum);
      case 6: return world.scan(in.data(), out.data(), bytes / 8, DType::u64, sum);
      case 7: return world.scan(in.data(), out.data(), bytes / 8, DType::u64, max);
      case 8: return world.igather(in.data(), out.data(), bytes, 0).wait();
      default: return world.reduce(in.data(), out.data(), 0, DType::u64, sum, 0);
    }
  };
  for (int kind = 0; kind < 10; ++kind) {
    const int other = (kind + 1) % 10;
    SCOPED_TRACE(testing::Message() << "kind " << kind << " against " << other);
    for (const int odd : {0, ranks() - 1}) {
      expect_mismatch(run(
          [&](Team& world, int rank) {
            call(world, rank == odd ? other : kind);
            call(world, 4);  // who was done with the one learns of it in the next
          },
          2s));
    }
  }
}

// One is carried out by load and store where that is possible, the other never.
TEST_P(Mismatch, of_a_schedule_and_another_collective) {
  const auto outcomes = run([&](Team& world, int rank) {
    auto out = output();
    if (rank == 0) world.barrier();
    world.gather(in.data(), out.data(), 8, ranks() - 1);
    if (rank != 0) world.barrier();
    world.alltoall(in.data(), out.data(), 8);
  });
  expect_mismatch(outcomes);
}

TEST_P(Mismatch, ends_the_team) {
  const auto outcomes = run([&](Team& world, int rank) {
    std::uint64_t out = 0;
    try {
      world.allreduce(in.data(), &out, 1, DType::u64, rank == 0 ? sum : max);
    } catch (const Error&) {
      world.allreduce(in.data(), &out, 1, DType::u64, sum);  // all agree again, but it is too late
    }
  });
  for (const Outcome& outcome : outcomes) EXPECT_NE(outcome.code, Code::success);
}

TEST_P(Mismatch, says_who_called_what) {
  const auto outcomes = run([&](Team& world, int rank) {
    auto out = output();
    world.allreduce(in.data(), out.data(), rank == 1 ? 7 : 5, DType::u64, sum);
    world.barrier();
  });
  int good = 0;
  for (const Outcome& outcome : outcomes)
    good += outcome.text.find("allreduce(7 x u64, sum)") != std::string::npos &&
                    outcome.text.find("allreduce(5 x u64, sum)") != std::string::npos
                ? 1
                : 0;
  EXPECT_GE(good, 1) << outcomes[0].text;
}

TEST_P(Mismatch, a_rank_that_never_comes_is_named) {
  const int missing = ranks() - 1;
  const auto outcomes = run(
      [&](Team& world, int rank) {
        if (rank == missing) return;
        world.barrier();
      },
      500ms);
  for (int rank = 0; rank < ranks() - 1; ++rank) {
    const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    EXPECT_EQ(outcome.code, Code::timeout) << outcome.text;
    EXPECT_NE(outcome.text.find("rank " + std::to_string(missing)), std::string::npos) << outcome.text;
    EXPECT_GE(outcome.took, 500ms);
    EXPECT_LT(outcome.took, 5s);
  }
}

TEST(Algorithms, an_unknown_one_is_refused_with_the_names_there_are) {
  for (const char* const setting :
       {"allreduce:nothing", "nothing:ring", "allreduce", "allreduce:ring,,", "barrier:ring"}) {
    try {
      const collectives::Selector selector(setting);
      ADD_FAILURE() << setting;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_config);
      EXPECT_NE(std::string(error.what()).find("allreduce: recursive_doubling"), std::string::npos) << error.what();
    }
  }
}

TEST(Algorithms, the_environment_forces_them) {
  auto places = bootstrap::make_inproc(2, 1);
  std::vector<std::thread> threads;
  for (auto& place : places) {
    threads.emplace_back([&place] {
      base::Env env = base::Env::from_process();
      env.coll = "broadcast:binomial,allreduce:ring";
      Runtime runtime(job::make_core(std::move(place), env));
      std::uint64_t value = 3;
      runtime.world().allreduce(&value, &value, 1, DType::u64, sum);
      EXPECT_EQ(value, 6U);
      EXPECT_EQ(runtime.world().carried_out("allreduce", "ring"), 1U);
      EXPECT_EQ(runtime.world().carried_out("broadcast", "binomial"), 0U);
      runtime.close();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Algorithms, all_ranks_force_the_same) {
  auto places = bootstrap::make_inproc(2, 1);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      base::Env env = base::Env::from_process();
      env.coll = rank == 0 ? "" : "allreduce:ring";
      env.timeout = 4s;
      EXPECT_THROW(Runtime(job::make_core(std::move(places[static_cast<std::size_t>(rank)]), env)), Error);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Ranks, Mismatch, testing::Values(std::tuple(2, 1), std::tuple(3, 1), std::tuple(4, 2)),
                         [](const auto& info) {
                           return "np" + std::to_string(std::get<0>(info.param)) + "_nodes" +
                                  std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace hmc
