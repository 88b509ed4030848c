// The state machines of the store and the agent, without sockets.
#include <gtest/gtest.h>

#include "bootstrap/common.hpp"
#include "bootstrap/tcp/node_shares.hpp"
#include "bootstrap/tcp/shared_values.hpp"
#include "bootstrap/tcp/store_state.hpp"

namespace hmc::bootstrap {
namespace {

Contribution from(int rank, std::uint64_t round, RoundKind kind = RoundKind::allgather) {
  return {round, kind, {{rank, {static_cast<std::byte>(rank + 1)}}}};
}

TEST(StoreRounds, result_is_sent_when_the_last_rank_joined) {
  StoreRounds rounds(3);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(rounds.contribute(from(2, 0))));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(rounds.contribute(from(2, 0))))
      << "a second contribution is ignored";
  EXPECT_EQ(rounds.missing(0), (std::vector<std::int32_t>{0, 1}));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(rounds.contribute(from(0, 0))));
  const auto outcome = rounds.contribute(from(1, 0));
  ASSERT_TRUE(std::holds_alternative<Result>(outcome));
  EXPECT_EQ(std::get<Result>(outcome).by_rank[2], base::Bytes{std::byte{3}});
}

TEST(StoreRounds, late_ranks_get_the_failure_of_a_round) {
  StoreRounds rounds(3);
  (void)rounds.contribute(from(0, 4, RoundKind::barrier));
  EXPECT_EQ(std::get<RoundFailed>(rounds.contribute(from(1, 4))).code, Code::mismatch);
  EXPECT_EQ(std::get<RoundFailed>(rounds.contribute(from(2, 4))).code, Code::mismatch);
}

TEST(StoreRounds, goodbye_fails_rounds_that_need_the_rank) {
  StoreRounds rounds(2);
  (void)rounds.contribute(from(0, 1));
  const auto failed = rounds.leave(1);
  ASSERT_EQ(failed.size(), 1U);
  EXPECT_EQ(failed[0].code, Code::closed);
  EXPECT_EQ(failed[0].peer, 1);
  EXPECT_EQ(std::get<RoundFailed>(rounds.contribute(from(0, 2))).peer, 1);
}

/// Values with small limits, and the answers.
class StoredValues : public ::testing::Test, private StoreSink {
 protected:
  void answer(StoreOwner to, const StoreAnswer& answer) override { answers_.emplace_back(to, answer); }
  void event(StoreOwner /*to*/, const StoreEvent& /*event*/) override { FAIL() << "nothing is watched"; }
  void get(StoreOwner owner, std::uint64_t id, const std::string& key) {
    EXPECT_TRUE(values_.handle(owner, {.id = id, .op = StoreOp::get, .key = key, .flag = true}));
  }
  /// Of the answer to this call.
  Code set(const std::string& key, std::size_t bytes) {
    answers_.clear();
    EXPECT_TRUE(values_.handle(9, {.id = 1, .op = StoreOp::set, .key = key, .value = base::Bytes(bytes)}));
    return answers_.front().second.code;
  }
  std::vector<std::pair<StoreOwner, StoreAnswer>> answers_;
  SharedValues values_{*this, {.value_bytes = 10, .bytes = 20}};
};

TEST_F(StoredValues, cancelled_calls_and_ended_owners_get_no_value) {
  get(1, 5, "key");
  get(2, 6, "key");
  get(3, 7, "key");
  EXPECT_TRUE(answers_.empty());
  EXPECT_TRUE(values_.cancel(1, 5));
  EXPECT_FALSE(values_.cancel(1, 5));
  ASSERT_EQ(answers_.size(), 1U);
  EXPECT_EQ(answers_.front().second.code, Code::timeout);
  values_.forget(2);
  EXPECT_EQ(set("key", 4), Code::success);
  ASSERT_EQ(answers_.size(), 2U);
  EXPECT_EQ(answers_.back().first, 3U);
  EXPECT_EQ(answers_.back().second.id, 7U);
  EXPECT_EQ(answers_.back().second.value.size(), 4U);
}

TEST_F(StoredValues, keys_and_values_have_one_limit_together) {
  EXPECT_EQ(set("a", 11), Code::invalid_argument) << "longer than a value may be";
  EXPECT_EQ(set("a", 9), Code::success);
  EXPECT_EQ(set("b", 9), Code::success);
  EXPECT_EQ(set("c", 0), Code::out_of_memory) << "the key counts";
  EXPECT_EQ(set("a", 3), Code::success);
  EXPECT_EQ(set("c", 5), Code::success);
  EXPECT_TRUE(values_.handle(9, {.id = 1, .op = StoreOp::remove, .key = "b"}));
  EXPECT_EQ(set("d", 9), Code::success);
}

