// Ranks that don't agree on what they call: every rank gets an Error within the deadline, and none a
// wrong result. A disagreement ends a team, so each case has a job of its own, with ranks as threads.
#include <gtest/gtest.h>

#include <algorithm>
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

  /// Every rank was told of the mismatch, long before the deadline, in a text that says of each rank what it called;
  /// all of `calls` are in it.
  void expect_mismatch(const std::vector<Outcome>& outcomes, const std::vector<std::string>& calls = {}) const {
    for (int rank = 0; rank < ranks(); ++rank) {
      const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
      EXPECT_EQ(outcome.code, Code::mismatch) << "rank " << rank << ": " << outcome.text;
      EXPECT_LT(outcome.took, at_most) << "rank " << rank << ": " << outcome.text;
      EXPECT_GE(count_of(outcome.text, " called "), 2) << "rank " << rank << ": " << outcome.text;
      for (int named = 0; named < ranks(); ++named)
        EXPECT_TRUE(names(outcome.text, named)) << "rank " << rank << " about " << named << ": " << outcome.text;
      for (const std::string& call : calls)
        EXPECT_NE(outcome.text.find("called " + call), std::string::npos) << call << ": " << outcome.text;
    }
  }

  static int count_of(const std::string& text, const std::string& part) {
    int count = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
  }
  /// "rank 1 called", "ranks 0, 2 called", "rank 3 hasn't come so far": of a call before.
  static bool names(const std::string& text, int rank) {
    const std::string number = std::string(" ").append(std::to_string(rank));
    return count_of(text, number + " called ") + count_of(text, number + ", ") + count_of(text, number + " ha") > 0;
  }

  /// Half of the deadline: what a machine that is busy with other things may add to a few milliseconds.
  static constexpr std::chrono::nanoseconds at_most = 2s;
  std::vector<std::uint64_t> in = std::vector<std::uint64_t>(200'000, 1);
  /// Threads share the input and nothing else.
  static std::vector<std::uint64_t> output() { return std::vector<std::uint64_t>(1'600'000); }
};

void reduce_nothing(void*, const void*, std::size_t, DType, void*) {}

struct Slow {
  bool is_slow;
  int naps = 20;
};
/// A sum; on one rank its first calls take long.
void add_slowly(void* accumulated, const void* next, std::size_t count, DType, void* context) {
  auto& slow = *static_cast<Slow*>(context);
  auto* const sum = static_cast<std::uint64_t*>(accumulated);
  for (std::size_t i = 0; i < count; ++i) sum[i] += static_cast<const std::uint64_t*>(next)[i];
  if (slow.is_slow && slow.naps-- > 0) std::this_thread::sleep_for(20ms);
}

