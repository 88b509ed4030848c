// What a target does with messages that no rank of ours would send.
#include "runtime/transport/messages/target.hpp"

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
#include "tests/unit/transport/silent_link.hpp"

namespace hmc::transport::messages {
namespace {

constexpr std::byte untouched{0x5a};
constexpr std::uint64_t secret = 0x1122334455667788;

class MessageTarget : public ::testing::Test {
 protected:
  MessageTarget() {
    memory_.fill(untouched);
    peers_.know(std::vector<base::Bytes>(3));
    region_ = regions_.add(memory_.data() + 64, 128);  // with room on both sides to see strays
  }
  Message from_peer(Kind kind) {
    Message message;
    message.origin = 1;
    message.kind = kind;
    message.sequence = sequence_++;
    message.secret = secret;
    message.region = region_.index;
    message.nonce = region_.nonce;
    message.width = 8;
    return message;
  }
  void receive(Message message, std::size_t bytes) {
    message.bytes = bytes;
    target_.receive(message, data_.data(), bytes);
  }
  void refuse_put_to(const Regions::Key& region) {
    Message refused = from_peer(Kind::refused);
    refused.region = region.index;
    refused.nonce = region.nonce;
    receive(refused, 0);
  }
  Code flush_to_peer() {
    const Ticket flush = tickets_.open({.peer = 1, .left = 1});
    Message flushed = from_peer(Kind::flushed);
    flushed.ticket = flush;
    receive(flushed, 0);
    std::mutex lock;
    return tickets_.test(flush, lock).code;
  }
  std::uint64_t word(std::size_t offset) const {
    std::uint64_t value = 0;
    std::memcpy(&value, memory_.data() + 64 + offset, 8);
    return value;
  }
  bool clean() const { return std::ranges::count(memory_, untouched) == static_cast<std::ptrdiff_t>(memory_.size()); }