TEST(NodeShares, large_shares_are_split_for_the_kernel) {
  constexpr std::size_t members = 600;
  NodeShares shares(members);
  const auto fd = std::make_shared<base::UniqueFd>(::dup(0));
  for (std::size_t seat = 0; seat < members; ++seat) {
    EXPECT_EQ(shares.offer(seat, {1, seat + 1, seat, {}}, seat == 5 ? nullptr : fd), seat == members - 1);
  }
  std::size_t next = 0;
  std::size_t fds = 0;
  for (const NodeShares::Part& part : shares.answer(1, 300)) {
    EXPECT_LE(part.fds.size(), control::most_fds_per_frame);
    EXPECT_LE(encode(part.message).size(), *payload_limit(on_wire(MessageType::share_result)));
    fds += part.fds.size();
    for (const auto& item : part.message.items) {
      const auto expected = next == 5     ? ShareResult::What::nothing
                            : next == 300 ? ShareResult::What::your_own
                                          : ShareResult::What::descriptor;
      EXPECT_EQ(item.what, expected);
      EXPECT_EQ(item.bytes, next + 1);
      ++next;
    }
  }
  EXPECT_EQ(next, members);
  EXPECT_EQ(fds, members - 2);
}

TEST(NodeShares, group_shares_without_the_other_ranks) {
  NodeShares shares(5);
  const auto fd = std::make_shared<base::UniqueFd>(::dup(0));
  EXPECT_FALSE(shares.offer(0, {1, 10, 0, {}}, fd)) << "the whole node's round waits";
  EXPECT_FALSE(shares.offer(3, {77, 13, 0, {1, 3}}, fd));
  EXPECT_EQ(shares.missing(77), std::vector<std::size_t>{1});
  EXPECT_EQ(shares.rounds_without(1), (std::vector<std::uint64_t>{1, 77}));
  EXPECT_EQ(shares.rounds_without(2), std::vector<std::uint64_t>{1});
  EXPECT_TRUE(shares.offer(1, {77, 11, 0, {1, 3}}, nullptr));
  EXPECT_EQ(shares.local_indexes(77), (std::vector<std::uint32_t>{1, 3}));
  const auto parts = shares.answer(77, 3);
  ASSERT_EQ(parts.size(), 1U);
  ASSERT_EQ(parts[0].message.items.size(), 2U);
  EXPECT_EQ(parts[0].message.items[0].what, ShareResult::What::nothing);
  EXPECT_EQ(parts[0].message.items[1].what, ShareResult::What::your_own);
  EXPECT_EQ(parts[0].message.items[1].bytes, 13U);
}

TEST(NodeShares, invalid_groups_are_rejected) {
  NodeShares shares(4);
  EXPECT_TRUE(shares.admits(2, {1, 0, 0, {}}));
  EXPECT_TRUE(shares.admits(2, {1, 0, 0, {0, 2}}));
  EXPECT_FALSE(shares.admits(1, {1, 0, 0, {0, 2}})) << "it isn't one of them";
  EXPECT_FALSE(shares.admits(2, {1, 0, 0, {2, 0}})) << "not ascending";
  EXPECT_FALSE(shares.admits(2, {1, 0, 0, {2, 2}})) << "twice";
  EXPECT_FALSE(shares.admits(2, {1, 0, 0, {2, 4}})) << "there is no such seat";
  (void)shares.offer(0, {1, 0, 0, {0, 2}}, nullptr);
  EXPECT_FALSE(shares.admits(2, {1, 0, 0, {1, 2}})) << "another group than in the other offers";
}

std::vector<RankProcess> first_processes(int size) {
  std::vector<RankProcess> all;
  for (int rank = 0; rank < size; ++rank) all.push_back({rank, 0});
  return all;
}
Vote vote_of(int rank, Ballot::Step step, std::uint64_t number, std::vector<RankProcess> members, bool ok = true,
             std::uint32_t life = 0) {
  return {{step, number, std::move(members), ok, ok ? "" : "no descriptors"}, 0, {rank, life}};
}
std::vector<int> recipients(const std::vector<DecisionFor>& decisions) {
  std::vector<int> ranks;
  for (const DecisionFor& each : decisions) ranks.push_back(each.recipient.rank);
  return ranks;
}
using Step = Ballot::Step;

