// send and recv; sendDataTo and recvDataFrom through the two halves of the receiver's buffer.
#include <gmock/gmock.h>

#include <functional>
#include <future>

#include "tests/compat/pair.hpp"

namespace hmc::test {
namespace {

using enum status_t;

status_t send_data(Communicator& from, std::vector<std::uint8_t>& data) {
  return from.sendDataTo(loopback, data.data(), data.size(), MemoryType::CPU);
}
status_t receive_data(Communicator& from, std::vector<std::uint8_t>& data, std::size_t& received) {
  return from.recvDataFrom(loopback, data.data(), data.size(), MemoryType::CPU, &received);
}
std::vector<std::uint8_t> message(int side, std::uint64_t call, std::size_t bytes) {
  std::vector<std::uint8_t> data(bytes);
  fill(data.data(), side, call, 0, bytes);
  return data;
}

class Paired : public ByWire {};

TEST_P(Paired, send_puts_into_the_place_that_recv_names_whichever_is_called_first) {
  Pair pair;
  for (int round = 0; round < 10; ++round) {
    const auto call = static_cast<std::uint64_t>(round);
    const std::size_t size = 1000 * static_cast<std::size_t>(round);
    fill(pair.client.at(100), 0, call, 0, size);
    fill(pair.server.at(500000), 1, call, 0, size);
    const bool receiver_first = round % 2 == 0;
    const auto policy = std::launch::async;
    std::future<status_t> receiver, sender;
    if (receiver_first) receiver = std::async(policy, [&] { return pair.s().recv(loopback, 77, size); });
    sender = std::async(policy, [&] { return pair.c().send(loopback, 100, size); });
    if (!receiver_first) receiver = std::async(policy, [&] { return pair.s().recv(loopback, 77, size); });
    ASSERT_EQ(sender.get(), SUCCESS);
    ASSERT_EQ(receiver.get(), SUCCESS);
    ASSERT_EQ(mismatch(pair.server.at(77), 0, call, 0, size), size);
    // the other direction
    receiver = std::async(policy, [&] { return pair.c().recv(loopback, 3, size); });
    ASSERT_EQ(pair.s().send(loopback, 500000, size), SUCCESS);
    ASSERT_EQ(receiver.get(), SUCCESS);
    ASSERT_EQ(mismatch(pair.client.at(3), 1, call, 0, size), size);
  }
}

TEST_P(Paired, send_that_exceeds_the_recv_fails_on_both_sides_and_the_next_pair_works) {
  Pair pair;
  auto receiver = std::async(std::launch::async, [&] { return pair.s().recv(loopback, 0, 99); });
  EXPECT_EQ(pair.c().send(loopback, 0, 100), ERROR);
  EXPECT_EQ(receiver.get(), ERROR);
  fill(pair.client.at(0), 0, 5, 0, 99);
  receiver = std::async(std::launch::async, [&] { return pair.s().recv(loopback, 0, 99); });
  EXPECT_EQ(pair.c().send(loopback, 0, 99), SUCCESS);
  EXPECT_EQ(receiver.get(), SUCCESS);
  EXPECT_EQ(mismatch(pair.server.at(0), 0, 5, 0, 99), 99U);
}

TEST_P(Paired, message_of_any_length_arrives_through_two_halves) {
  constexpr std::size_t half = 32 << 10;
  Pair pair(2 * half);
  std::uint64_t call = 0;
  for (const std::size_t size : {0UL, 1UL, half - 1, half, half + 1, 2 * half, 3 * half + 7, 10 * half + half / 2}) {
    for (const bool receiver_first : {false, true}) {
      ++call;
      auto out = message(0, call, size);
      std::vector<std::uint8_t> in(size + 10, 0xee);
      std::size_t received = 1;
      std::future<status_t> sender, receiver;
      const auto start_sender = [&] {
        sender = std::async(std::launch::async, [&] { return send_data(pair.c(), out); });
      };
      if (!receiver_first) start_sender();
      receiver = std::async(std::launch::async, [&] { return receive_data(pair.s(), in, received); });
      if (receiver_first) start_sender();
      ASSERT_EQ(sender.get(), SUCCESS);
      ASSERT_EQ(receiver.get(), SUCCESS);
      ASSERT_EQ(received, size);
      ASSERT_EQ(mismatch(in.data(), 0, call, 0, size), size) << "of " << size;
      ASSERT_EQ(in[size], 0xee);
    }
  }
}

TEST_P(Paired, messages_of_both_directions_cross) {
  Pair pair(64 << 10);
  constexpr int rounds = 20;
  const auto work = [&](Communicator& mine, int side) {
    for (int round = 0; round < rounds; ++round) {
      const auto call = static_cast<std::uint64_t>(round);
      const std::size_t size = 300000 + 1000 * call;
      auto out = message(side, call, size);
      std::vector<std::uint8_t> in(size);
      std::size_t received = 0;
      auto sender = std::async(std::launch::async, [&] { return send_data(mine, out); });
      EXPECT_EQ(receive_data(mine, in, received), SUCCESS);
      EXPECT_EQ(sender.get(), SUCCESS);
      EXPECT_EQ(received, size);
      EXPECT_EQ(mismatch(in.data(), 1 - side, call, 0, size), size);
    }
  };
  auto other = std::async(std::launch::async, [&] { work(pair.s(), 1); });
  work(pair.c(), 0);
  other.get();
}

TEST_P(Paired, several_peers_send_to_one_receiver) {
  Side receiver(64 << 10);
  receiver.serve();
  constexpr int peers = 3, rounds = 5;
  std::vector<std::unique_ptr<Side>> senders;
  for (int i = 0; i < peers; ++i) {
    senders.push_back(std::make_unique<Side>(64 << 10));
    senders.back()->serve();  // so that the receiver can name it
    ASSERT_EQ(senders.back()->communicator->connectTo(loopback, receiver.port, conn_type()), SUCCESS);
  }
  std::vector<std::future<void>> work;
  for (int i = 0; i < peers; ++i) {
    work.push_back(std::async(std::launch::async, [&, i] {
      for (std::uint64_t call = 0; call < rounds; ++call) {
        auto out = message(i, call, 200000 + call);
        EXPECT_EQ(senders[static_cast<std::size_t>(i)]->communicator->sendDataTo(loopback, receiver.port, out.data(),
                                                                                 out.size(), MemoryType::CPU),
                  SUCCESS);
      }
    }));
    work.push_back(std::async(std::launch::async, [&, i] {
      for (std::uint64_t call = 0; call < rounds; ++call) {
        std::vector<std::uint8_t> in(300000);
        std::size_t received = 0;
        EXPECT_EQ(receiver.communicator->recvDataFrom(loopback, senders[static_cast<std::size_t>(i)]->port, in.data(),
                                                      in.size(), MemoryType::CPU, &received),
                  SUCCESS);
        EXPECT_EQ(received, 200000 + call);
        EXPECT_EQ(mismatch(in.data(), i, call, 0, received), received);
      }
    }));
  }
  for (auto& each : work) each.get();
}

TEST_P(Paired, message_that_exceeds_the_receivers_memory_fails_on_both_sides_with_its_length) {
  Pair pair(64 << 10);
  for (std::uint64_t call = 0; call < 3; ++call) {
    auto out = message(0, call, 100000);
    std::vector<std::uint8_t> in(99999);
    std::size_t received = 0;
    auto receiver = std::async(std::launch::async, [&] { return receive_data(pair.s(), in, received); });
    EXPECT_EQ(send_data(pair.c(), out), ERROR);
    EXPECT_EQ(receiver.get(), ERROR);
    EXPECT_EQ(received, out.size());
    in.resize(out.size());
    receiver = std::async(std::launch::async, [&] { return receive_data(pair.s(), in, received); });
    EXPECT_EQ(send_data(pair.c(), out), SUCCESS);
    EXPECT_EQ(receiver.get(), SUCCESS);
    EXPECT_EQ(mismatch(in.data(), 0, call, 0, in.size()), in.size());
  }
}

TEST_P(Paired, puts_and_messages_of_one_pair_run_beside_each_other) {
  Pair pair(64 << 10, 4 << 20);
  Side other(4 << 20);
  other.serve();
  ASSERT_EQ(pair.c().connectTo(loopback, other.port, conn_type()), SUCCESS);
  auto out = message(0, 1, 2 << 20);
  std::vector<std::uint8_t> in(out.size());
  std::size_t received = 0;
  auto receiver = std::async(std::launch::async, [&] {
    return pair.s().recvDataFrom(loopback, in.data(), in.size(), MemoryType::CPU, &received);
  });
  auto sender = std::async(std::launch::async, [&] {
    return pair.c().sendDataTo(loopback, pair.port(), out.data(), out.size(), MemoryType::CPU);
  });
  fill(pair.client.at(0), 0, 2, 0, 4 << 20);
  EXPECT_EQ(pair.c().putPipeline(loopback, other.port, 0, 0, 4 << 20), SUCCESS);
  EXPECT_EQ(sender.get(), SUCCESS);
  EXPECT_EQ(receiver.get(), SUCCESS);
  EXPECT_EQ(mismatch(in.data(), 0, 1, 0, in.size()), in.size());
  EXPECT_EQ(mismatch(other.at(0), 0, 2, 0, 4 << 20), 4U << 20);
}

INSTANTIATE_TEST_SUITE_P(, Paired, ::testing::ValuesIn(tested_wires()), wire_name);

}  // namespace
}  // namespace hmc::test
