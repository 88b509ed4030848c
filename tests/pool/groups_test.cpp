// The groups of the shared store: one order of joins and leaves, candidates, and a thousand members.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include <hmc/store.hpp>

#include "bootstrap/tcp/shared_groups.hpp"

namespace hmc::bootstrap::test {
namespace {

using testing::ElementsAre;

/// Keeps what the tables send, by owner.
struct Sent final : StoreSink {
  void answer(StoreOwner to, const StoreAnswer& answer) override { answers[to].push_back(answer); }
  void event(StoreOwner to, const StoreEvent& event) override {
    events[to].push_back(event);
    ++event_count;
  }
  std::vector<std::string> texts(StoreOwner of) {
    std::vector<std::string> result;
    for (const StoreEvent& each : events[of])
      result.push_back(fmt::format("{}{}{}@{}",
                                   each.kind == StoreEvent::Kind::joined ? '+'
                                   : each.kind == StoreEvent::Kind::left ? '-'
                                                                         : 'p',
                                   each.number, each.flag ? "!" : "", each.version));
    return result;
  }
  std::map<StoreOwner, std::vector<StoreAnswer>> answers;
  std::map<StoreOwner, std::vector<StoreEvent>> events;
  std::size_t event_count = 0;
};

struct Groups : testing::Test {
  Sent sent;
  SharedGroups groups{sent};
  std::uint64_t last_id = 0;

  StoreAnswer call(StoreOwner from, StoreOp op, std::int64_t number = 8, std::int64_t other = -1) {
    StoreCall message;
    message.id = ++last_id;
    message.op = op;
    message.key = "pool";
    message.number = number;
    message.other = other;
    message.value = {std::byte{static_cast<unsigned char>(from)}};
    EXPECT_TRUE(groups.handle(from, message));
    return sent.answers[from].back();
  }
  GroupView enter(StoreOwner from, std::int64_t size = 8) {
    return *base::decode<GroupView>(call(from, StoreOp::enter, size).value);
  }
};

TEST_F(Groups, a_candidate_becomes_a_member_by_its_commit) {
  EXPECT_EQ(enter(1).rank, 0);
  EXPECT_EQ(call(1, StoreOp::commit).number, 1);
  const GroupView second = enter(2);
  EXPECT_EQ(second.version, 1U);
  ASSERT_EQ(second.members.size(), 1U);
  EXPECT_FALSE(second.members[0].is_candidate);
  EXPECT_EQ(second.members[0].card, base::Bytes{std::byte{1}});
  EXPECT_THAT(sent.texts(1), ElementsAre("+0@1"));  // nothing of the candidate
  EXPECT_EQ(call(2, StoreOp::commit).number, 2);
  EXPECT_THAT(sent.texts(1), ElementsAre("+0@1", "+1@2"));
  EXPECT_EQ(call(1, StoreOp::leave).number, 3);
  EXPECT_THAT(sent.texts(2), ElementsAre("+1@2", "-0@3"));
  EXPECT_EQ(enter(3).rank, 0);  // used again
}

TEST_F(Groups, the_end_of_a_candidate_changes_no_version) {
  enter(1);
  call(1, StoreOp::commit);
  enter(2);
  const GroupView third = enter(3);
  ASSERT_EQ(third.members.size(), 2U);
  EXPECT_TRUE(third.members[1].is_candidate);
  groups.forget(2);
  EXPECT_THAT(sent.texts(1), ElementsAre("+0@1", "-1!@1"));
  EXPECT_THAT(sent.texts(3), ElementsAre("-1!@1"));
  EXPECT_EQ(call(3, StoreOp::commit).number, 2);
  groups.forget(1);
  EXPECT_THAT(sent.texts(3), ElementsAre("-1!@1", "+2@2", "-0!@3"));
}

TEST_F(Groups, calls_of_others_are_refused) {
  enter(1);
  EXPECT_EQ(call(2, StoreOp::commit).code, Code::not_found);
  EXPECT_EQ(call(2, StoreOp::leave).code, Code::not_found);
  EXPECT_EQ(call(2, StoreOp::post, 0, 0).code, Code::not_found);
  EXPECT_EQ(call(1, StoreOp::enter).code, Code::invalid_argument);
  EXPECT_EQ(call(2, StoreOp::enter, 4).code, Code::mismatch);
  EXPECT_EQ(call(2, StoreOp::enter, 0).code, Code::invalid_argument);
  EXPECT_EQ(call(2, StoreOp::enter, 8, 8).code, Code::invalid_argument);
  EXPECT_EQ(call(2, StoreOp::enter, 8, 0).code, Code::unavailable);
  EXPECT_EQ(call(1, StoreOp::post, 0, 5).code, Code::peer_failed);
  EXPECT_EQ(sent.event_count, 0U);
}

TEST_F(Groups, the_cost_of_a_join_is_linear_in_the_members) {
  for (StoreOwner owner = 1; owner <= 1000; ++owner) {
    const std::size_t before = sent.event_count;
    EXPECT_EQ(enter(owner, 1024).members.size(), owner - 1);
    call(owner, StoreOp::commit);
    EXPECT_EQ(sent.event_count - before, owner);  // one event per member
  }
  for (StoreOwner owner = 1; owner <= 1000; ++owner) {
    ASSERT_EQ(sent.events[owner].back().version, 1000U);
    ASSERT_EQ(sent.events[owner].size(), 1001 - owner);
  }
}

}  // namespace
}  // namespace hmc::bootstrap::test
