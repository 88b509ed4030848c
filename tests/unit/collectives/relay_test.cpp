// Simulated ranks that relay failure reports: every live rank gets all reports, and the messages grow like log N.
#include "collectives/mismatch/relay.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <random>
#include <vector>

namespace hmc::collectives {
namespace {

constexpr std::int64_t step_ns = 1'000'000;

Signature call_of(int count) {
  return Signature::make(CollectiveKind::allreduce, static_cast<std::uint64_t>(count), 0, DType::u64);
}

/// All ranks made calls 1 to 9 alike. Call 10 differs.
FailureReport report_of(Signature tenth, Code code = Code::timeout, std::uint64_t calls = 10) {
  FailureReport report;
  report.code = static_cast<std::uint64_t>(code);
  report.peer = static_cast<std::uint64_t>(-1);
  report.call = 10;
  report.calls = calls;
  for (std::uint64_t call = 1; call <= calls; ++call)
    report.signatures[call - 1] = call < 10 ? call_of(1).word() : tenth.word();
  return report;
}

/// The team of a simulated job. A live rank reads the alarm, then relays it; a dead rank does neither.
struct SimulatedTeam {
  explicit SimulatedTeam(int size) : ranks(static_cast<std::size_t>(size)) {}
  struct Rank {
    bool dead = false;
    bool is_slow = false;  ///< it computes, and its background thread relays from time to time
    bool has_left = false;
    FailureReport report;
    Relay relay;
    int alarms = 0;
    int summaries = 0;
    std::vector<int> used_slots;
  };
  struct Sent {
    int to = 0;
    bool is_alarm = false;
    FailureSummary summary;
  };
  std::vector<Rank> ranks;
  std::deque<Sent> in_flight;
  std::int64_t now = 0;