TEST(StoreAgreements, shrink_is_decided_when_the_last_living_rank_votes) {
  StoreAgreements agreements(4);
  const auto all = first_processes(4);
  EXPECT_TRUE(agreements.vote(vote_of(0, Step::shrink, 0, all)).empty());
  EXPECT_TRUE(agreements.end(2).empty());
  EXPECT_TRUE(agreements.vote(vote_of(3, Step::shrink, 0, all)).empty());
  const auto decisions = agreements.vote(vote_of(1, Step::shrink, 0, all));
  EXPECT_EQ(recipients(decisions), (std::vector<int>{0, 1, 3}));
  EXPECT_TRUE(decisions[0].decision.agreed);
  EXPECT_EQ(decisions[0].decision.members, (std::vector<RankProcess>{{0, 0}, {1, 0}, {3, 0}}));
}

TEST(StoreAgreements, death_during_a_shrink_decides_it) {
  StoreAgreements agreements(3);
  const auto all = first_processes(3);
  (void)agreements.end(2);
  EXPECT_TRUE(agreements.vote(vote_of(0, Step::shrink, 0, all)).empty());
  const auto decisions = agreements.end(1);
  EXPECT_EQ(recipients(decisions), std::vector<int>{0});
  EXPECT_EQ(decisions[0].decision.members, (std::vector<RankProcess>{{0, 0}}));
}

TEST(StoreAgreements, rank_that_dies_after_its_vote_is_not_among_the_survivors) {
  StoreAgreements agreements(3);
  const auto all = first_processes(3);
  (void)agreements.vote(vote_of(1, Step::shrink, 0, all));
  (void)agreements.end(1);
  (void)agreements.end(2);
  const auto decisions = agreements.vote(vote_of(0, Step::shrink, 0, all));
  ASSERT_FALSE(decisions.empty());
  EXPECT_EQ(decisions[0].decision.members, (std::vector<RankProcess>{{0, 0}}));
}

TEST(StoreAgreements, confirmation_fails_if_a_member_has_failed_or_ended) {
  StoreAgreements agreements(3);
  const auto all = first_processes(3);
  (void)agreements.vote(vote_of(0, Step::confirm, 1, all));
  (void)agreements.vote(vote_of(1, Step::confirm, 1, all, false));
  auto decisions = agreements.vote(vote_of(2, Step::confirm, 1, all));
  ASSERT_EQ(decisions.size(), 3U);
  EXPECT_FALSE(decisions[0].decision.agreed);
  EXPECT_EQ(decisions[0].decision.text, "no descriptors");
  (void)agreements.vote(vote_of(0, Step::confirm, 2, all));
  (void)agreements.vote(vote_of(1, Step::confirm, 2, all));
  decisions = agreements.end(2);
  ASSERT_EQ(decisions.size(), 2U);
  EXPECT_FALSE(decisions[0].decision.agreed);
  (void)agreements.vote(vote_of(0, Step::confirm, 3, {{0, 0}, {1, 0}}));
  EXPECT_TRUE(agreements.vote(vote_of(1, Step::confirm, 3, {{0, 0}, {1, 0}})).at(0).decision.agreed);
}

TEST(StoreAgreements, grow_waits_for_the_replacement_and_includes_it) {
  StoreAgreements agreements(3);
  (void)agreements.end(1);
  const std::vector<RankProcess> left{{0, 0}, {2, 0}};
  (void)agreements.vote(vote_of(0, Step::grow, 4, left));
  EXPECT_TRUE(agreements.vote(vote_of(2, Step::grow, 4, left)).empty());
  agreements.replace(1);
  const auto decisions = agreements.vote(vote_of(1, Step::stand_by, 0, {}, true, 1));
  EXPECT_EQ(recipients(decisions), (std::vector<int>{0, 2, 1}));
  EXPECT_EQ(decisions[0].decision.number, 4U);
  EXPECT_EQ(decisions[0].decision.members, (std::vector<RankProcess>{{0, 0}, {1, 1}, {2, 0}}));
}

TEST(StoreAgreements, replaced_process_still_counts_as_ended_in_a_shrink) {
  StoreAgreements agreements(2);
  (void)agreements.end(1);
  agreements.replace(1);
  EXPECT_TRUE(agreements.vote(vote_of(1, Step::stand_by, 0, {}, true, 1)).empty());
  const auto decisions = agreements.vote(vote_of(0, Step::shrink, 0, first_processes(2)));
  ASSERT_EQ(decisions.size(), 1U);
  EXPECT_EQ(decisions[0].decision.members, (std::vector<RankProcess>{{0, 0}}));
}

