#include "bootstrap/tcp/protocol.hpp"

#include <gtest/gtest.h>

#include "bootstrap/tcp/shared_store_messages.hpp"

namespace hmc::bootstrap {
namespace {

template <typename Message> Message through_the_wire(const Message& message) {
  const base::Bytes payload = encode(message);
  EXPECT_LE(payload.size(), *payload_limit(on_wire(Message::type)));
  const auto back = decode<Message>(control::Frame{on_wire(Message::type), 0, payload});
  EXPECT_TRUE(back);
  // Neither a shorter nor a longer payload is accepted.
  for (std::size_t length = 0; length < payload.size(); ++length) {
    EXPECT_FALSE(decode<Message>(control::Frame{
        on_wire(Message::type), 0, {payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(length)}}));
  }
  base::Bytes longer = payload;
  longer.push_back({});
  EXPECT_FALSE(decode<Message>(control::Frame{on_wire(Message::type), 0, longer}));
  EXPECT_EQ(encode(*back), payload);
  return *back;
}

RankFacts facts_of(int rank) {
  RankFacts facts;
  facts.rank = rank;
  facts.node = rank + 100;
  facts.local_index = rank + 200;
  facts.pid = 0x7fffff00 + rank;
  facts.machine = 0x0123456789abcdefULL + static_cast<std::uint64_t>(rank);
  facts.network = 0xf0e1d2c3b4a59687ULL - static_cast<std::uint64_t>(rank);
  facts.cpus = {1, 2, 3, ~std::uint64_t{0}};
  facts.further_cpus = 0xfedcba98U;
  return facts;
}

TEST(Messages, facts_are_decoded_unchanged) {
  const Join back = through_the_wire(Join{3, {facts_of(0), facts_of(2)}});
  ASSERT_EQ(back.ranks.size(), 2U);
  EXPECT_EQ(back.job_size, 3);
  const RankFacts& facts = back.ranks[1];
  EXPECT_EQ(facts.rank, 2);
  EXPECT_EQ(facts.node, 102);
  EXPECT_EQ(facts.local_index, 202);
  EXPECT_EQ(facts.pid, 0x7fffff02);
  EXPECT_EQ(facts.machine, 0x0123456789abcdf1ULL);
  EXPECT_EQ(facts.network, 0xf0e1d2c3b4a59685ULL);
  EXPECT_EQ(facts.cpus, facts_of(2).cpus);
  EXPECT_EQ(facts.further_cpus, 0xfedcba98U);
}

TEST(Messages, message_size_per_rank_is_bounded) {
  const std::size_t two = encode(Table{{facts_of(0), facts_of(1)}}).size();
  const std::size_t three = encode(Table{{facts_of(0), facts_of(1), facts_of(2)}}).size();
  EXPECT_EQ(three - two, rank_facts_bytes);
  EXPECT_LE(three - two, 128U);
}

TEST(Messages, every_message_type_is_decoded_unchanged) {
  through_the_wire(NodeHello{4, 123, "node"});
  through_the_wire(Welcome{});
  through_the_wire(Page{0xfedcba9876543210ULL, 2});
  through_the_wire(Table{{facts_of(1)}});
  through_the_wire(Contribution{9, RoundKind::barrier, {{1, {std::byte{7}}}, {3, {}}}});
  through_the_wire(Result{9, {{std::byte{1}}, {}, {std::byte{2}, std::byte{3}}}});
  through_the_wire(RoundFailed{RoundFailed::Scope::node, 5, Code::mismatch, 2, "text"});
  through_the_wire(ShareOffer{5, 4096, 8192, {0, 3, 9}});
  through_the_wire(ShareResult{5, {{ShareResult::What::descriptor, 1, 2}, {ShareResult::What::nothing, 0, 0}}});
  through_the_wire(RankCall{2, {.id = 1, .op = StoreOp::swap, .key = "key", .value = {std::byte{9}}}});
  through_the_wire(RankAnswer{2, {1, Code::success, 3, true, {std::byte{9}}}});
  through_the_wire(MissingQuery{1, 2, MissingQuery::What::share, 3});
  through_the_wire(MissingReply{1, 2, {0, 5, 7}});
  through_the_wire(Abort({Code::aborted, 1, 42, "text"}));
  through_the_wire(Death{3, {Code::peer_failed, 1, 0, "text"}});
  through_the_wire(Vote{{Ballot::Step::confirm, 7, {{0, 1}, {2, 3}}, false, "text"}, 5, {2, 1}});
  through_the_wire(DecisionFor{{7, true, {{0, 1}}, {3, 4}, "text", Code::unavailable}, {2, 1}});
  through_the_wire(Lost{{3, 1}});
  through_the_wire(Cause{123});
  through_the_wire(NoReplacement{3, "text"});
  through_the_wire(Report{3, 60000, "text"});
  through_the_wire(Command{15});
  through_the_wire(StateQuery{5, 1, {2, 3}});
  through_the_wire(StateReply{5, 1, {{2, 77, "vm", true, base::activity_of(CollectiveKind::allreduce), 4, 5, 6}}});
  through_the_wire(Goodbye{3});
}

TEST(Messages, message_types_are_distinguished) {
  EXPECT_FALSE(
      decode<Abort>(control::Frame{on_wire(MessageType::failure), 0, encode(Abort({Code::aborted, 1, 2, "text"}))}));
}

TEST(Messages, count_beyond_the_input_allocates_nothing) {
  base::ByteWriter out;
  out.number(std::uint32_t{0xffffffff});  // announces 2^32 - 1 ranks without any data
  EXPECT_FALSE(decode<Table>(control::Frame{on_wire(MessageType::table), 0, out.take()}));
}

TEST(Messages, invalid_enum_value_is_rejected) {
  base::Bytes payload = encode(Contribution{9, RoundKind::barrier, {}});
  payload[8] = std::byte{2};
  EXPECT_FALSE(decode<Contribution>(control::Frame{on_wire(MessageType::contribution), 0, payload}));
}

}  // namespace
}  // namespace hmc::bootstrap
