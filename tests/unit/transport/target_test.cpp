// Target with messages that no rank of this build would send.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "runtime/base/wait.hpp"
#include "tests/unit/transport/target_fixture.hpp"

namespace hmc::transport::am {
namespace {

TEST_F(MessageTarget, put_writes_inside_of_the_region) {
  Message put = from_peer(MessageKind::put);
  put.offset = 120;
  receive(put, 8);
  EXPECT_EQ(std::ranges::count(memory_, std::byte{0}), 8);
  EXPECT_EQ(memory_[64 + 120], std::byte{0});
}

/// Appends a joined message, in the sender's layout.
void ride(std::vector<std::byte>& all, Message message, std::span<const std::byte> data) {
  message.bytes = data.size();
  const auto* const header = reinterpret_cast<const std::byte*>(&message);
  all.insert(all.end(), header, header + sizeof message);
  all.insert(all.end(), data.begin(), data.end());
}

TEST_F(MessageTarget, attached_operations_run_after_their_message) {
  const std::array<std::byte, 3> first{std::byte{1}, std::byte{2}, std::byte{3}};
  const std::array<std::byte, 2> second{std::byte{4}, std::byte{5}};
  std::vector<std::byte> all(first.begin(), first.end());
  Message put = from_peer(MessageKind::put);
  put.bytes = first.size();
  Message next = put;
  next.offset = 2;  // overwrites the last byte of the first
  ride(all, next, second);
  Message add = put;
  add.kind = MessageKind::atomic;
  add.op = static_cast<std::uint8_t>(AtomicOp::set);
  add.offset = 16;
  add.first = 77;
  ride(all, add, {});
  target_.receive(put, all.data(), all.size());
  const std::array<std::byte, 5> expected{std::byte{1}, std::byte{2}, std::byte{4}, std::byte{5}, untouched};
  EXPECT_TRUE(std::ranges::equal(std::span(memory_).subspan(64, 5), expected));
  EXPECT_EQ(word(16), 77U);
  EXPECT_EQ(std::ranges::count(memory_, untouched), static_cast<std::ptrdiff_t>(memory_.size() - 4 - 8));
}

TEST_F(MessageTarget, truncated_message_fails_the_peer) {
  std::vector<std::byte> all;
  Message next = from_peer(MessageKind::put);
  set_sequence(next, --sequence_);
  next.offset = 8;
  ride(all, next, std::vector<std::byte>(4));
  // Cut in the header of the joined message, in its data, and in the first message's own data.
  for (const std::size_t left : {std::size_t{1}, sizeof(Message) - 1, sizeof(Message) + 3}) {
    Peers peers(link_, tickets_, quiet_);
    peers.create(3, 0, secret);
    Target target(peers, tickets_, regions_, quiet_);
    Message put = next;
    put.bytes = 0;
    target.receive(put, all.data(), left);
    EXPECT_TRUE(clean());
    EXPECT_FALSE(peers.at(1).failure.ok());
    set_sequence(put, 1);
    put.bytes = 8;
    target.receive(put, data_.data(), 8);
    EXPECT_TRUE(clean());
  }
  Message put = next;
  put.bytes = 9;
  target_.receive(put, data_.data(), 8);
  EXPECT_TRUE(clean());
}

TEST_F(MessageTarget, put_past_the_end_is_rejected) {
  for (const std::uint64_t offset : {121UL, 128UL, 129UL, UINT64_MAX, UINT64_MAX - 3}) {
    Message put = from_peer(MessageKind::put);
    put.offset = offset;
    receive(put, 8);
    Message atomic = from_peer(MessageKind::atomic);
    atomic.offset = offset & ~7UL;
    atomic.op = static_cast<std::uint8_t>(AtomicOp::set);
    if (atomic.offset >= 128)
      receive(atomic, 0);
    else
      --sequence_;
    Message get = from_peer(MessageKind::get);
    get.offset = offset;
    get.first = UINT64_MAX;
    receive(get, 0);
  }
  target_.answer();
  EXPECT_TRUE(clean());
}

TEST_F(MessageTarget, misaligned_word_and_invalid_width_are_rejected) {
  Message atomic = from_peer(MessageKind::atomic);
  atomic.offset = 4;
  receive(atomic, 0);
  atomic = from_peer(MessageKind::atomic);
  atomic.width = 2;
  receive(atomic, 0);
  atomic = from_peer(MessageKind::atomic);
  atomic.op = 99;
  receive(atomic, 0);
  Message signal = from_peer(MessageKind::put_signal);
  signal.first = 3;
  receive(signal, 0);
  EXPECT_TRUE(clean());
}

TEST_F(MessageTarget, reordered_messages_fail_the_peer) {
  (void)from_peer(MessageKind::put);  // a lost message
  receive(from_peer(MessageKind::put), 8);
  EXPECT_TRUE(clean());
  EXPECT_EQ(peers_.at(1).failure.code, Code::error);
  receive(from_peer(MessageKind::put), 8);  // the next one that was sent: in order again, but too late
  EXPECT_TRUE(clean());
}

// A thread that polls on another core and loads the signal also sees the bytes. (A rank that makes progress itself
// can't detect an error: it polls only before or after the whole message.)
TEST_F(MessageTarget, signal_is_written_after_the_bytes) {
  constexpr std::uint64_t over = UINT64_MAX;
  constexpr std::size_t bytes = 8192;
  std::vector<std::uint64_t> memory(bytes / 8 + 1);
  const Regions::Key key = regions_.add(reinterpret_cast<std::byte*>(memory.data()), bytes + 8);
  const std::atomic_ref<std::uint64_t> signal(memory.back());
  std::atomic<std::uint64_t> seen{0};
  std::uint64_t early = 0;
  std::thread observer([&] {
    for (std::uint64_t round = 1; round != over; ++round) {
      while (signal.load(std::memory_order_acquire) < round) base::cpu_relax();
      if (signal.load(std::memory_order_acquire) == over) return;
      early += memory[bytes / 8 - 1] != round ? 1 : 0;
      seen.store(round, std::memory_order_release);
    }
  });
  std::vector<std::uint64_t> data(bytes / 8);
  const auto deadline = base::Deadline::after(std::chrono::seconds(2));
  for (std::uint64_t round = 1; round <= 20000 && !deadline.expired(); ++round) {
    std::ranges::fill(data, round);
    Message put = from_peer(MessageKind::put_signal);
    put.region = key.index;
    put.nonce = key.nonce;
    put.first = bytes;
    put.second = round;
    put.bytes = bytes;
    target_.receive(put, reinterpret_cast<const std::byte*>(data.data()), bytes);
    while (seen.load(std::memory_order_acquire) < round) base::cpu_relax();
  }
  signal.store(over, std::memory_order_release);
  observer.join();
  EXPECT_EQ(early, 0U);
}

TEST_F(MessageTarget, message_of_an_unknown_peer_changes_nothing) {
  for (const std::uint64_t guess : {0UL, secret, tag_of(1, sequence_ + 2), tag_of(2, sequence_), UINT64_MAX}) {
    Message put = from_peer(MessageKind::put);
    put.tag = guess;
    receive(put, 8);
    Message answer = from_peer(MessageKind::refused);
    answer.tag = guess;
    receive(answer, 0);
    sequence_ -= 2;
  }
  EXPECT_TRUE(clean());
  EXPECT_EQ(target_.refusals().strangers, 10U);
  EXPECT_FALSE(target_.owes()) << "it got a reply";
  // The rank whose number the messages contained isn't affected: its next message is accepted.
  receive(from_peer(MessageKind::put), 8);
  EXPECT_EQ(word(0), 0U);
  EXPECT_TRUE(peers_.at(1).failure.ok());
  EXPECT_EQ(target_.refusals().strangers, 10U);
}

TEST_F(MessageTarget, many_rejections_write_few_log_lines) {
  Target target{peers_, tickets_, regions_, base::Log(base::LogLevel::error)};
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 130; ++i) {
    Message refused = from_peer(MessageKind::refused);  // of one of this rank's puts
    refused.bytes = 0;
    target.receive(refused, nullptr, 0);
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(target.refusals().own, 130U);
  EXPECT_EQ(std::ranges::count(text, '\n'), 8) << text;  // 1, 2, 4 and so on up to 128
  EXPECT_NE(text.find("(128 such refusals)"), std::string::npos) << text;
}

TEST_F(MessageTarget, rejected_request_does_not_affect_others) {
  Message put = from_peer(MessageKind::put);
  ++put.nonce;  // of a region that was deregistered
  receive(put, 8);
  Message signal = from_peer(MessageKind::put_signal);
  signal.first = 128;  // beyond the end of the region: not even its bytes may be stored
  receive(signal, 8);
  EXPECT_TRUE(clean());
  EXPECT_EQ(target_.refusals().requests, 2U);
  EXPECT_TRUE(target_.owes()) << "the sender gets a reply";
  receive(from_peer(MessageKind::put), 8);
  EXPECT_EQ(word(0), 0U);
  EXPECT_TRUE(peers_.at(1).failure.ok());
}

TEST_F(MessageTarget, rejection_ends_only_its_transfer) {
  const Regions::Key gone{3, 77};
  const Ticket get = tickets_.open({.peer = 1, .left = 8});
  const Ticket other = tickets_.open({.peer = 1, .left = 8});
  Message refused = from_peer(MessageKind::refused);
  refused.ticket = get;
  refused.region = gone.index;
  refused.nonce = gone.nonce;
  receive(refused, 0);
  std::mutex lock;
  EXPECT_EQ(tickets_.test(get, &lock).code, Code::error);
  EXPECT_EQ(tickets_.test(other, &lock).code, Code::in_progress);
  EXPECT_TRUE(peers_.at(1).failure.ok());
  EXPECT_TRUE(target_.was_refused(1, gone));
  EXPECT_FALSE(target_.was_refused(1, region_));
  EXPECT_FALSE(target_.was_refused(2, gone));
}

TEST_F(MessageTarget, rejected_put_is_reported_by_the_next_flush) {
  const Regions::Key theirs{5, 99};
  target_.add_channel(1, theirs);
  for (const bool refused : {true, false}) {
    if (refused) refuse_put_to(theirs);
    EXPECT_EQ(flush_to_peer(), refused ? Code::error : Code::success);
  }
}

TEST_F(MessageTarget, answer_to_a_flush_covers_the_verbs_before_it_and_no_later_one) {
  AmPeer& peer = peers_.at(1);
  peer.posted = peer.asked = 5;
  for (const auto& [covered, flushed] : {std::pair{2U, 2U}, {1U, 2U}, {4U, 4U}, {9U, 4U}}) {  // 9: never posted
    Message answer = from_peer(MessageKind::flushed);
    answer.first = covered;
    receive(answer, 0);
    EXPECT_EQ(peer.flushed, flushed) << "after an answer to the flush of " << covered << " verbs";
  }
}

// Ranks drop teams and windows at different times. After a rank's own channel has ended, refusals are ignored.
TEST_F(MessageTarget, notice_is_written_or_dropped_without_an_answer) {
  const auto send = [&](std::size_t bytes) {
    Message notice = from_peer(MessageKind::notice);
    notice.offset = 16;
    notice.first = 8;
    notice.second = 4711;
    receive(notice, bytes);
  };
  send(0);
  EXPECT_EQ(word(8), 4711U);
  send(8);
  EXPECT_EQ(std::memcmp(memory_.data() + 64 + 16, data_.data(), 8), 0);
  regions_.of(memory_.data() + 64, 128)->uses = 0;
  memory_.fill(untouched);
  send(0);
  send(8);
  EXPECT_FALSE(target_.owes());
  EXPECT_EQ(target_.refusals().requests, 0U);
  EXPECT_TRUE(std::ranges::all_of(memory_, [](std::byte byte) { return byte == untouched; }));
}

TEST_F(MessageTarget, rejected_put_of_a_closed_channel_is_ignored) {
  const Regions::Key theirs{5, 99}, others{6, 98};
  refuse_put_to(theirs);  // after the channel's end
  EXPECT_EQ(flush_to_peer(), Code::success);
  target_.add_channel(1, theirs);
  target_.add_channel(1, others);
  refuse_put_to(theirs);
  target_.remove_channel(1, theirs);  // before the flush
  EXPECT_EQ(flush_to_peer(), Code::success);
  target_.add_channel(1, theirs);
  target_.add_channel(1, theirs);
  refuse_put_to(theirs);
  target_.remove_channel(1, theirs);  // one of two channels
  EXPECT_EQ(flush_to_peer(), Code::error);
  refuse_put_to(others);
  target_.remove_channel(1, theirs);
  EXPECT_EQ(flush_to_peer(), Code::error);
}

TEST_F(MessageTarget, answer_to_an_abandoned_get_is_dropped) {
  std::array<std::byte, 8> destination{};
  const Ticket get = tickets_.open({.peer = 1, .left = 8, .destination = destination.data(), .bytes = 8});
  tickets_.release(get);
  const Ticket heir = tickets_.open({.peer = 1, .left = 8});
  EXPECT_EQ(static_cast<std::uint32_t>(get), static_cast<std::uint32_t>(heir));
  data_.fill(std::byte{1});
  Message got = from_peer(MessageKind::got);
  got.ticket = get;
  receive(got, 8);
  EXPECT_EQ(std::ranges::count(destination, std::byte{0}), 8);
  std::mutex lock;
  EXPECT_EQ(tickets_.test(heir, &lock).code, Code::in_progress);
}

TEST_F(MessageTarget, answers_from_a_deregistered_region_are_not_sent) {
  Message get = from_peer(MessageKind::get);
  get.first = 128;
  receive(get, 0);
  Regions::Registered* const region = regions_.find(region_, 0, 1);
  region->uses = 0;
  target_.forget(*region);
  EXPECT_TRUE(target_.owes()) << "the sender gets a reply";
  target_.answer();
  EXPECT_EQ(region->sending, 0U);
  EXPECT_FALSE(target_.owes());
}

TEST_F(MessageTarget, random_messages_do_no_harm) {
  std::mt19937_64 random(7);
  alignas(8) std::array<std::byte, 64> destination{};
  std::uint64_t result = 0;
  const Ticket get = tickets_.open({.peer = 1, .left = 1000, .destination = destination.data(), .bytes = 64});
  const Ticket fetch = tickets_.open({.peer = 1, .left = 1000, .result = &result});
  const auto pick = [&](std::initializer_list<std::uint64_t> some) {
    const std::uint64_t index = random() % (some.size() + 1);
    return index < some.size() ? some.begin()[index] : random();
  };
  for (int i = 0; i < 200000; ++i) {
    Message message;
    message.origin = static_cast<std::uint32_t>(pick({0, 1, 1, 1, 2}));
    message.kind = static_cast<MessageKind>(random() % 12);
    message.op = static_cast<std::uint8_t>(random() % 14);
    message.width = static_cast<std::uint8_t>(pick({4, 8}));
    message.wants_result = static_cast<std::uint8_t>(random() % 2);
    message.sequence = message.origin < 3 ? peers_.at(static_cast<int>(message.origin)).received : 0;
    const std::uint64_t tag = tag_of(message.origin, message.sequence);
    message.tag = pick({tag, tag, tag, tag, 0});
    message.region = pick({region_.index, region_.index, region_.index, 1});
    message.nonce = pick({region_.nonce, region_.nonce, region_.nonce, 0});
    message.offset = pick({0, 8, 120, 127, 128, UINT64_MAX});
    message.first = pick({0, 1, 3, 8, 120, 128, 129, UINT64_MAX});
    message.ticket = pick({0, get, fetch, get + 1});
    const std::uint64_t bytes = random() % data_.size();
    message.bytes = pick({bytes, bytes, bytes < sizeof message ? bytes : bytes - sizeof message});
    Message rider = message;  // at the end of the data, so that it is complete in some messages
    rider.bytes = pick({0, 1});
    std::memcpy(data_.data() + (bytes < sizeof rider ? 0 : bytes - sizeof rider), &rider, sizeof rider);
    target_.receive(message, data_.data(), bytes);
    for (int rank = 0; rank < 3; ++rank) peers_.at(rank).distrusted = false;
    if (i % 100 == 0) target_.answer();
  }
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(memory_[i], untouched);
    EXPECT_EQ(memory_[64 + 128 + i], untouched);
  }
}

}  // namespace
}  // namespace hmc::transport::am