TEST(StoreAgreements, replacement_gets_no_decision_of_the_process_before_it) {
  StoreAgreements agreements(3);
  const auto all = first_processes(3);
  (void)agreements.vote(vote_of(1, Step::confirm, 1, all));
  (void)agreements.end(1);
  agreements.replace(1);
  EXPECT_TRUE(agreements.vote(vote_of(1, Step::stand_by, 0, {}, true, 1)).empty());
  (void)agreements.vote(vote_of(0, Step::confirm, 1, all));
  EXPECT_EQ(recipients(agreements.vote(vote_of(2, Step::confirm, 1, all))), (std::vector<int>{0, 2}));
  // It still waits for the next grow.
  (void)agreements.vote(vote_of(0, Step::grow, 2, {{0, 0}, {2, 0}}));
  const auto decisions = agreements.vote(vote_of(2, Step::grow, 2, {{0, 0}, {2, 0}}));
  EXPECT_EQ(recipients(decisions), (std::vector<int>{0, 2, 1}));
  EXPECT_EQ(decisions.back().recipient, (RankProcess{1, 1}));
}

TEST(StoreAgreements, vote_of_a_replaced_process_is_ignored) {
  StoreAgreements agreements(2);
  (void)agreements.end(1);
  agreements.replace(1);
  EXPECT_TRUE(agreements.vote(vote_of(1, Step::stand_by, 0, {}, true, 0)).empty());
  EXPECT_TRUE(agreements.vote(vote_of(0, Step::grow, 0, {{0, 0}})).empty()) << "the replacement hasn't voted";
  EXPECT_EQ(recipients(agreements.vote(vote_of(1, Step::stand_by, 0, {}, true, 1))), (std::vector<int>{0, 1}));
}

TEST(StoreAgreements, grow_fails_at_once_if_a_rank_gets_no_replacement) {
  StoreAgreements agreements(3);
  (void)agreements.end(1);
  const std::vector<RankProcess> left{{0, 0}, {2, 0}};
  EXPECT_TRUE(agreements.vote(vote_of(0, Step::grow, 0, left)).empty());
  EXPECT_TRUE(agreements.no_replacement(1, "the reason").empty()) << "rank 2 may make another call";
  auto decisions = agreements.vote(vote_of(2, Step::grow, 0, left));
  ASSERT_EQ(recipients(decisions), (std::vector<int>{0, 2}));
  EXPECT_FALSE(decisions[0].decision.agreed);
  EXPECT_EQ(decisions[0].decision.code, Code::unavailable);
  EXPECT_NE(decisions[0].decision.text.find("rank 1: the reason"), std::string::npos);
  (void)agreements.vote(vote_of(0, Step::grow, 1, left));
  decisions = agreements.vote(vote_of(2, Step::shrink, 1, left));
  ASSERT_EQ(recipients(decisions), (std::vector<int>{0, 2}));
  EXPECT_EQ(decisions[0].decision.code, Code::mismatch);

  // The launcher replaces no rank: known for the whole job.
  StoreAgreements starts_once(2, "the reason");
  (void)starts_once.vote(vote_of(0, Step::grow, 0, first_processes(2)));
  decisions = starts_once.vote(vote_of(1, Step::grow, 0, first_processes(2)));
  EXPECT_TRUE(decisions.at(0).decision.agreed) << "no rank has ended";
  (void)starts_once.end(1);
  decisions = starts_once.vote(vote_of(0, Step::grow, 1, {{0, 0}}));
  EXPECT_EQ(decisions.at(0).decision.code, Code::unavailable);
  EXPECT_NE(decisions[0].decision.text.find("rank 1: the reason"), std::string::npos);
}

TEST(StoreAgreements, replacements_are_refused_when_no_process_can_call_grow) {
  StoreAgreements agreements(3);
  (void)agreements.end(1);
  agreements.replace(1);
  EXPECT_TRUE(agreements.vote(vote_of(1, Step::stand_by, 0, {}, true, 1)).empty());
  EXPECT_TRUE(agreements.end(0).empty());
  EXPECT_FALSE(agreements.has_no_member());
  const auto decisions = agreements.leave(2);
  EXPECT_TRUE(agreements.has_no_member());
  ASSERT_EQ(recipients(decisions), std::vector<int>{1});
  EXPECT_FALSE(decisions[0].decision.agreed);
  EXPECT_EQ(decisions[0].decision.code, Code::unavailable);
  agreements.replace(0);
  EXPECT_EQ(recipients(agreements.vote(vote_of(0, Step::stand_by, 0, {}, true, 1))), std::vector<int>{0});
}

