// The verifier refutes each kind of incorrect schedule with the correct reason. The schedules are written by hand.
#include <gtest/gtest.h>

#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/builder.hpp"
#include "verify/checker.hpp"

namespace {

using namespace hmc::collectives::schedule;
using hmc::CollectiveKind;
using hmc::verify::Case;
using hmc::verify::check;

/// A team whose steps the test writes. The algorithm only supplies the name of the case.
class Team {
 public:
  Team(int size, const Call& call, bool shares_memory = false)
      : call_(call),
        algorithm_(algorithm_of(call.collective)),
        shape_{size, 1, shares_memory},
        schedules_(static_cast<std::size_t>(size)) {}

  template <typename Write> Team& rank(int rank, const Write& write) {
    Builder b(shape_, call_, rank, schedules_[static_cast<std::size_t>(rank)]);
    write(b);
    return *this;
  }
  std::vector<Schedule>& schedules() { return schedules_; }
  /// Empty: proved.
  std::string verdict() const {
    const Case subject(algorithm_, shape_, call_);
    const auto found = check(subject, schedules_);
    return found ? found->what : "";
  }

 private:
  static const Algorithm& algorithm_of(CollectiveKind collective) {
    for (const Algorithm& algorithm : algorithms())
      if (algorithm.collective == collective) return algorithm;
    throw std::logic_error("no algorithm");
  }

