// Mismatches in every form of a collective, and in calls that were made long ago.
#include "tests/multirank/collectives_mismatch.hpp"

namespace hmc {
namespace {

using namespace std::chrono_literals;

/// All ranks made the call: it must have used this form and no other.
void expect_calls_by(Team& world, std::string_view collective, std::string_view form) {
  EXPECT_GT(world.calls_by_algorithm(collective, form), 0U) << collective << " " << form;
  if (form == "direct") return;
  EXPECT_EQ(world.calls_by_algorithm(collective, "direct"), 0U) << collective;
}

TEST_P(Mismatch, different_schedules_are_reported) {
  forced = "gather:linear,scatter:linear,alltoall:pairwise,reduce_scatter:ring,scan:recursive_doubling,reduce:binomial";
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
  const auto outcomes = run([&](Team& world, int) {
    for (int kind = 0; kind < 9; ++kind) call(world, kind);
    expect_calls_by(world, "gather", "linear");
    expect_calls_by(world, "scatter", "linear");
    expect_calls_by(world, "alltoall", "pairwise");
    expect_calls_by(world, "reduce_scatter", "ring");
    expect_calls_by(world, "scan", "recursive_doubling");
  });
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, Code::success) << outcome.text;
  for (int kind = 0; kind < 10; ++kind) {
    const int other = (kind + 1) % 10;
    SCOPED_TRACE(testing::Message() << "kind " << kind << " against " << other);
    for (const int odd : {0, ranks() - 1}) {
      expect_mismatch(run([&](Team& world, int rank) {
        call(world, rank == odd ? other : kind);
        call(world, 4);  // a rank that completed the first call gets the error here
      }));
    }
  }
}

// One collective uses load and store where possible, the other a schedule.
TEST_P(Mismatch, schedule_against_another_collective_is_reported) {
  forced = "gather:binomial";
  const auto outcomes = run([&](Team& world, int rank) {
    auto out = output();
    if (rank == 0) world.barrier();
    world.gather(in.data(), out.data(), 8, ranks() - 1);
    if (rank != 0) world.barrier();
    world.alltoall(in.data(), out.data(), 8);
  });
  expect_mismatch(outcomes);
}

// Each form of a collective against each other form: load and store, a schedule, non-blocking.
TEST_P(Mismatch, different_forms_are_reported) {
  forced = "gather:binomial,alltoall:pairwise";
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
  const auto matching = run([&](Team& world, int) {
    for (int form = 0; form < 4; ++form) call(world, form);
    if (nodes() == 1) expect_calls_by(world, "barrier", "direct");
    if (nodes() == 1) expect_calls_by(world, "allreduce", "direct");
    expect_calls_by(world, "gather", "binomial");
    expect_calls_by(world, "alltoall", "pairwise");
  });
  for (const Outcome& outcome : matching) EXPECT_EQ(outcome.code, Code::success) << outcome.text;
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

// So many calls that a list of the last few wouldn't reach back to the mismatch.
TEST_P(Mismatch, old_call_among_many_in_flight_is_reported) {
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

// One rank is ahead by as many calls as possible.
TEST_P(Mismatch, calls_that_one_rank_completed_long_ago_are_reported) {
  const auto outcomes = run([&](Team& world, int rank) {
    auto out = output();
    for (int i = 0; i < 60; ++i) world.gather(in.data(), out.data(), rank == 1 && i == 5 ? 16 : 8, 0);
    world.barrier();
  });
  expect_mismatch(outcomes, {"gather(16 bytes, root 0)", "gather(8 bytes, root 0)"});
}

// Each rank is a root in its own view and waits for no message, until a rank is too far ahead.
TEST_P(Mismatch, calls_without_a_waiting_rank_are_reported) {
  const auto outcomes = run([&](Team& world, int rank) {
    std::uint64_t word = 0;
    for (int i = 0; i < 200; ++i) world.broadcast(&word, sizeof word, rank);
    ADD_FAILURE() << "rank " << rank << " got no error";
  });
  expect_mismatch(outcomes, {"broadcast(8 bytes, root 0)", "broadcast(8 bytes, root 1)"});
}

// The odd rank answers no query while it is outside a call. Its message or its ledger reports its call, so no rank
// reports it as missing.
TEST_P(Mismatch, sender_outside_of_calls_is_reported) {
  const int odd = ranks() - 1;
  std::barrier here(ranks()), told(ranks());
  const auto outcomes = run([&](Team& world, int rank) {
    auto out = output();
    here.arrive_and_wait();
    try {
      world.gather(in.data(), out.data(), rank == odd ? 8 : 16, 0);
      if (rank != odd) world.barrier();
    } catch (const Error&) {
      (void)told.arrive();
      throw;
    }
    told.arrive_and_wait();
    world.barrier();
  });
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.code, Code::mismatch) << outcome.text;
    EXPECT_LT(outcome.took, at_most) << outcome.text;
    EXPECT_NE(outcome.text.find("called gather(16 bytes, root 0)"), std::string::npos) << outcome.text;
    const bool names_it =
        outcome.text.find("rank " + std::to_string(odd) + " called gather(8 bytes, root 0)") != std::string::npos;
    EXPECT_TRUE(names_it ||
                (nodes() > 1 && outcome.text.find("rank " + std::to_string(odd) +
                                                  " called something else and is in no call now") != std::string::npos))
        << outcome.text;
  }
}

TEST_P(Mismatch, mismatch_ends_the_team) {
  const auto outcomes = run([&](Team& world, int rank) {
    std::uint64_t out = 0;
    try {
      world.allreduce(in.data(), &out, 1, DType::u64, rank == 0 ? sum : max);
      world.barrier();
    } catch (const Error&) {
      // All ranks agree again, but the team has failed.
      EXPECT_THROW(static_cast<void>(world.iallreduce(in.data(), &out, 1, DType::u64, sum)), Error);
      EXPECT_THROW(world.gather(in.data(), &out, 0, 0), Error);
      world.barrier();
    }
  });
  expect_mismatch(outcomes);
}

}  // namespace
}  // namespace hmc