TEST(StoreAgreements, replacement_after_a_failed_attempt_is_refused_when_no_process_can_call_grow) {
  StoreAgreements agreements(2);
  (void)agreements.end(1);
  agreements.replace(1);
  (void)agreements.vote(vote_of(0, Step::grow, 0, {{0, 0}}));
  EXPECT_EQ(recipients(agreements.vote(vote_of(1, Step::stand_by, 0, {}, true, 1))), (std::vector<int>{0, 1}));
  (void)agreements.end(0);
  const std::vector<RankProcess> both{{0, 0}, {1, 1}};
  EXPECT_FALSE(agreements.vote(vote_of(1, Step::confirm, 1, both, false, 1)).at(0).decision.agreed);
  EXPECT_EQ(recipients(agreements.vote(vote_of(1, Step::stand_by, 0, {}, true, 1))), std::vector<int>{1});
}

TEST(StoreAgreements, grow_with_a_dead_member_is_refused) {
  StoreAgreements agreements(3);
  (void)agreements.end(1);
  (void)agreements.end(2);
  const auto decisions = agreements.vote(vote_of(0, Step::grow, 0, {{0, 0}, {2, 0}}));
  ASSERT_EQ(decisions.size(), 1U);
  EXPECT_FALSE(decisions[0].decision.agreed);
  EXPECT_TRUE(decisions[0].decision.missing.empty());
}

TEST(StoreAgreements, deadline_names_the_missing_ranks_to_late_voters_too) {
  StoreAgreements agreements(3);
  const auto all = first_processes(3);
  Vote first = vote_of(0, Step::shrink, 0, all);
  first.timeout_ms = 1;
  (void)agreements.vote(first);
  EXPECT_GE(agreements.left_ms(), 0);
  std::vector<DecisionFor> decisions;
  while (decisions.empty()) decisions = agreements.expire();
  EXPECT_FALSE(decisions[0].decision.agreed);
  EXPECT_EQ(decisions[0].decision.missing, (std::vector<std::int32_t>{1, 2}));
  const auto late = agreements.vote(vote_of(1, Step::shrink, 0, all));
  EXPECT_EQ(recipients(late), std::vector<int>{1});
  EXPECT_EQ(late[0].decision.missing, (std::vector<std::int32_t>{1, 2}));
}

TEST(StoreAgreements, different_calls_fail_on_all_ranks) {
  StoreAgreements agreements(3);
  const auto all = first_processes(3);
  (void)agreements.vote(vote_of(0, Step::shrink, 0, all));
  const auto decisions = agreements.vote(vote_of(1, Step::grow, 0, all));
  ASSERT_EQ(recipients(decisions), (std::vector<int>{0, 1}));
  EXPECT_NE(decisions[0].decision.text.find("different orders"), std::string::npos);
  const auto late = agreements.vote(vote_of(2, Step::shrink, 0, all));
  ASSERT_EQ(recipients(late), std::vector<int>{2});
  EXPECT_FALSE(late[0].decision.agreed);
  EXPECT_EQ(late[0].decision.text, decisions[0].decision.text);
}

TEST(Facts, nodes_are_numbered_by_their_lowest_rank) {
  std::vector<RankFacts> facts(5);
  const int given[] = {7, 3, 7, 9, 3};
  for (int rank = 0; rank < 5; ++rank) {
    facts[static_cast<std::size_t>(rank)].rank = rank;
    facts[static_cast<std::size_t>(rank)].node = given[rank];
  }
  number_nodes(facts);
  const int nodes[] = {0, 1, 0, 2, 1};
  const int local_indexes[] = {0, 0, 1, 0, 1};
  for (std::size_t rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(facts[rank].node, nodes[rank]);
    EXPECT_EQ(facts[rank].local_index, local_indexes[rank]);
  }
  EXPECT_EQ(members_of(facts, 1), (std::vector<int>{1, 4}));
}

TEST(Facts, lists_of_ranks_are_abbreviated) {
  EXPECT_EQ(list_ranks({}), "no rank");
  EXPECT_EQ(list_ranks({3}), "rank 3");
  EXPECT_EQ(list_ranks({3, 4}), "ranks 3, 4");
  EXPECT_EQ(list_ranks({0, 2, 3, 4, 9}), "ranks 0, 2-4, 9");
  std::vector<int> odd;
  for (int rank = 1; rank < 100; rank += 2) odd.push_back(rank);
  EXPECT_LT(list_ranks(odd).size(), 100U);
  EXPECT_NE(list_ranks(odd).find("50 in all"), std::string::npos);
}

}  // namespace
}  // namespace hmc::bootstrap