  SilentLink link_;
  Tickets tickets_;
  Regions regions_;
  base::Log quiet_{static_cast<base::LogLevel>(-1)};
  Peers peers_{link_, tickets_, quiet_};
  Target target_{0, secret, peers_, tickets_, regions_, quiet_};
  alignas(8) std::array<std::byte, 256> memory_{};
  std::array<std::byte, 256> data_{};
  Regions::Key region_;
  std::uint64_t sequence_ = 0;
};

TEST_F(MessageTarget, WritesWhereItIsToldInsideTheRegion) {
  Message put = from_peer(Kind::put);
  put.offset = 120;
  receive(put, 8);
  EXPECT_EQ(std::ranges::count(memory_, std::byte{0}), 8);
  EXPECT_EQ(memory_[64 + 120], std::byte{0});
}

/// What rides with a message, as its sender lays it out.
void ride(std::vector<std::byte>& all, Message message, std::span<const std::byte> data) {
  message.bytes = data.size();
  const auto* const header = reinterpret_cast<const std::byte*>(&message);
  all.insert(all.end(), header, header + sizeof message);
  all.insert(all.end(), data.begin(), data.end());
}

TEST_F(MessageTarget, CarriesOutWhatRidesWithAMessageAfterIt) {
  const std::array<std::byte, 3> first{std::byte{1}, std::byte{2}, std::byte{3}};
  const std::array<std::byte, 2> second{std::byte{4}, std::byte{5}};
  std::vector<std::byte> all(first.begin(), first.end());
  Message put = from_peer(Kind::put);
  put.bytes = first.size();
  Message next = put;
  next.offset = 2;  // over the last byte of the first
  ride(all, next, second);
  Message add = put;
  add.kind = Kind::atomic;
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

TEST_F(MessageTarget, BelievesNothingMoreOfAPeerWhoseMessageIsNotWhole) {
  std::vector<std::byte> all;
  Message next = from_peer(Kind::put);
  next.sequence = --sequence_;
  next.offset = 8;
  ride(all, next, std::vector<std::byte>(4));
  // Cut in the header that rides along, in its data, and in the message's own data.
  for (const std::size_t left : {std::size_t{1}, sizeof(Message) - 1, sizeof(Message) + 3}) {
    Peers peers(link_, tickets_, quiet_);
    peers.know(std::vector<base::Bytes>(3));
    Target target(0, secret, peers, tickets_, regions_, quiet_);
    Message put = next;
    put.bytes = 0;
    target.receive(put, all.data(), left);
    EXPECT_TRUE(clean());
    EXPECT_FALSE(peers.at(1).failure.ok());
    put.sequence = 1;
    put.bytes = 8;
    target.receive(put, data_.data(), 8);
    EXPECT_TRUE(clean());
  }
  Message put = next;
  put.bytes = 9;
  target_.receive(put, data_.data(), 8);
  EXPECT_TRUE(clean());
}

TEST_F(MessageTarget, WritesNothingPastTheEnd) {
  for (const std::uint64_t offset : {121UL, 128UL, 129UL, UINT64_MAX, UINT64_MAX - 3}) {
    Message put = from_peer(Kind::put);
    put.offset = offset;
    receive(put, 8);
    Message atomic = from_peer(Kind::atomic);
    atomic.offset = offset & ~7UL;
    atomic.op = static_cast<std::uint8_t>(AtomicOp::set);
    if (atomic.offset >= 128)
      receive(atomic, 0);
    else
      --sequence_;
    Message get = from_peer(Kind::get);
    get.offset = offset;
    get.first = UINT64_MAX;
    receive(get, 0);
  }
  target_.answer();
  EXPECT_TRUE(clean());
}

TEST_F(MessageTarget, TouchesNoMisalignedWordAndNoOddWidth) {
  Message atomic = from_peer(Kind::atomic);
  atomic.offset = 4;
  receive(atomic, 0);
  atomic = from_peer(Kind::atomic);
  atomic.width = 2;
  receive(atomic, 0);
  atomic = from_peer(Kind::atomic);
  atomic.op = 99;
  receive(atomic, 0);
  Message signal = from_peer(Kind::put_signal);
  signal.first = 3;
  receive(signal, 0);
  EXPECT_TRUE(clean());
}

TEST_F(MessageTarget, DistrustsAPeerWhoseMessagesWereReordered) {
  (void)from_peer(Kind::put);  // one that was lost
  receive(from_peer(Kind::put), 8);
  EXPECT_TRUE(clean());
  EXPECT_EQ(peers_.at(1).failure.code, Code::error);
  receive(from_peer(Kind::put), 8);  // the next of those that were sent: in order again, and too late
  EXPECT_TRUE(clean());
}

// Whoever polls on another core sees the bytes when it sees the signal. (A rank that drives its wire itself
// can't tell: it looks before or after the whole message.)
TEST_F(MessageTarget, TheSignalComesAfterTheBytes) {
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
  const auto give_up = base::Deadline::after(std::chrono::seconds(2));
  for (std::uint64_t round = 1; round <= 20000 && !give_up.expired(); ++round) {
    std::ranges::fill(data, round);
    Message put = from_peer(Kind::put_signal);
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

TEST_F(MessageTarget, AStrangersMessageChangesNothing) {
  for (const std::uint64_t guess : {0UL, secret + 1, region_.nonce, UINT64_MAX}) {
    Message put = from_peer(Kind::put);
    put.secret = guess;
    receive(put, 8);
    Message answer = from_peer(Kind::refused);
    answer.secret = guess;
    receive(answer, 0);
    sequence_ -= 2;
  }
  EXPECT_TRUE(clean());
  EXPECT_EQ(target_.refusals().strangers, 8U);
  EXPECT_FALSE(target_.owes()) << "it was answered";
  // The rank under whose name it came isn't hurt: its next message is the one that was due.
  receive(from_peer(Kind::put), 8);
  EXPECT_EQ(word(0), 0U);
  EXPECT_TRUE(peers_.at(1).failure.ok());
  EXPECT_EQ(target_.refusals().strangers, 8U);
}

TEST_F(MessageTarget, ARefusedRequestHurtsNothingElse) {
  Message put = from_peer(Kind::put);
  ++put.nonce;  // of a region that is gone
  receive(put, 8);
  Message signal = from_peer(Kind::put_signal);
  signal.first = 128;  // one beyond the end: not even its bytes are stored
  receive(signal, 8);
  EXPECT_TRUE(clean());
  EXPECT_EQ(target_.refusals().requests, 2U);
  EXPECT_TRUE(target_.owes()) << "whoever asked is told";
  receive(from_peer(Kind::put), 8);
  EXPECT_EQ(word(0), 0U);
  EXPECT_TRUE(peers_.at(1).failure.ok());
}

TEST_F(MessageTarget, ARefusalEndsItsTransferAndThatWayOnly) {
  const Regions::Key gone{3, 77};
  const Ticket get = tickets_.open({.peer = 1, .left = 8});
  const Ticket other = tickets_.open({.peer = 1, .left = 8});
  Message refused = from_peer(Kind::refused);
  refused.ticket = get;
  refused.region = gone.index;
  refused.nonce = gone.nonce;
  receive(refused, 0);
  std::mutex lock;
  EXPECT_EQ(tickets_.test(get, lock).code, Code::error);
  EXPECT_EQ(tickets_.test(other, lock).code, Code::in_progress);
  EXPECT_TRUE(peers_.at(1).failure.ok());
  EXPECT_TRUE(target_.was_refused(1, gone));
  EXPECT_FALSE(target_.was_refused(1, region_));
  EXPECT_FALSE(target_.was_refused(2, gone));
}

TEST_F(MessageTarget, ARefusedPutIsToldByTheNextFlush) {
  const Regions::Key theirs{5, 99};
  target_.begin_way(1, theirs);
  for (const bool refused : {true, false}) {
    if (refused) refuse_put_to(theirs);
    EXPECT_EQ(flush_to_peer(), refused ? Code::error : Code::success);
  }
}

// Teams and windows go one rank after the other. Whose own way has gone has nothing to hear of it.
TEST_F(MessageTarget, ARefusedPutOfAWayThatHasEndedIsNobodysBusiness) {
  const Regions::Key theirs{5, 99}, others{6, 98};
  refuse_put_to(theirs);  // after the way's end
  EXPECT_EQ(flush_to_peer(), Code::success);
  target_.begin_way(1, theirs);
  target_.begin_way(1, others);
  refuse_put_to(theirs);
  target_.end_way(1, theirs);  // before the flush
  EXPECT_EQ(flush_to_peer(), Code::success);
  target_.begin_way(1, theirs);
  target_.begin_way(1, theirs);
  refuse_put_to(theirs);
  target_.end_way(1, theirs);  // one of two
  EXPECT_EQ(flush_to_peer(), Code::error);
  refuse_put_to(others);
  target_.end_way(1, theirs);
  EXPECT_EQ(flush_to_peer(), Code::error);
}

TEST_F(MessageTarget, AnAnswerToWhatWasGivenUpIsDropped) {
  std::array<std::byte, 8> destination{};
  const Ticket get = tickets_.open({.peer = 1, .left = 8, .destination = destination.data(), .bytes = 8});
  tickets_.drop(get);
  const Ticket heir = tickets_.open({.peer = 1, .left = 8});
  EXPECT_EQ(static_cast<std::uint32_t>(get), static_cast<std::uint32_t>(heir));
  data_.fill(std::byte{1});
  Message got = from_peer(Kind::got);
  got.ticket = get;
  receive(got, 8);
  EXPECT_EQ(std::ranges::count(destination, std::byte{0}), 8);
  std::mutex lock;
  EXPECT_EQ(tickets_.test(heir, lock).code, Code::in_progress);
}

TEST_F(MessageTarget, AnswersFromARegionThatGoesAreNotSent) {
  Message get = from_peer(Kind::get);
  get.first = 128;
  receive(get, 0);
  Regions::Exposed* const region = regions_.find(region_, 0, 1);
  region->uses = 0;
  target_.forget(*region);
  EXPECT_TRUE(target_.owes()) << "whoever asked is told";
  target_.answer();
  EXPECT_EQ(region->sending, 0U);
  EXPECT_FALSE(target_.owes());
}

// ---- in parts: the link reads the bytes to where place() says

TEST_F(MessageTarget, SaysWhereALargePutsBytesGoAndSignalsWhenAllAreThere) {
  Message put = from_peer(Kind::put_signal);
  put.offset = 16;
  put.bytes = 100;
  put.first = 120;
  put.second = 77;
  ASSERT_TRUE(target_.begin(put));
  for (const std::uint64_t at : {0U, 1U, 99U}) EXPECT_EQ(target_.place(put, at).to, memory_.data() + 64 + 16 + at);
  EXPECT_TRUE(clean()) << "the signal came before the bytes";
  target_.finish(put);
  EXPECT_EQ(word(120), 77U);
  EXPECT_FALSE(target_.owes());
  receive(from_peer(Kind::put), 8);
  EXPECT_EQ(word(0), 0U) << "the next message isn't the one that was due";
}

TEST_F(MessageTarget, CutsALargePutAtTheBordersOfLandings) {
  std::array<std::byte, 128> fields{};
  Landing first{.offset = 20, .bytes = 30, .to = fields.data()};
  Landing second{.offset = 50, .bytes = 10, .to = fields.data() + 40};  // adjoins the first
  Landing third{.offset = 70, .bytes = 100, .to = fields.data() + 60};  // after a gap, and longer than what comes
  Regions::Exposed* const region = regions_.find(region_, 0, 1);
  for (Landing* const landing : {&third, &first, &second}) region->landings.push_back(landing);
  Message put = from_peer(Kind::put);
  put.offset = 10;
  put.bytes = 80;  // of the region: 10 to 90
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
    // In two reads each, as they may come.
    for (const std::uint64_t done : {std::uint64_t{0}, piece.bytes / 3}) {
      const auto place = target_.place(put, piece.at + done);
      EXPECT_EQ(place.to, piece.to + done) << piece.at;
      EXPECT_EQ(place.bytes, piece.bytes - done) << piece.at;
      target_.filled(put, piece.at + done, done == 0 ? piece.bytes / 3 : piece.bytes - done);
    }
  }
  target_.finish(put);
  for (const auto& [landing, end] : {std::pair(&first, 30U), {&second, 10U}, {&third, 20U}}) {
    ASSERT_EQ(landing->count, 1U);
    EXPECT_EQ(landing->parts[0].begin, 0U);
    EXPECT_EQ(landing->parts[0].end, end);
  }
  EXPECT_TRUE(clean()) << "nothing was written: the link does that";
  std::erase(region->landings, &first);
  EXPECT_EQ(target_.place(put, 10).to, base + 20);
  EXPECT_EQ(target_.place(put, 10).bytes, 30U) << "up to the second";
}

TEST_F(MessageTarget, WhatHasNoPlaceForAnotherPartStaysInTheRegion) {
  std::array<std::byte, 128> field{};
  Landing landing{.offset = 0, .bytes = 128, .to = field.data()};
  regions_.find(region_, 0, 1)->landings.push_back(&landing);
  const std::uint64_t most = landing.parts.size();
  for (std::uint64_t i = 0; i < most + 2; ++i) {  // never two that adjoin
    Message put = from_peer(Kind::put);
    put.offset = 4 * i;
    data_.fill(std::byte{0x11});
    receive(put, 2);
  }
  EXPECT_EQ(landing.count, most);
  for (std::uint64_t i = 0; i < most + 2; ++i) {
    const bool landed = i < most;
    EXPECT_EQ(field[4 * i], landed ? std::byte{0x11} : std::byte{0}) << i;
    EXPECT_EQ(memory_[64 + 4 * i], landed ? untouched : std::byte{0x11}) << i;
  }
  Message put = from_peer(Kind::put);
  put.offset = 2;  // goes on where a part ends
  receive(put, 2);
  EXPECT_EQ(field[2], std::byte{0x11});
  EXPECT_EQ(landing.parts[0].end, 4U);
}

TEST_F(MessageTarget, HasNoPlaceForALargePutThatLeavesItsRegion) {
  std::uint64_t refused = 0;
  for (const auto& [offset, bytes, signal] : {std::array<std::uint64_t, 3>{29, 100, 0},
                                              {129, 1, 0},
                                              {UINT64_MAX - 3, 8, 0},
                                              {0, UINT64_MAX, 0},
                                              {0, 100, 121},
                                              {0, 100, 128},
                                              {0, 100, 4}}) {
    Message put = from_peer(Kind::put_signal);
    put.offset = offset;
    put.bytes = bytes;
    put.first = signal;
    ASSERT_TRUE(target_.begin(put));
    EXPECT_EQ(target_.place(put, 0).to, nullptr);
    target_.finish(put);
    EXPECT_EQ(target_.refusals().requests, ++refused);
  }
  EXPECT_TRUE(clean());
  EXPECT_TRUE(target_.owes()) << "whoever asked is told";
  EXPECT_TRUE(peers_.at(1).failure.ok());
}

TEST_F(MessageTarget, HasNoPlaceAnyMoreWhenTheRegionGoesInTheMiddle) {
  Message put = from_peer(Kind::put_signal);
  put.bytes = 100;
  put.first = 120;
  put.second = 77;
  ASSERT_TRUE(target_.begin(put));
  ASSERT_NE(target_.place(put, 0).to, nullptr);
  regions_.find(region_, 0, 1)->uses = 0;
  EXPECT_EQ(target_.place(put, 50).to, nullptr);
  const Regions::Key heir = regions_.add(memory_.data() + 64, 128);
  EXPECT_EQ(heir.index, region_.index);
  EXPECT_EQ(target_.place(put, 50).to, nullptr) << "it was taken for its heir";
  target_.finish(put);
  EXPECT_TRUE(clean());
  EXPECT_EQ(target_.refusals().requests, 1U);
  EXPECT_TRUE(peers_.at(1).failure.ok());
}

TEST_F(MessageTarget, DistrustsAPeerWhoseLargeMessageMayHaveNoBytes) {
  for (const Kind kind : {Kind::get, Kind::atomic, Kind::flush, Kind::result, Kind::flushed, Kind::refused}) {
    Peers peers(link_, tickets_, quiet_);
    peers.know(std::vector<base::Bytes>(3));
    Target target(0, secret, peers, tickets_, regions_, quiet_);
    Message message = from_peer(kind);
    message.sequence = 0;
    message.bytes = 20000;
    EXPECT_FALSE(target.begin(message));
    EXPECT_EQ(peers.at(1).failure.code, Code::error);
    EXPECT_FALSE(target.owes());
    message.sequence = 1;
    message.kind = Kind::put;
    message.bytes = 100;
    EXPECT_FALSE(target.begin(message)) << "it is believed again";
  }
}

TEST_F(MessageTarget, BeginsNoLargeMessageOfAStrangerNorOneOutOfOrder) {
  Message put = from_peer(Kind::put);
  put.bytes = 100;
  put.secret = secret + 1;
  EXPECT_FALSE(target_.begin(put));
  EXPECT_EQ(target_.refusals().strangers, 1U);
  EXPECT_TRUE(peers_.at(1).failure.ok());
  put.secret = secret;
  put.sequence = 1;
  EXPECT_FALSE(target_.begin(put));
  EXPECT_EQ(peers_.at(1).failure.code, Code::error);
}

TEST_F(MessageTarget, PutsALargeAnswerIntoItsDestinationAndCountsItOnce) {
  std::array<std::byte, 64> destination{};
  const Ticket get = tickets_.open({.peer = 1, .left = 64, .destination = destination.data(), .bytes = 64});
  std::mutex lock;
  for (const std::uint64_t offset : {0U, 40U}) {
    Message got = from_peer(Kind::got);
    got.ticket = get;
    got.offset = offset;
    got.bytes = offset == 0 ? 40 : 24;
    ASSERT_TRUE(target_.begin(got));
    EXPECT_EQ(target_.place(got, 5).to, destination.data() + offset + 5);
    EXPECT_EQ(tickets_.test(get, lock).code, Code::in_progress);
    target_.finish(got);
  }
  EXPECT_TRUE(tickets_.test(get, lock).ok());
}

TEST_F(MessageTarget, HasNoPlaceForALargeAnswerThatNobodyWaitsForOrThatIsTooLong) {
  std::array<std::byte, 64> destination{};
  const Ticket get = tickets_.open({.peer = 1, .left = 64, .destination = destination.data(), .bytes = 64});
  std::mutex lock;
  for (const auto& [offset, bytes] :
       {std::pair<std::uint64_t, std::uint64_t>{1, 64}, {65, 0}, {UINT64_MAX, 2}, {0, UINT64_MAX}}) {
    Message got = from_peer(Kind::got);
    got.ticket = get;
    got.offset = offset;
    got.bytes = bytes;
    ASSERT_TRUE(target_.begin(got));
    EXPECT_EQ(target_.place(got, 0).to, nullptr);
    target_.finish(got);
    EXPECT_EQ(tickets_.test(get, lock).code, Code::in_progress);
  }
  Message got = from_peer(Kind::got);
  got.ticket = get;
  got.bytes = 64;
  ASSERT_TRUE(target_.begin(got));
  ASSERT_NE(target_.place(got, 0).to, nullptr);
  tickets_.drop(get);
  EXPECT_EQ(target_.place(got, 32).to, nullptr) << "it was given up";
  target_.finish(got);
}

TEST_F(MessageTarget, SurvivesAnyMessage) {
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
    message.kind = static_cast<Kind>(random() % 12);
    message.op = static_cast<std::uint8_t>(random() % 14);
    message.width = static_cast<std::uint8_t>(pick({4, 8}));
    message.wants_result = static_cast<std::uint8_t>(random() % 2);
    message.sequence = message.origin < 3 ? peers_.at(static_cast<int>(message.origin)).received : 0;
    message.secret = pick({secret, secret, secret, secret, 0});
    message.region = pick({region_.index, region_.index, region_.index, 1});
    message.nonce = pick({region_.nonce, region_.nonce, region_.nonce, 0});
    message.offset = pick({0, 8, 120, 127, 128, UINT64_MAX});
    message.first = pick({0, 1, 3, 8, 120, 128, 129, UINT64_MAX});
    message.ticket = pick({0, get, fetch, get + 1});
    const std::uint64_t bytes = random() % data_.size();
    message.bytes = pick({bytes, bytes, bytes < sizeof message ? bytes : bytes - sizeof message});
    Message rider = message;  // at the end of the data, so that some messages have it whole
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
}  // namespace hmc::transport::messages
