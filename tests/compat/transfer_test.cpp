// put, get, their ids, pipelines and bounds, on each wire.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "tests/compat/pair.hpp"

namespace hmc::test {
namespace {

using enum status_t;

TEST_P(ByWire, put_is_visible_at_return_and_get_returns_the_bytes_in_both_directions) {
  Pair pair(3 << 20);
  std::uint64_t call = 0;
  for (const std::size_t size : {0UL, 1UL, 7UL, 8UL, 4095UL, 4096UL, 70001UL, 2UL << 20}) {
    for (const auto& [local, remote] : std::vector<std::pair<std::size_t, std::size_t>>{{0, 0}, {1, 4093}, {4093, 8}}) {
      ++call;
      fill(pair.client.at(local), 0, call, remote, size);
      ASSERT_EQ(pair.c().put(loopback, pair.port(), local, remote, size), SUCCESS);
      ASSERT_EQ(mismatch(pair.server.at(remote), 0, call, remote, size), size) << size;
      fill(pair.server.at(remote), 1, call, remote, size);
      ASSERT_EQ(pair.c().get(loopback, pair.port(), local, remote, size), SUCCESS);
      ASSERT_EQ(mismatch(pair.client.at(local), 1, call, remote, size), size) << size;
      fill(pair.server.at(local), 2, call, local, size);  // the passive side puts back
      ASSERT_EQ(pair.s().put(loopback, 1, local, remote, size), SUCCESS);
      ASSERT_EQ(mismatch(pair.client.at(remote), 2, call, local, size), size) << size;
    }
  }
}

TEST_P(ByWire, put_is_visible_to_a_thread_that_is_notified_otherwise) {
  Pair pair;
  constexpr std::uint64_t rounds = 10'000;
  std::atomic<std::uint64_t> announced{0}, seen{0};
  std::uint64_t wrong = 0;
  std::thread reader([&] {
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      while (announced.load(std::memory_order_acquire) < round) std::this_thread::yield();
      for (const std::size_t at : {0UL, 512UL, 1016UL}) {
        std::uint64_t value = 0;
        std::memcpy(&value, pair.server.at(at), 8);
        wrong += value != round;
      }
      seen.store(round, std::memory_order_release);
    }
  });
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    for (std::size_t at = 0; at < 1024; at += 8) std::memcpy(pair.client.at(at), &round, 8);
    const status_t status = pair.c().put(loopback, pair.port(), 0, 0, 1024);
    if (status != SUCCESS) ADD_FAILURE() << "round " << round;
    announced.store(round, std::memory_order_release);
    while (seen.load(std::memory_order_acquire) < round) std::this_thread::yield();
  }
  reader.join();
  EXPECT_EQ(wrong, 0U);
}

TEST_P(ByWire, ids_are_unique_over_peers_and_time_and_waits_work_in_any_order) {
  Side client(1 << 20), first(1 << 20), second(1 << 20);
  std::set<std::uint64_t> all;
  for (Side* server : {&first, &second}) {
    server->serve();
    ASSERT_EQ(client.communicator->connectTo(loopback, server->port, conn_type()), SUCCESS);
  }
  fill(client.at(0), 0, 1, 0, 1 << 20);
  for (int round = 0; round < 5; ++round) {
    std::vector<std::uint64_t> ids;
    for (int i = 0; i < 20; ++i) {
      for (Side* server : {&first, &second}) {
        std::uint64_t id = 0;
        const std::size_t at = static_cast<std::size_t>(i) * 5000;
        ASSERT_EQ(client.communicator->putNB(loopback, server->port, at, at, 5000, &id), SUCCESS);
        EXPECT_TRUE(all.insert(id).second) << id;
        ids.push_back(id);
      }
    }
    std::shuffle(ids.begin(), ids.end(), std::mt19937(static_cast<unsigned>(round)));
    for (const std::uint64_t id : ids) EXPECT_EQ(client.communicator->wait(id), SUCCESS);
    for (const std::uint64_t id : ids) EXPECT_EQ(client.communicator->wait(id), NOT_FOUND);
    EXPECT_EQ(mismatch(first.at(0), 0, 1, 0, 100000), 100000U);
    EXPECT_EQ(mismatch(second.at(0), 0, 1, 0, 100000), 100000U);
  }
}

TEST_P(ByWire, wait_for_a_list_reports_the_first_failure_and_completes_the_others) {
  Pair pair;
  fill(pair.client.at(0), 0, 9, 0, 40000);
  std::vector<std::uint64_t> ids;
  for (std::size_t i = 0; i < 4; ++i) {
    ids.emplace_back();
    ASSERT_EQ(pair.c().putNB(loopback, pair.port(), i * 10000, i * 10000, 10000, &ids.back()), SUCCESS);
  }
  std::vector<std::uint64_t> with_unknown = ids;
  with_unknown.insert(with_unknown.begin() + 1, UINT64_MAX);
  EXPECT_EQ(pair.c().wait(with_unknown), NOT_FOUND);
  EXPECT_EQ(mismatch(pair.server.at(0), 0, 9, 0, 40000), 40000U);
  for (const std::uint64_t id : ids) EXPECT_EQ(pair.c().wait(id), NOT_FOUND);
  EXPECT_EQ(pair.c().wait(std::vector<std::uint64_t>{}), SUCCESS);
  EXPECT_EQ(pair.c().wait(0), SUCCESS);  // no transfer's id
  EXPECT_EQ(pair.c().wait(std::vector<std::uint64_t>{0, 0}), SUCCESS);
}

