// Target with large messages, whose bytes arrive in parts: the link reads them to the address that place() returns.
#include <array>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/unit/transport/target_fixture.hpp"

namespace hmc::transport::am {
namespace {

TEST_F(MessageTarget, large_put_is_received_in_place_and_signals_when_complete) {
  Message put = from_peer(MessageKind::put_signal);
  put.offset = 16;
  put.bytes = 100;
  put.first = 120;
  put.second = 77;
  ASSERT_TRUE(target_.begin(put));
  for (const std::uint64_t at : {0U, 1U, 99U}) EXPECT_EQ(target_.place(put, at).to, memory_.data() + 64 + 16 + at);
  EXPECT_TRUE(clean()) << "the signal was stored before the bytes";
  target_.finish(put);
  EXPECT_EQ(word(120), 77U);
  EXPECT_FALSE(target_.owes());
  receive(from_peer(MessageKind::put), 8);
  EXPECT_EQ(word(0), 0U) << "the next message isn't the one that was due";
}

TEST_F(MessageTarget, large_put_is_split_at_the_bounds_of_receives) {
  std::array<std::byte, 128> fields{};
  DirectReceive first{.offset = 20, .bytes = 30, .to = fields.data()};
  DirectReceive second{.offset = 50, .bytes = 10, .to = fields.data() + 40};  // adjoins the first
  DirectReceive third{.offset = 70, .bytes = 100, .to = fields.data() + 60};  // after a gap, beyond the end of the put
  Regions::Registered* const region = regions_.find(region_, 0, 1);
  for (DirectReceive* const direct : {&third, &first, &second}) region->receives.push_back(direct);
  Message put = from_peer(MessageKind::put);
  put.offset = 10;
  put.bytes = 80;  // 10 to 90 of the region
  ASSERT_TRUE(target_.begin(put));
  std::byte* const base = memory_.data() + 64;
  struct Piece {
    std::uint64_t at, bytes;
    std::byte* to;
  };
  const std::array<Piece, 5> pieces{{{0, 10, base + 10},
                                     {10, 30, fields.data()},
                                     {40, 10, fields.data() + 40},
                                     {50, 10, base + 60},
                                     {60, 20, fields.data() + 60}}};
  for (const Piece& piece : pieces) {
    // Two reads each, as a link may do.
    for (const std::uint64_t done : {std::uint64_t{0}, piece.bytes / 3}) {
      const auto place = target_.place(put, piece.at + done);
      EXPECT_EQ(place.to, piece.to + done) << piece.at;
      EXPECT_EQ(place.bytes, piece.bytes - done) << piece.at;
      target_.filled(put, piece.at + done, done == 0 ? piece.bytes / 3 : piece.bytes - done);
    }
  }
  target_.finish(put);
  for (const auto& [direct, end] : {std::pair(&first, 30U), {&second, 10U}, {&third, 20U}}) {
    ASSERT_EQ(direct->count, 1U);
    EXPECT_EQ(direct->parts[0].begin, 0U);
    EXPECT_EQ(direct->parts[0].end, end);
  }
  EXPECT_TRUE(clean()) << "nothing was written: the link does that";
  std::erase(region->receives, &first);
  EXPECT_EQ(target_.place(put, 10).to, base + 20);
  EXPECT_EQ(target_.place(put, 10).bytes, 30U) << "up to the second";
}

TEST_F(MessageTarget, bytes_outside_of_receives_stay_in_the_region) {
  std::array<std::byte, 128> field{};
  DirectReceive direct{.offset = 0, .bytes = 128, .to = field.data()};
  regions_.find(region_, 0, 1)->receives.push_back(&direct);
  const std::uint64_t most = direct.parts.size();
  for (std::uint64_t i = 0; i < most + 2; ++i) {  // no two are adjacent
    Message put = from_peer(MessageKind::put);
    put.offset = 4 * i;
    data_.fill(std::byte{0x11});
    receive(put, 2);
  }
  EXPECT_EQ(direct.count, most);
  for (std::uint64_t i = 0; i < most + 2; ++i) {
    const bool received = i < most;
    EXPECT_EQ(field[4 * i], received ? std::byte{0x11} : std::byte{0}) << i;
    EXPECT_EQ(memory_[64 + 4 * i], received ? untouched : std::byte{0x11}) << i;
  }
  Message put = from_peer(MessageKind::put);
  put.offset = 2;  // starts where a part ends
  receive(put, 2);
  EXPECT_EQ(field[2], std::byte{0x11});
  EXPECT_EQ(direct.parts[0].end, 4U);
}

TEST_F(MessageTarget, large_put_outside_of_its_region_is_dropped) {
  std::uint64_t refused = 0;
  for (const auto& [offset, bytes, signal] : {std::array<std::uint64_t, 3>{29, 100, 0},
                                              {129, 1, 0},
                                              {UINT64_MAX - 3, 8, 0},
                                              {0, UINT64_MAX, 0},
                                              {0, 100, 121},
                                              {0, 100, 128},
                                              {0, 100, 4}}) {
    Message put = from_peer(MessageKind::put_signal);
    put.offset = offset;
    put.bytes = bytes;
    put.first = signal;
    ASSERT_TRUE(target_.begin(put));
    EXPECT_EQ(target_.place(put, 0).to, nullptr);
    target_.finish(put);
    EXPECT_EQ(target_.refusals().requests, ++refused);
  }
  EXPECT_TRUE(clean());
  EXPECT_TRUE(target_.owes()) << "the sender gets a reply";
  EXPECT_TRUE(peers_.at(1).failure.ok());
}

TEST_F(MessageTarget, large_put_is_dropped_after_deregistration) {
  Message put = from_peer(MessageKind::put_signal);
  put.bytes = 100;
  put.first = 120;
  put.second = 77;
  ASSERT_TRUE(target_.begin(put));
  ASSERT_NE(target_.place(put, 0).to, nullptr);
  regions_.find(region_, 0, 1)->uses = 0;
  EXPECT_EQ(target_.place(put, 50).to, nullptr);
  const Regions::Key heir = regions_.add(memory_.data() + 64, 128);
  EXPECT_EQ(heir.index, region_.index);
  EXPECT_EQ(target_.place(put, 50).to, nullptr) << "it was mistaken for its successor";
  target_.finish(put);
  EXPECT_TRUE(clean());
  EXPECT_EQ(target_.refusals().requests, 1U);
  EXPECT_TRUE(peers_.at(1).failure.ok());
}

TEST_F(MessageTarget, large_message_of_a_type_without_bytes_fails_the_peer) {
  for (const MessageKind kind : {MessageKind::get, MessageKind::atomic, MessageKind::flush, MessageKind::result,
                                 MessageKind::flushed, MessageKind::refused}) {
    Peers peers(link_, tickets_, quiet_);
    peers.create(3, 0, secret);
    Target target(peers, tickets_, regions_, quiet_);
    Message message = from_peer(kind);
    set_sequence(message, 0);
    message.bytes = 20000;
    EXPECT_FALSE(target.begin(message));
    EXPECT_EQ(peers.at(1).failure.code, Code::error);
    EXPECT_FALSE(target.owes());
    set_sequence(message, 1);
    message.kind = MessageKind::put;
    message.bytes = 100;
    EXPECT_FALSE(target.begin(message)) << "its messages are accepted again";
  }
}

TEST_F(MessageTarget, large_message_of_an_unknown_or_reordered_peer_is_not_started) {
  Message put = from_peer(MessageKind::put);
  put.bytes = 100;
  put.tag += 1;
  EXPECT_FALSE(target_.begin(put));
  EXPECT_EQ(target_.refusals().strangers, 1U);
  EXPECT_TRUE(peers_.at(1).failure.ok());
  set_sequence(put, 1);
  EXPECT_FALSE(target_.begin(put));
  EXPECT_EQ(peers_.at(1).failure.code, Code::error);
}

TEST_F(MessageTarget, large_answer_is_written_to_its_destination_and_counted_once) {
  std::array<std::byte, 64> destination{};
  const Ticket get = tickets_.open({.peer = 1, .left = 64, .destination = destination.data(), .bytes = 64});
  std::mutex lock;
  for (const std::uint64_t offset : {0U, 40U}) {
    Message got = from_peer(MessageKind::got);
    got.ticket = get;
    got.offset = offset;
    got.bytes = offset == 0 ? 40 : 24;
    ASSERT_TRUE(target_.begin(got));
    EXPECT_EQ(target_.place(got, 5).to, destination.data() + offset + 5);
    EXPECT_EQ(tickets_.test(get, &lock).code, Code::in_progress);
    target_.finish(got);
  }
  EXPECT_TRUE(tickets_.test(get, &lock).ok());
}

TEST_F(MessageTarget, unexpected_or_oversized_large_answer_is_dropped) {
  std::array<std::byte, 64> destination{};
  const Ticket get = tickets_.open({.peer = 1, .left = 64, .destination = destination.data(), .bytes = 64});
  std::mutex lock;
  for (const auto& [offset, bytes] :
       {std::pair<std::uint64_t, std::uint64_t>{1, 64}, {65, 0}, {UINT64_MAX, 2}, {0, UINT64_MAX}}) {
    Message got = from_peer(MessageKind::got);
    got.ticket = get;
    got.offset = offset;
    got.bytes = bytes;
    ASSERT_TRUE(target_.begin(got));
    EXPECT_EQ(target_.place(got, 0).to, nullptr);
    target_.finish(got);
    EXPECT_EQ(tickets_.test(get, &lock).code, Code::in_progress);
  }
  Message got = from_peer(MessageKind::got);
  got.ticket = get;
  got.bytes = 64;
  ASSERT_TRUE(target_.begin(got));
  ASSERT_NE(target_.place(got, 0).to, nullptr);
  tickets_.release(get);
  EXPECT_EQ(target_.place(got, 32).to, nullptr) << "it was abandoned";
  target_.finish(got);
}

}  // namespace
}  // namespace hmc::transport::am