  Call call_;
  const Algorithm& algorithm_;
  Shape shape_;
  std::vector<Schedule> schedules_;
};

Call call_of(CollectiveKind collective, std::uint64_t count, std::uint32_t element_bytes = 4) {
  Call call;
  call.collective = collective;
  call.count = count;
  call.element_bytes = element_bytes;
  return call;
}

::testing::AssertionResult says(const std::string& verdict, const std::string& words) {
  if (verdict.find(words) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "says '" << verdict << "', not '" << words << "'";
}

/// A correct broadcast of 8 bytes from rank 0 to rank 1.
Team broadcast() {
  Team team(2, call_of(CollectiveKind::broadcast, 2));
  team.rank(0, [](Builder& b) {
    b.put(input(), 1, 0, 8, 0);
    b.copy(input(), output(), 8);
    b.flush_local();
  });
  team.rank(1, [](Builder& b) {
    b.allocate_scratch(8);
    b.wait(0, 0);
    b.copy(scratch(), output(), 8);
  });
  return team;
}

/// A correct allreduce of two ranks, in rank order.
Team allreduce(bool commutative) {
  Call call = call_of(CollectiveKind::allreduce, 2);
  call.commutative = commutative;
  Team team(2, call);
  for (const int rank : {0, 1})
    team.rank(rank, [rank](Builder& b) {
      b.allocate_scratch(8);
      b.put(input(), 1 - rank, 0, 8, 0);
      b.wait(1 - rank, 0);
      b.copy(input(), output(), 8);
      if (rank == 0)
        b.reduce(scratch(), output(), 8);
      else
        b.reduce_before(scratch(), output(), 8);
      b.flush_local();
    });
  return team;
}

TEST(Checker, correct_schedules_are_proved) {
  EXPECT_EQ(broadcast().verdict(), "");
  EXPECT_EQ(allreduce(true).verdict(), "");
  EXPECT_EQ(allreduce(false).verdict(), "");
}

TEST(Checker, missing_step_is_a_wrong_output) {
  Team team = broadcast();
  team.schedules()[1].steps.pop_back();
  EXPECT_TRUE(says(team.verdict(), "instead of byte 0 of the contributions of 0"));
}

TEST(Checker, use_before_the_wait_is_detected) {
  Team team = broadcast();
  std::swap(team.schedules()[1].steps[0], team.schedules()[1].steps[1]);
  EXPECT_TRUE(says(team.verdict(), "weren't written") || says(team.verdict(), "awaits only in step 1"));
}

TEST(Checker, wait_for_an_unsignalled_slot_is_detected) {
  Team team = broadcast();
  team.schedules()[0].steps.erase(team.schedules()[0].steps.begin());
  EXPECT_TRUE(says(team.verdict(), "waits for a slot that no rank raises"));
}

TEST(Checker, signal_without_a_wait_is_detected) {
  Team team = broadcast();
  team.schedules()[1].steps.clear();
  EXPECT_TRUE(says(team.verdict(), "never waits for slot 0"));
}

TEST(Checker, slot_signalled_twice_is_detected) {
  Team team = broadcast();
  team.rank(0, [](Builder& b) { b.signal(1, 0); });
  EXPECT_TRUE(says(team.verdict(), "raises this slot too"));
}

TEST(Checker, wait_for_the_wrong_rank_is_detected) {
  Team team(3, call_of(CollectiveKind::barrier, 0));
  team.rank(0, [](Builder& b) { b.signal(1, 0); }).rank(1, [](Builder& b) { b.wait(2, 0); });
  EXPECT_TRUE(says(team.verdict(), "is raised by rank 0"));
}

TEST(Checker, barrier_without_all_ranks_is_detected) {
  Team team(3, call_of(CollectiveKind::barrier, 0));
  for (const int rank : {0, 1, 2})
    team.rank(rank, [rank](Builder& b) {
      b.signal((rank + 1) % 3, 0);
      b.wait((rank + 2) % 3, 0);
    });
  EXPECT_TRUE(says(team.verdict(), "ends without a signal that shows the entry of rank 1"));
}

TEST(Checker, cycle_of_waits_is_detected) {
  Team team(2, call_of(CollectiveKind::barrier, 0));
  for (const int rank : {0, 1})
    team.rank(rank, [rank](Builder& b) {
      b.wait(1 - rank, 0);
      b.signal(1 - rank, 0);
    });
  EXPECT_TRUE(says(team.verdict(), "waits forever: rank 0 <- rank 1 in its step 0 <- rank 0"));
}

TEST(Checker, access_beyond_a_buffer_is_detected) {
  Team put = broadcast(), read = broadcast(), write = broadcast();
  put.schedules()[1].scratch_bytes = 7;
  EXPECT_TRUE(says(put.verdict(), "puts beyond the end of the scratch"));
  read.schedules()[0].steps[0].from = ~std::uint64_t{0} - 3;
  EXPECT_TRUE(says(read.verdict(), "reads beyond the end of the input"));
  write.schedules()[1].steps[1].to = 4;
  EXPECT_TRUE(says(write.verdict(), "writes beyond the end of the output"));
}

TEST(Checker, put_into_another_buffer_or_to_itself_is_detected) {
  Team other = broadcast(), self = broadcast();
  other.schedules()[0].steps[0].to_buffer = StepBuffer::output;
  EXPECT_TRUE(says(other.verdict(), "other than scratch"));
  Team team(2, call_of(CollectiveKind::barrier, 0));
  team.rank(0, [](Builder& b) {
    b.signal(0, 0);
    b.wait(0, 0);
  });
  EXPECT_TRUE(says(team.verdict(), "puts to itself"));
}

TEST(Checker, source_in_use_at_the_end_is_detected) {
  Team team = broadcast();
  team.schedules()[0].steps.pop_back();
  EXPECT_TRUE(says(team.verdict(), "when the schedule has ended"));
}

TEST(Checker, source_overwritten_during_a_put_is_detected) {
  // In place, rank 0 reduces into the buffer of a put in flight.
  Call call = call_of(CollectiveKind::allreduce, 2);
  call.in_place = true;
  const auto write = [](bool flushes) {
    return [flushes](Builder& b) {
      const int other = 1 - b.rank;
      b.allocate_scratch(8);
      b.put(input(), other, 0, 8, 0);
      b.wait(other, 0);
      if (flushes) b.flush_local();
      b.reduce(scratch(), output(), 8);
      b.flush_local();
    };
  };
  Team wrong(2, call), right(2, call);
  for (const int rank : {0, 1}) {
    wrong.rank(rank, write(false));
    right.rank(rank, write(true));
  }
  EXPECT_TRUE(says(wrong.verdict(), "may still be reading"));
  EXPECT_EQ(right.verdict(), "");
}

/// Rank 0 sends two messages to one offset of rank 1. Only if rank 0 waits for rank 1's signal, rank 1 reads the first
/// before the second arrives.
Team reused(bool waits) {
  Call call = call_of(CollectiveKind::alltoall, 1, 8);
  Team team(2, call);
  team.rank(0, [&](Builder& b) {
    b.allocate_scratch(8);
    b.put(input(), 1, 0, 8, 0);
    if (waits) b.wait(1, 1);
    b.put(input(8), 1, 0, 8, 1);
    b.copy(input(), output(), 8);
    b.wait(1, 0);
    b.copy(scratch(), output(8), 8);
    b.flush_local();
  });
  team.rank(1, [&](Builder& b) {
    b.allocate_scratch(8);
    b.wait(0, 0);
    if (waits) b.signal(0, 1);
    b.wait(0, 1);
    b.copy(scratch(), output(), 8);
    b.copy(input(8), output(8), 8);
    b.put(input(), 0, 0, 8, 0);
    b.flush_local();
  });
  if (!waits) team.schedules()[0].slots = 1;
  return team;
}

TEST(Checker, two_messages_to_one_place_are_detected) {
  EXPECT_EQ(reused(true).verdict(), "");
  EXPECT_TRUE(says(reused(false).verdict(), "overwrites bytes of another message"));
}

TEST(Checker, message_into_bytes_in_use_is_detected) {
  Team team = reused(true);
  // Rank 1 reads the first message after its signal allows rank 0 to overwrite it.
  Step late;
  late.kind = StepKind::copy;
  late.from_buffer = StepBuffer::scratch;
  late.to_buffer = StepBuffer::output;
  late.bytes = 8;
  auto& steps = team.schedules()[1].steps;
  steps.insert(steps.begin() + 2, late);
  EXPECT_TRUE(says(team.verdict(), "may still use in its step 2") || says(team.verdict(), "awaits only in step"));
}

/// Rank 1 gets 8 bytes of rank 0's scratch. `signals`: after rank 0 has written them. `acknowledges`: before rank 0
/// writes them again.
Team gotten(bool shares_memory, bool signals, bool acknowledges, bool overwrites) {
  Team team(2, call_of(CollectiveKind::broadcast, 2), shares_memory);
  team.rank(0, [&](Builder& b) {
    b.allocate_scratch(8);
    if (!signals) b.signal(1, 0);
    b.copy(input(), scratch(), 8);
    if (signals) b.signal(1, 0);
    if (acknowledges) b.wait(1, 0);
    if (overwrites) b.copy(input(), scratch(), 8);
    b.copy(input(), output(), 8);
  });
  team.rank(1, [&](Builder& b) {
    b.wait(0, 0);
    b.get(0, 0, output(), 8);
    if (acknowledges) b.signal(0, 0);
  });
  return team;
}

TEST(Checker, get_is_ordered_by_signals) {
  EXPECT_EQ(gotten(true, true, false, false).verdict(), "");
  EXPECT_EQ(gotten(true, true, true, true).verdict(), "");
  EXPECT_TRUE(says(gotten(false, true, false, false).verdict(), "shares no memory"));
  const std::string early = gotten(true, false, false, false).verdict();
  EXPECT_TRUE(says(early, "weren't written") || says(early, "gets bytes that rank 0 may still use in its step 1") ||
              says(early, "that the get of rank 1's step 1 may still be reading"));
  const std::string overwritten = gotten(true, true, false, true).verdict();
  EXPECT_TRUE(says(overwritten, "gets bytes that rank 0 may still use in its step 2") ||
              says(overwritten, "that the get of rank 1's step 1 may still be reading"));
}

TEST(Checker, get_of_a_message_before_its_wait_is_detected) {
  // Rank 2 gets what rank 0 has put to rank 1. It knows of the message only if rank 1, not rank 0, signals.
  for (const int signaller : {0, 1}) {
    Team team(3, call_of(CollectiveKind::broadcast, 2), true);
    team.rank(0, [&](Builder& b) {
      b.put(input(), 1, 0, 8, 0);
      if (signaller == 0) b.signal(2, 0);
      b.copy(input(), output(), 8);
      b.flush_local();
    });
    team.rank(1, [&](Builder& b) {
      b.allocate_scratch(8);
      b.wait(0, 0);
      b.copy(scratch(), output(), 8);
      if (signaller == 1) b.signal(2, 0);
    });
    team.rank(2, [&](Builder& b) {
      b.wait(signaller, 0);
      b.get(1, 0, output(), 8);
    });
    if (signaller == 1)
      EXPECT_EQ(team.verdict(), "");
    else
      EXPECT_NE(team.verdict(), "");
  }
}

TEST(Checker, get_beyond_a_buffer_or_from_itself_is_detected) {
  Team past = gotten(true, true, false, false), self = gotten(true, true, false, false);
  past.schedules()[1].steps[1].from = 4;
  EXPECT_TRUE(says(past.verdict(), "gets beyond the end of the scratch"));
  self.schedules()[1].steps[1].peer = 1;
  EXPECT_TRUE(says(self.verdict(), "gets from itself"));
}

TEST(Checker, repeated_or_reordered_contribution_is_detected) {
  Team twice = allreduce(true), order = allreduce(false);
  auto& steps = twice.schedules()[0].steps;
  steps.insert(steps.begin() + 3, steps[3]);
  EXPECT_TRUE(says(twice.verdict(), "a wrong combination"));
  order.schedules()[0].steps[3].reversed = true;
  EXPECT_TRUE(says(order.verdict(), "the contributions of 1 then 0"));
}

TEST(Checker, split_or_shifted_elements_are_detected) {
  Team cut = allreduce(true), shifted = allreduce(true);
  cut.schedules()[0].steps[3].bytes = 6;
  EXPECT_TRUE(says(cut.verdict(), "cuts an element"));
  shifted.schedules()[0].steps[3].bytes = 4;
  shifted.schedules()[0].steps[3].from = 4;
  EXPECT_TRUE(says(shifted.verdict(), "combines byte 0 with byte 4"));
}

TEST(Checker, deterministic_result_from_parts_is_detected) {
  Call call = call_of(CollectiveKind::allreduce, 2);
  call.deterministic = true;
  Team team(1, call);
  team.rank(0, [](Builder& b) {
    b.copy(input(), output(), 8);
    b.allocate_scratch(8);
    b.copy(input(), scratch(), 8);
    b.reduce(scratch(), output(), 8);
  });
  EXPECT_TRUE(says(team.verdict(), "only fold is deterministic"));
}

/// An allreduce of two ranks: rank `turned` folds rank 1's part before rank 0's, the other rank folds in rank order.
Team folding(Call call, int turned) {
  call.collective = CollectiveKind::allreduce;
  call.count = 2;
  call.element_bytes = 4;
  Team team(2, call);
  for (const int rank : {0, 1})
    team.rank(rank, [=](Builder& b) {
      const int other = 1 - rank;
      const auto place_of = [](int part, bool is_turned) { return (part == 1) != is_turned ? 8U : 0U; };
      b.allocate_scratch(16);
      b.put(input(), other, place_of(rank, other == turned), 8, 0);
      b.copy(input(), scratch(place_of(rank, rank == turned)), 8);
      b.wait(other, 0);
      b.fold(scratch(), 8, 2, output(), 8);
      b.flush_local();
    });
  return team;
}

TEST(Checker, deterministic_folds_have_one_order_on_all_ranks) {
  constexpr int nobody = -1;
  Call plain, deterministic, not_commutative;
  deterministic.deterministic = true;
  not_commutative.commutative = false;
  for (const Call& call : {plain, deterministic, not_commutative}) EXPECT_EQ(folding(call, nobody).verdict(), "");
  for (const int rank : {0, 1}) {
    EXPECT_EQ(folding(plain, rank).verdict(), "");
    EXPECT_TRUE(says(folding(deterministic, rank).verdict(), "the contributions of 1 then 0"));
    EXPECT_TRUE(says(folding(not_commutative, rank).verdict(), "the contributions of 1 then 0"));
  }
}

TEST(Checker, undivided_average_is_detected) {
  Call call = call_of(CollectiveKind::allreduce, 2);
  call.op = hmc::Op::avg;
  Team team(1, call);
  team.rank(0, [](Builder& b) { b.copy(input(), output(), 8); });
  EXPECT_TRUE(says(team.verdict(), "instead of byte 0 of the average of"));
  team.rank(0, [](Builder& b) { b.scale(output(), 8); });
  EXPECT_EQ(team.verdict(), "");
}

TEST(Checker, write_into_a_gap_of_the_user_buffer_is_detected) {
  const std::vector<std::uint64_t> counts{1, 1}, displacements{0, 2};
  Call call = call_of(CollectiveKind::gather, 0, 8);
  call.counts = counts;
  call.displacements = displacements;
  Team team(2, call);
  team.rank(0, [](Builder& b) {
    b.allocate_scratch(8);
    b.copy(input(), output(), 8);
    b.wait(1, 0);
    b.copy(scratch(), output(16), 8);
  });
  team.rank(1, [](Builder& b) {
    b.put(input(), 0, 0, 8, 0);
    b.flush_local();
  });
  EXPECT_EQ(team.verdict(), "");
  team.rank(0, [](Builder& b) { b.copy(scratch(), output(8), 8); });
  EXPECT_TRUE(says(team.verdict(), "instead of byte 8 of the caller's old bytes"));
}

}  // namespace