TEST_P(ByWire, pipeline_moves_position_dependent_data) {
  Pair pair(9 << 20);
  const std::size_t size = (9 << 20) - 77;
  std::uint64_t call = 0;
  for (const auto& [chunk, inflight] :
       std::vector<std::pair<std::size_t, std::size_t>>{{0, 64}, {100001, 3}, {1 << 20, 0}}) {
    ++call;
    fill(pair.client.at(0), 0, call, 0, size);
    ASSERT_EQ(pair.c().putPipeline(loopback, pair.port(), 0, 77, size, chunk, inflight), SUCCESS);
    ASSERT_EQ(mismatch(pair.server.at(77), 0, call, 0, size), size);
    std::memset(pair.client.at(0), 0, size);
    ASSERT_EQ(pair.c().getPipeline(loopback, pair.port(), 0, 77, size, chunk, inflight), SUCCESS);
    ASSERT_EQ(mismatch(pair.client.at(0), 0, call, 0, size), size);
  }
}

TEST_P(ByWire, several_channels_move_every_byte_of_large_transfers) {
  const std::size_t size = (9 << 20) - 77;
  Side server(9 << 20, 4), client(9 << 20, 3);
  server.serve();
  ASSERT_EQ(client.communicator->connectTo(loopback, server.port, conn_type()), SUCCESS);
  for (std::uint64_t call = 1; call <= 3; ++call) {
    fill(client.at(0), 0, call, 77, size);
    ASSERT_EQ(client.communicator->put(loopback, server.port, 0, 77, size), SUCCESS);
    ASSERT_EQ(mismatch(server.at(77), 0, call, 77, size), size);
    fill(server.at(0), 1, call, 0, size);
    ASSERT_EQ(client.communicator->get(loopback, server.port, 77, 0, size), SUCCESS);
    ASSERT_EQ(mismatch(client.at(77), 1, call, 0, size), size);
    // The message's signal must not overtake bytes on another queue pair.
    std::thread receiver([&] { EXPECT_EQ(server.communicator->recv(loopback, 3, size), SUCCESS); });
    EXPECT_EQ(client.communicator->send(loopback, 77, size), SUCCESS);
    receiver.join();
    ASSERT_EQ(mismatch(server.at(3), 1, call, 0, size), size);
  }
}

TEST_P(ByWire, range_beyond_a_buffer_is_an_error_even_if_the_sum_wraps_around) {
  Pair pair(1 << 20, 2 << 20);
  std::uint64_t id = 0;
  constexpr std::size_t mine = 2 << 20, theirs = 1 << 20;
  for (const auto& [local, remote, size] :
       std::vector<std::tuple<std::size_t, std::size_t, std::size_t>>{{0, theirs, 1},
                                                                      {0, theirs - 1, 2},
                                                                      {0, SIZE_MAX, 1},
                                                                      {0, SIZE_MAX - 7, 16},
                                                                      {8, 8, SIZE_MAX},
                                                                      {8, 8, SIZE_MAX - 4},
                                                                      {mine, 0, 1},
                                                                      {SIZE_MAX, 0, 1},
                                                                      {SIZE_MAX - 3, 0, 8},
                                                                      {0, 0, mine}}) {
    EXPECT_EQ(pair.c().put(loopback, pair.port(), local, remote, size), ERROR);
    EXPECT_EQ(pair.c().get(loopback, pair.port(), local, remote, size), ERROR);
    EXPECT_EQ(pair.c().putNB(loopback, pair.port(), local, remote, size, &id), ERROR);
    EXPECT_EQ(pair.c().putPipeline(loopback, pair.port(), local, remote, size), ERROR);
    EXPECT_EQ(pair.c().getPipeline(loopback, pair.port(), local, remote, size), ERROR);
  }
  EXPECT_EQ(pair.c().writeTo(loopback, theirs, 1), ERROR);
  EXPECT_EQ(pair.c().readFrom(loopback, SIZE_MAX, 2), ERROR);
  EXPECT_EQ(pair.c().put(loopback, static_cast<std::uint16_t>(pair.port() + 1), 0, 0, 1), NOT_FOUND);
  EXPECT_EQ(pair.c().putNB(loopback, pair.port(), 0, 0, 1, nullptr), INVALID_CONFIG);
}

TEST_P(ByWire, write_to_and_read_from_use_the_same_offset_on_both_sides) {
  Pair pair;
  fill(pair.client.at(1001), 0, 3, 1001, 5000);
  ASSERT_EQ(pair.c().writeTo(loopback, 1001, 5000), SUCCESS);
  EXPECT_EQ(mismatch(pair.server.at(1001), 0, 3, 1001, 5000), 5000U);
  EXPECT_EQ(*pair.server.at(1000), 0);
  fill(pair.server.at(70), 1, 4, 70, 900);
  ASSERT_EQ(pair.c().readFrom(loopback, 70, 900), SUCCESS);
  EXPECT_EQ(mismatch(pair.client.at(70), 1, 4, 70, 900), 900U);
  ASSERT_EQ(pair.s().writeTo(loopback, 200, 300), SUCCESS);
  EXPECT_EQ(mismatch(pair.client.at(200), 1, 4, 200, 300), 300U);
}

INSTANTIATE_TEST_SUITE_P(, ByWire, ::testing::ValuesIn(tested_wires()), wire_name);

}  // namespace
}  // namespace hmc::test
