// Fixture for ranks that disagree on a collective call. A mismatch ends the team, so each case runs a job of its own,
// with ranks as threads.
#pragma once

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
#include "tests/multirank/short_deadline.hpp"

namespace hmc {

/// The result on one rank: the code (success if no Error was thrown) and the error text.
struct Outcome {
  Code code = Code::success;
  std::string text;
  std::chrono::nanoseconds took{};
};

/// Parameters: number of ranks, number of simulated nodes.
class Mismatch : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  int nodes() const { return std::get<1>(GetParam()); }

  /// Runs `body` on every rank of a new job. A rank stops at its first Error.
  std::vector<Outcome> run(const std::function<void(Team& world, int rank)>& body,
                           std::chrono::nanoseconds deadline = std::chrono::seconds(30)) {
    return run_runtime([&body](Runtime& runtime, int rank) { body(runtime.world(), rank); }, deadline);
  }
  std::vector<Outcome> run_runtime(const std::function<void(Runtime& runtime, int rank)>& body,
                                   std::chrono::nanoseconds deadline = std::chrono::seconds(30)) {
    auto places = bootstrap::make_inproc(ranks(), nodes());
    std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks()));
    std::barrier everybody(ranks());
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks(); ++rank) {
      threads.emplace_back([&, rank, place = std::move(places[static_cast<std::size_t>(rank)])]() mutable {
        base::Env env = base::Env::from_process();
        if (!forced.empty()) env.coll = forced;
        Runtime runtime = start_without_hurry(std::move(place), env);
        set_deadline(runtime, deadline);
        everybody.arrive_and_wait();
        Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
        const auto start = std::chrono::steady_clock::now();
        try {
          body(runtime, rank);
        } catch (const Error& error) {
          outcome = {error.code(), error.what(), {}};
        }
        outcome.took = std::chrono::steady_clock::now() - start;
        everybody.arrive_and_wait();  // the other ranks report a rank that leaves earlier as failed
      });
    }
    for (std::thread& thread : threads) thread.join();
    return outcomes;
  }

  /// Every rank reports the mismatch long before the deadline. Its text names each rank's call and contains all of
  /// `calls`.
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
  /// Forms of the text: "rank 1 called", "ranks 0, 2 called", "rank 3 hasn't come so far" (still in an earlier call).
  static bool names(const std::string& text, int rank) {
    const std::string number = std::string(" ").append(std::to_string(rank));
    return count_of(text, number + " called ") + count_of(text, number + ", ") + count_of(text, number + " ha") > 0;
  }

  /// Half of the deadline. Detection takes milliseconds; the rest allows for other load on the machine.
  std::chrono::nanoseconds at_most = std::chrono::seconds(15);
  std::string forced;  ///< in the syntax of HMC_COLL, for jobs started later
  std::vector<std::uint64_t> in = std::vector<std::uint64_t>(200'000, 1);
  /// Each thread has its own output; only the input is shared.
  static std::vector<std::uint64_t> output() { return std::vector<std::uint64_t>(1'600'000); }
};

}  // namespace hmc
