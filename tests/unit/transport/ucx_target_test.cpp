// What a target does with messages that no rank of ours would send.
#include "runtime/transport/ucx/target.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

namespace hmc::transport::ucx {
namespace {

constexpr std::byte untouched{0x5a};

class UcxTarget : public ::testing::Test {
 protected:
  UcxTarget() {
    memory_.fill(untouched);
    peers_.know(std::vector<base::Bytes>(2));
    region_ = regions_.add(memory_.data() + 64, 128);  // with room on both sides to see strays
  }
  Message from_peer(Kind kind) {
    Message message;
    message.origin = 1;
    message.kind = kind;
    message.sequence = sequence_++;
    message.region = region_;
    message.width = 8;
    return message;
  }
  void receive(const Message& message, std::size_t bytes) { target_.receive(message, data_.data(), bytes); }
  bool clean() const { return std::ranges::count(memory_, untouched) == static_cast<std::ptrdiff_t>(memory_.size()); }

  Worker worker_{2, "tcp"};
  Tickets tickets_;
  Regions regions_;
  base::Log quiet_{static_cast<base::LogLevel>(-1)};
  Peers peers_{worker_, tickets_, quiet_};
  Target target_{0, peers_, tickets_, regions_, quiet_};
  alignas(8) std::array<std::byte, 256> memory_{};
  std::array<std::byte, 256> data_{};
  std::uint64_t region_ = 0;
  std::uint64_t sequence_ = 0;
};

TEST_F(UcxTarget, WritesWhereItIsToldInsideTheRegion) {
  Message put = from_peer(Kind::put);
  put.offset = 120;
  receive(put, 8);
  EXPECT_EQ(std::ranges::count(memory_, std::byte{0}), 8);
  EXPECT_EQ(memory_[64 + 120], std::byte{0});
}

TEST_F(UcxTarget, WritesNothingPastTheEnd) {
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
    get.bytes = UINT64_MAX;
    receive(get, 0);
  }
  target_.answer();
  EXPECT_TRUE(clean());
}

TEST_F(UcxTarget, TouchesNoMisalignedWordAndNoOddWidth) {
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

TEST_F(UcxTarget, DistrustsAPeerWhoseMessagesWereReordered) {
  (void)from_peer(Kind::put);  // one that was lost
  receive(from_peer(Kind::put), 8);
  EXPECT_TRUE(clean());
  EXPECT_EQ(peers_.at(1).failure.code, Code::error);
}

TEST_F(UcxTarget, SurvivesAnyMessage) {
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
    message.sequence = message.origin < 2 ? peers_.at(static_cast<int>(message.origin)).received : 0;
    message.region = pick({region_, region_, region_, 0});
    message.offset = pick({0, 8, 120, 127, 128, UINT64_MAX});
    message.bytes = pick({0, 1, 128, 129, UINT64_MAX});
    message.first = pick({0, 3, 8, 120, 128, UINT64_MAX});
    message.ticket = pick({0, get, fetch, get + 1});
    receive(message, random() % data_.size());
    if (i % 100 == 0) target_.answer();
  }
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(memory_[i], untouched);
    EXPECT_EQ(memory_[64 + 128 + i], untouched);
  }
}

}  // namespace
}  // namespace hmc::transport::ucx