  Rank& at(int rank) { return ranks[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(ranks.size()); }

  void fail(int number) {
    Rank& rank = at(number);
    rank.relay.begin(number, size(), FailureSummary(number, rank.report, false), now);
    for (int k = 0; k < Relay::partners(size()); ++k, ++rank.alarms)
      in_flight.push_back({Relay::partner(number, size(), k), true, {}});
    relay(number);
  }
  void relay(int number) {
    Rank& rank = at(number);
    for (Relay::Message message; rank.relay.next(now, message); ++rank.summaries) {
      Rank& target = at(message.peer);
      EXPECT_LT(message.slot, Relay::slots(size()));
      EXPECT_EQ(std::ranges::count(target.used_slots, message.slot), 0) << "written twice";
      target.used_slots.push_back(message.slot);
      in_flight.push_back({message.peer, false, rank.relay.summary()});
    }
    rank.has_left = rank.relay.has_begun() && rank.relay.is_complete();
  }
  /// Delivers messages for 250 ms, in steps. In random order if there is a generator.
  void run(std::mt19937* random = nullptr) {
    for (; now < 250 * step_ns; now += step_ns) {
      while (!in_flight.empty()) {
        if (random != nullptr) std::swap(in_flight.front(), in_flight[(*random)() % in_flight.size()]);
        const Sent sent = in_flight.front();
        in_flight.pop_front();
        Rank& target = at(sent.to);
        if (target.dead) continue;
        if (!target.relay.has_begun()) {
          if (sent.is_alarm)
            fail(sent.to);
          else
            early.push_back(sent);  // it stays in its slot
          continue;
        }
        if (sent.is_alarm || target.has_left) continue;
        if (target.is_slow && now % (8 * step_ns) != 0) {
          early.push_back(sent);
          continue;
        }
        target.relay.take(sent.summary);
        relay(sent.to);
      }
      std::vector<Sent> waiting;
      waiting.swap(early);
      for (const Sent& sent : waiting) in_flight.push_back(sent);
      for (int rank = 0; rank < size(); ++rank)
        if (!at(rank).dead && !at(rank).is_slow && !at(rank).has_left) relay(rank);
    }
  }
  std::vector<Sent> early;

  void expect_all_reported() {
    for (int number = 0; number < size(); ++number) {
      Rank& rank = at(number);
      if (rank.dead) continue;
      ASSERT_TRUE(rank.relay.has_begun()) << "rank " << number << " of " << size() << " got no alarm";
      for (int other = 0; other < size(); ++other)
        ASSERT_EQ(rank.relay.has_report_of(other), !at(other).dead)
            << "rank " << number << " of " << size() << " about rank " << other;
    }
  }
};

TEST(Relay, every_rank_gets_every_report_with_messages_that_grow_like_log_n) {
  for (const int size : {1, 2, 3, 5, 8, 13, 16, 64, 100, 256, 1000, 1024}) {
    SimulatedTeam team(size);
    for (int rank = 0; rank < size; ++rank) team.at(rank).report = report_of(call_of(rank == size / 2 ? 7 : 5));
    team.fail(size / 3);
    team.run();
    team.expect_all_reported();
    const int log = static_cast<int>(std::bit_width(static_cast<unsigned>(size - 1)));
    int most = 0;
    for (int rank = 0; rank < size; ++rank) {
      const SimulatedTeam::Rank& each = team.at(rank);
      most = std::max(most, each.summaries);
      EXPECT_LE(each.alarms, log);
      EXPECT_LE(each.summaries, log) << "of " << size;
      EXPECT_TRUE(each.relay.is_complete());
      EXPECT_EQ(each.relay.first_missing(), -1);
      if (size == 1) continue;
      const FailureSummary& summary = each.relay.summary();
      EXPECT_EQ(summary.conflict(), 10U);
      EXPECT_EQ(summary.differing_from(call_of(5)), size / 2);
      EXPECT_EQ(summary.differing_from(call_of(7)), 0);
      for (int other = 0; other < size; ++other) {
        const PeerReport part = summary.part_of(other, other, true);
        ASSERT_EQ(part.part, PeerReport::Part::called);
        ASSERT_EQ(part.signature, call_of(other == size / 2 ? 7 : 5)) << "rank " << rank << " about " << other;
      }
    }
    RecordProperty("summaries_sent_by_a_rank_of_" + std::to_string(size), most);
    RecordProperty("bytes_of_slots_in_a_team_of_" + std::to_string(size),
                   static_cast<int>(static_cast<std::size_t>(Relay::slots(size)) * sizeof(FailureSummary)));
  }
}

TEST(Relay, dead_ranks_in_the_middle_do_not_cut_the_spread) {
  for (const int size : {3, 4, 5, 8, 16, 64, 256, 1024}) {
    for (std::uint32_t seed = 0; seed < (size > 256 ? 2U : 12U); ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed);
      std::mt19937 random(seed);
      SimulatedTeam team(size);
      for (int rank = 0; rank < size; ++rank) team.at(rank).report = report_of(call_of(5));
      const bool in_a_row = seed % 2 == 0;
      int dead = seed % 3 == 0 ? 1 : std::max(1, size / 20);
      if (!in_a_row) dead = std::min(dead, static_cast<int>(FailureSummary::most_gaps) / 2);
      const int first = static_cast<int>(random() % static_cast<unsigned>(size));
      for (int i = 0; i < dead; ++i) {
        team.at(in_a_row ? (first + i) % size : static_cast<int>(random() % static_cast<unsigned>(size))).dead = true;
      }
      int begin = 0;
      while (team.at(begin).dead) ++begin;
      team.fail(begin);
      team.run(&random);
      team.expect_all_reported();
      for (int rank = 0; rank < size; ++rank)
        if (!team.at(rank).dead) {
          EXPECT_LE(team.at(rank).summaries, Relay::slots(size));
        }
    }
  }
}

TEST(Relay, ranks_that_relay_slowly_delay_the_spread_and_do_not_cut_it) {
  for (const int size : {2, 4, 8, 64, 1024}) {
    SimulatedTeam team(size);
    for (int rank = 0; rank < size; ++rank) {
      team.at(rank).report = report_of(call_of(5));
      team.at(rank).is_slow = rank % 8 == 1;
    }
    team.fail(0);
    team.run();
    team.expect_all_reported();
  }
}

TEST(FailureSummary, finds_the_earliest_conflict_in_any_order_of_merging) {
  std::vector<FailureSummary> all;
  for (int rank = 0; rank < 24; ++rank) {
    FailureReport report = report_of(call_of(rank % 5), Code::timeout, rank == 6 ? 9 : 10);
    if (rank >= 20) report.signatures[7] = call_of(99).word();  // call 8
    if (rank == 3) report.calls = 7, report.signatures[7] = report.signatures[8] = report.signatures[9] = 0;
    if (rank == 11) report.code = static_cast<std::uint64_t>(Code::mismatch), report.peer = 77;
    all.emplace_back(rank, report, false);
  }
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    std::vector<FailureSummary> left = all;
    std::ranges::shuffle(left, random);
    while (left.size() > 1) {
      left[random() % (left.size() - 1)].merge(left.back());
      if (random() % 4 != 0) left.pop_back();  // else the same reports once more
    }
    const FailureSummary& summary = left.front();
    EXPECT_EQ(summary.conflict(), 8U);
    EXPECT_EQ(summary.witness(), 11);
    EXPECT_EQ(summary.witness_call(), 10U);
    for (int rank = 0; rank < 24; ++rank) {
      const PeerReport part = summary.part_of(rank, rank, true);
      if (rank == 3) {
        EXPECT_EQ(part.part, PeerReport::Part::absent);
      } else {
        EXPECT_EQ(part.signature, call_of(rank >= 20 ? 99 : 1)) << rank;
      }
    }
    EXPECT_EQ(summary.part_of(30, 77, false).part, PeerReport::Part::otherwise);
    EXPECT_EQ(summary.part_of(30, 78, false).part, PeerReport::Part::silent);
  }
}

TEST(FailureSummary, lists_the_lowest_ranks_and_drops_calls_only_past_its_room) {
  FailureSummary all(99, report_of(call_of(0)), false);
  for (int rank = 98; rank >= 0; --rank) all.merge(FailureSummary(rank, report_of(call_of(rank % 2)), false));
  for (int rank = 0; rank < 32; ++rank) EXPECT_EQ(all.part_of(rank, rank, true).signature, call_of(rank % 2));
  EXPECT_EQ(all.part_of(40, 40, true).part, PeerReport::Part::unlisted);
  FailureSummary many(0, report_of(call_of(0)), false);
  for (int rank = 1; rank < 20; ++rank) many.merge(FailureSummary(rank, report_of(call_of(rank)), false));
  for (int rank = 0; rank < 8; ++rank) EXPECT_EQ(many.part_of(rank, rank, true).signature, call_of(rank));
  EXPECT_EQ(many.part_of(15, 15, true).part, PeerReport::Part::unlisted);
}

TEST(FailureSummary, of_another_size_is_refused) {
  FailureSummary summary(5, report_of(call_of(0)), false);
  EXPECT_TRUE(summary.is_sound(6));
  EXPECT_FALSE(summary.is_sound(5));
  summary.from = 6;
  EXPECT_FALSE(summary.is_sound(6));
}

}  // namespace
}  // namespace hmc::collectives