TEST_P(Mismatch, of_counts) {
  using Counts = std::pair<std::size_t, std::size_t>;
  for (const auto& [one, other] : {Counts{1, 2}, {0, 1}, {6, 7}, {512, 513}, {5, 100'000}, {100'000, 100'001}}) {
    SCOPED_TRACE(testing::Message() << one << " against " << other);
    for (const int odd : {0, ranks() - 1}) {
      expect_mismatch(
          run([&, one = one, other = other](Team& world, int rank) {
            auto out = output();
            world.allreduce(in.data(), out.data(), rank == odd ? other : one, DType::u64, sum);
            world.barrier();
          }),
          {"allreduce(" + std::to_string(one) + " x u64, sum)", "allreduce(" + std::to_string(other) + " x u64, sum)"});
    }
  }
}

TEST_P(Mismatch, of_types) {
  for (const std::size_t count : {std::size_t{4}, std::size_t{100'000}}) {
    expect_mismatch(
        run([&](Team& world, int rank) {
          auto out = output();
          world.allreduce(in.data(), out.data(), count, rank == 1 ? DType::f64 : DType::u64, sum);
          world.barrier();
        }),
        {"allreduce(" + std::to_string(count) + " x f64, sum)", "allreduce(" + std::to_string(count) + " x u64, sum)"});
  }
}

TEST_P(Mismatch, of_operations) {
  for (const std::size_t count : {std::size_t{4}, std::size_t{100'000}}) {
    expect_mismatch(
        run([&](Team& world, int rank) {
          auto out = output();
          world.allreduce(in.data(), out.data(), count, DType::u64, rank == 1 ? max : sum);
          world.barrier();
        }),
        {"allreduce(" + std::to_string(count) + " x u64, max)", "allreduce(" + std::to_string(count) + " x u64, sum)"});
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
                    }),
                    {"broadcast(" + std::to_string(bytes) + " bytes, root 0)",
                     "broadcast(" + std::to_string(bytes) + " bytes, root 1)"});
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
      expect_mismatch(run([&](Team& world, int rank) {
        call(world, rank == odd ? other : kind);
        call(world, 4);  // who was done with the one learns of it in the next
      }));
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

// Each form of collective against each: by load and store, a schedule, one that goes on by itself.
TEST_P(Mismatch, of_forms) {
  const auto call = [&](Team& world, int form) {
    auto out = output();
    switch (form) {
      case 0: return world.barrier();
      case 1: return world.allreduce(in.data(), out.data(), 50'000, DType::u64, sum);
      case 2: return world.gather(in.data(), out.data(), 800, 0);
      case 3: return world.alltoall(in.data(), out.data(), 800);
      case 4: return world.iallreduce(in.data(), out.data(), 9, DType::u64, sum).wait();
      case 5: {
        Request requests[] = {world.iallgather(in.data(), out.data(), 80)};
        return static_cast<void>(Request::wait_any(requests));
      }
      default: {
        Request request = world.ibarrier();
        while (!request.test()) std::this_thread::yield();
      }
    }
  };
  for (int form = 0; form < 7; ++form) {
    for (const int odd : {0, ranks() - 1}) {
      const int other = (form + 1 + odd) % 7;
      SCOPED_TRACE(testing::Message() << form << " against " << other << " on rank " << odd);
      expect_mismatch(run([&](Team& world, int rank) {
        for (int i = 0; i < 3; ++i) world.barrier();
        call(world, rank == odd ? other : form);
        world.barrier();
        world.alltoall(in.data(), output().data(), 8);
      }));
    }
  }
}

// A ring of ranks, none of which gets anything that it could compare.
TEST_P(Mismatch, of_ranks_that_all_wait_for_another_root) {
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{100'000}}) {
    const auto text = [&](int root) {
      return "broadcast(" + std::to_string(bytes) + " bytes, root " + std::to_string(root) + ")";
    };
    expect_mismatch(run([&](Team& world, int rank) {
                      world.barrier();
                      world.broadcast(output().data(), bytes, (rank + 1) % ranks());
                    }),
                    {text(0), text(1), text(ranks() - 1)});
  }
}

// So many that no list of the last few would reach back to the one that was wrong.
TEST_P(Mismatch, of_an_old_call_among_many_under_way) {
  constexpr int many = 400;
  const auto outcomes = run([&](Team& world, int rank) {
    std::vector<std::uint64_t> out(many);
    std::vector<Request> requests;
    for (std::size_t i = 0; i < many; ++i)
      requests.push_back(world.iallreduce(in.data(), &out[i], 1, DType::u64, rank == 1 && i == 20 ? max : sum));
    Request::wait_all(requests);
  });
  expect_mismatch(outcomes, {"iallreduce(1 x u64, max)", "iallreduce(1 x u64, sum)"});
}

// One rank is ahead by as many calls as it can be.
TEST_P(Mismatch, of_calls_that_one_rank_has_long_left) {
  const auto outcomes = run([&](Team& world, int rank) {
    auto out = output();
    for (int i = 0; i < 30; ++i) world.gather(in.data(), out.data(), rank == 1 && i == 5 ? 16 : 8, 0);
    world.barrier();
  });
  expect_mismatch(outcomes, {"gather(16 bytes, root 0)", "gather(8 bytes, root 0)"});
}

// What one rank sends isn't what the other expects: nothing moves, all hear of it, and the team goes on.
TEST_P(Mismatch, of_counts_of_a_pair) {
  using Two = std::pair<std::size_t, std::size_t>;
  const auto n = static_cast<std::size_t>(ranks());
  using Counts = std::vector<std::size_t>;
  const auto call = [&](Team& world, int form, const Counts& counts, const Counts& at, std::vector<std::uint64_t>& out,
                        const Counts& receive_counts) {
    if (form == 0) return world.alltoallv(in.data(), counts, at, out.data(), receive_counts, at, 8);
    if (form == 1) return world.ialltoallv(in.data(), counts, at, out.data(), receive_counts, at, 100'000, 8).wait();
    Plan plan = world.plan_alltoallv(in.data(), counts, at, out.data(), receive_counts, at, 100'000, 8);
    for (int run = 0; run < 2; ++run) {
      plan.start();
      plan.wait();
    }
  };
  for (const auto& [sent, expected] : {Two{5, 6}, {6, 5}, {0, 3}, {3, 0}, {40'000, 39'999}, {1, 90'000}}) {
    const std::string text = "rank 0 sends " + std::to_string(sent) + " to rank " + std::to_string(n - 1) +
                             ", which expects " + std::to_string(expected);
    const auto outcomes = run([&, sent = sent, expected = expected](Team& world, int rank) {
      auto out = output();
      const std::vector<std::size_t> even(n, 4), displacements(n, 0);
      auto counts = even, receive_counts = even;
      if (rank == 0) counts[n - 1] = sent;
      if (rank == ranks() - 1) receive_counts[0] = expected;
      for (int form = 0; form < 3; ++form) {
        std::fill(out.begin(), out.end(), 77);
        try {
          call(world, form, counts, displacements, out, receive_counts);
          ADD_FAILURE() << "form " << form;
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Code::mismatch) << error.what();
          EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
        }
        EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](std::uint64_t word) { return word == 77; }));
        call(world, form, even, displacements, out, even);
        EXPECT_EQ(out[3], 1U);
        EXPECT_EQ(out[4], 77U);
      }
      world.alltoallv(in.data(), counts, displacements, out.data(), receive_counts, displacements, 8);
    });
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(outcome.code, Code::mismatch) << outcome.text;
      EXPECT_NE(outcome.text.find(text), std::string::npos) << outcome.text;
      EXPECT_LT(outcome.took, at_most) << outcome.text;
    }
  }
}

TEST_P(Mismatch, ends_the_team) {
  const auto outcomes = run([&](Team& world, int rank) {
    std::uint64_t out = 0;
    try {
      world.allreduce(in.data(), &out, 1, DType::u64, rank == 0 ? sum : max);
      world.barrier();
    } catch (const Error&) {
      // All agree again, but it is too late.
      EXPECT_THROW(world.iallreduce(in.data(), &out, 1, DType::u64, sum), Error);
      EXPECT_THROW(world.gather(in.data(), &out, 0, 0), Error);
      world.barrier();
    }
  });
  expect_mismatch(outcomes);
}

TEST_P(Mismatch, a_rank_that_never_comes_is_named_by_requests_too) {
  const int missing = ranks() - 1;
  for (const bool any : {false, true}) {
    const auto outcomes = run(
        [&](Team& world, int rank) {
          std::vector<std::uint64_t> out(2);
          if (rank == missing) return;
          Request requests[] = {world.iallreduce(in.data(), &out[0], 1, DType::u64, sum), world.ibarrier()};
          if (any) {
            static_cast<void>(Request::wait_any(requests));
          } else {
            Request::wait_all(requests);
          }
        },
        300ms);
    for (int rank = 0; rank < ranks() - 1; ++rank) {
      const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
      EXPECT_EQ(outcome.code, Code::timeout) << outcome.text;
      EXPECT_NE(outcome.text.find("rank " + std::to_string(missing) + " didn't come"), std::string::npos)
          << outcome.text;
      EXPECT_LT(outcome.took, 3s);
    }
  }
}

// The deadline is for those who don't come, not for those who take long.
TEST_P(Mismatch, a_call_that_moves_has_no_deadline) {
  for (const bool any : {false, true}) {
    const auto outcomes = run(
        [&](Team& world, int rank) {
          Slow slow{rank == 0};
          auto out = output();
          // Longer than the deadline in all, shorter for each step.
          Request requests[] = {
              world.iallreduce(in.data(), out.data(), 200'000, DType::u64, Reduction(add_slowly, &slow))};
          if (any) {
            static_cast<void>(Request::wait_any(requests));
          } else {
            requests[0].wait();
          }
          for (std::size_t i = 0; i < 200'000; i += 997) EXPECT_EQ(out[i], static_cast<std::uint64_t>(ranks()));
          world.barrier();
        },
        250ms);
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(outcome.code, Code::success) << outcome.text;
      EXPECT_GT(outcome.took, 250ms);
    }
  }
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
