// Ranks that never call, and ranks that are slow.
#include <algorithm>

#include "tests/multirank/collectives_mismatch.hpp"

namespace hmc {
namespace {

using namespace std::chrono_literals;

struct Slow {
  bool is_slow;
  std::chrono::nanoseconds left = 2500ms;
};
/// A sum that is slow on one rank, in proportion to its elements. However the call is split, each step takes its share.
void add_slowly(void* accumulated, const void* next, std::size_t count, DType, void* context) {
  auto& slow = *static_cast<Slow*>(context);
  auto* const sum = static_cast<std::uint64_t*>(accumulated);
  for (std::size_t i = 0; i < count; ++i) sum[i] += static_cast<const std::uint64_t*>(next)[i];
  if (!slow.is_slow) return;
  const auto nap = std::min<std::chrono::nanoseconds>(slow.left, 25us * static_cast<std::int64_t>(count));
  slow.left -= nap;
  std::this_thread::sleep_for(nap);
}

TEST_P(Mismatch, requests_name_a_missing_rank) {
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
      EXPECT_LT(outcome.took, 30s);
    }
  }
}

// The deadline is for missing ranks, not for slow ones.
TEST_P(Mismatch, call_with_progress_has_no_deadline) {
  // Forced for its short steps, independent of the measured parameters. A step of recursive doubling would take half of
  // the deadline.
  forced = "allreduce:ring_segmented";
  for (const bool any : {false, true}) {
    const auto outcomes = run(
        [&](Team& world, int rank) {
          Slow slow{rank == 0};
          auto out = output();
          // The call takes longer than the deadline, each step less.
          Request requests[] = {
              world.iallreduce(in.data(), out.data(), 200'000, DType::u64, Reduction(add_slowly, &slow, true))};
          if (any) {
            static_cast<void>(Request::wait_any(requests));
          } else {
            requests[0].wait();
          }
          for (std::size_t i = 0; i < 200'000; i += 997) EXPECT_EQ(out[i], static_cast<std::uint64_t>(ranks()));
          EXPECT_EQ(world.calls_by_algorithm("allreduce", "ring_segmented"), 1U);
          world.barrier();
        },
        2000ms);
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(outcome.code, Code::success) << outcome.text;
      EXPECT_GT(outcome.took, 2000ms);
    }
  }
}

TEST_P(Mismatch, blocking_call_names_a_missing_rank) {
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
    EXPECT_LT(outcome.took, 30s);
  }
}

}  // namespace
}  // namespace hmc
