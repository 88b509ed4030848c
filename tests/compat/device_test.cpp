// Communicators whose buffers are device memory, on either side or on both, on each wire.
#include <gmock/gmock.h>
#include <hmc.h>

#include <atomic>
#include <future>
#include <thread>
#include <tuple>

#include "tests/compat/pair.hpp"

namespace hmc::test {
namespace {

using enum status_t;

using Bytes = std::vector<std::uint8_t>;

Bytes data_of(int side, std::uint64_t call, std::size_t bytes) {
  Bytes data(bytes);
  fill(data.data(), side, call, 0, bytes);
  return data;
}
void write(const Side& side, std::size_t at, const Bytes& data) {
  ASSERT_EQ(side.buffer->writeFromCpu(data.data(), data.size(), at), SUCCESS);
}
Bytes read(const Side& side, std::size_t at, std::size_t bytes) {
  Bytes data(bytes);
  EXPECT_EQ(side.buffer->readToCpu(data.data(), bytes, at), SUCCESS);
  return data;
}

/// The value of HMC_TRANSPORT, and the memory of server and client.
class OnDevice : public ::testing::TestWithParam<std::tuple<std::string, MemoryType, MemoryType>> {
 protected:
  void connect(Side& to_server) {
    EXPECT_EQ(to_server.communicator->connectTo(loopback, server.port, conn_type()), SUCCESS);
  }
  void SetUp() override {
    server.serve();
    connect(client);
  }
  ScopedEnv transport{"HMC_TRANSPORT", std::get<0>(GetParam())};
  ScopedEnv timeout{"HMC_TIMEOUT_S", "60"};
  static constexpr std::size_t bytes = 3 << 20;
  Side server{bytes, 1, std::get<1>(GetParam())};
  Side client{bytes, 1, std::get<2>(GetParam())};
};

TEST_P(OnDevice, puts_and_gets_of_all_forms_move_the_bytes) {
  std::uint64_t call = 0;
  for (const std::size_t size : {0UL, 1UL, 8UL, 4097UL, 256UL << 10, (512UL << 10) + 3, 2UL << 20}) {
    for (const auto& [local, remote] : std::vector<std::pair<std::size_t, std::size_t>>{{0, 0}, {4093, 8}}) {
      ++call;
      const auto expect_at = [&](const Side& side, std::size_t at, int from) {
        ASSERT_EQ(read(side, at, size), data_of(from, call, size)) << "size " << size;
      };
      write(client, local, data_of(0, call, size));
      ASSERT_EQ(client.communicator->put(loopback, server.port, local, remote, size), SUCCESS);
      expect_at(server, remote, 0);
      write(server, remote, data_of(1, call, size));
      ASSERT_EQ(client.communicator->get(loopback, server.port, local, remote, size), SUCCESS);
      expect_at(client, local, 1);
      write(server, local, data_of(2, call, size));  // the passive side puts back
      ASSERT_EQ(server.communicator->put(loopback, 1, local, remote, size), SUCCESS);
      expect_at(client, remote, 2);
      write(client, local, data_of(3, call, size));
      std::uint64_t id = 0;
      ASSERT_EQ(client.communicator->putNB(loopback, server.port, local, remote, size, &id), SUCCESS);
      ASSERT_EQ(client.communicator->wait(id), SUCCESS);
      expect_at(server, remote, 3);
      write(server, remote, data_of(4, call, size));
      ASSERT_EQ(client.communicator->getPipeline(loopback, server.port, local, remote, size, 100'000, 4), SUCCESS);
      expect_at(client, local, 4);
    }
  }
  EXPECT_EQ(client.communicator->put(loopback, server.port, 0, bytes - 7, 8), ERROR);
  EXPECT_EQ(client.communicator->get(loopback, server.port, 0, SIZE_MAX, 8), ERROR);
  EXPECT_EQ(client.communicator->put(loopback, server.port, 0, bytes - 8, 8), SUCCESS);  // it still works
}

TEST_P(OnDevice, paired_calls_move_the_bytes) {
  constexpr std::size_t size = 300'001;
  write(client, 11, data_of(0, 1, size));
  auto receiver = std::async(std::launch::async, [&] { return server.communicator->recv(loopback, 77, size); });
  EXPECT_EQ(client.communicator->send(loopback, 11, size), SUCCESS);
  EXPECT_EQ(receiver.get(), SUCCESS);
  EXPECT_EQ(read(server, 77, size), data_of(0, 1, size));

  // Position-dependent data over more than ten halves of the receiver's buffer or relay.
  constexpr std::size_t halves = (21UL << 20) / 2 + 13;
  const Bytes sent = data_of(0, 2, halves);
  Bytes received(halves + 1);
  std::size_t length = 0;
  auto data_receiver = std::async(std::launch::async, [&] {
    return server.communicator->recvDataFrom(loopback, received.data(), received.size(), MemoryType::CPU, &length);
  });
  EXPECT_EQ(client.communicator->sendDataTo(loopback, const_cast<std::uint8_t*>(sent.data()), halves, MemoryType::CPU),
            SUCCESS);
  EXPECT_EQ(data_receiver.get(), SUCCESS);
  ASSERT_EQ(length, halves);
  received.pop_back();
  EXPECT_EQ(received, sent);
}

TEST_P(OnDevice, device_memory_outside_the_buffers_is_sent_and_received) {
  constexpr std::size_t size = (5UL << 20) + 1;
  Memory device(0, MemoryType::NVIDIA_GPU);
  void *source = nullptr, *destination = nullptr;
  ASSERT_EQ(device.allocateBuffer(&source, size), SUCCESS);
  ASSERT_EQ(device.allocateBuffer(&destination, size), SUCCESS);
  const Bytes sent = data_of(0, 3, size);
  ASSERT_EQ(device.copyHostToDevice(source, sent.data(), size), SUCCESS);
  std::size_t length = 0;
  auto receiver = std::async(std::launch::async, [&] {
    return client.communicator->recvDataFrom(loopback, server.port, destination, size, MemoryType::NVIDIA_GPU, &length);
  });
  EXPECT_EQ(server.communicator->sendDataTo(loopback, source, size, MemoryType::NVIDIA_GPU), SUCCESS);
  EXPECT_EQ(receiver.get(), SUCCESS);
  EXPECT_EQ(length, size);
  Bytes arrived(size);
  ASSERT_EQ(device.copyDeviceToHost(arrived.data(), destination, size), SUCCESS);
  EXPECT_EQ(arrived, sent);
  EXPECT_EQ(device.freeBuffer(source), SUCCESS);
  EXPECT_EQ(device.freeBuffer(destination), SUCCESS);
}

TEST_P(OnDevice, more_callers_than_slots_put_at_the_same_time) {
  constexpr int callers = 20, rounds = 5;
  constexpr std::size_t size = 70'001;
  std::vector<std::unique_ptr<Side>> sides;
  for (int i = 0; i < callers; ++i) {
    sides.push_back(std::make_unique<Side>(size, 1, std::get<2>(GetParam())));
    connect(*sides.back());
  }
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < callers; ++i)
    threads.emplace_back([&, i] {
      const auto at = static_cast<std::size_t>(i) * size;
      for (std::uint64_t round = 1; round <= rounds; ++round) {
        const Side& side = *sides[static_cast<std::size_t>(i)];
        write(side, 0, data_of(i, round, size));
        failures += side.communicator->put(loopback, server.port, 0, at, size) != SUCCESS;
        failures += read(server, at, size) != data_of(i, round, size);
      }
    });
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(failures, 0);
}

TEST_P(OnDevice, threads_of_one_communicator_and_peers_that_connect_and_disconnect) {
  constexpr std::size_t size = 600'001;
  std::atomic<int> failures{0};
  std::atomic<bool> stop{false};
  std::thread visitor([&] {
    while (!stop) {
      Side side(size, 1, std::get<2>(GetParam()));
      failures += side.communicator->connectTo(loopback, server.port, conn_type()) != SUCCESS;
      failures += side.communicator->put(loopback, server.port, 0, 2 * size, size) != SUCCESS;
    }
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&, i] {
      const auto at = static_cast<std::size_t>(i) * size;
      for (std::uint64_t round = 1; round <= 10; ++round) {
        write(client, at, data_of(i, round, size));
        failures += client.communicator->put(loopback, server.port, at, at, size) != SUCCESS;
        failures += read(server, at, size) != data_of(i, round, size);
        failures += client.communicator->get(loopback, server.port, at, at, size) != SUCCESS;
        failures += read(client, at, size) != data_of(i, round, size);
      }
    });
  for (std::thread& each : threads) each.join();
  stop = true;
  visitor.join();
  EXPECT_EQ(failures, 0);
}

TEST(OlderMemory, of_a_device_that_is_missing_has_the_status_of_the_failure) {
  Memory memory(99, MemoryType::NVIDIA_GPU);
  EXPECT_EQ(memory.getInitStatus(), ERROR);
  void* address = &memory;
  EXPECT_EQ(memory.allocateBuffer(&address, 1), ERROR);
  EXPECT_EQ(address, nullptr);
  EXPECT_EQ(memory.init(), ERROR);
  EXPECT_EQ(memory.setDeviceIdAndMemoryType(0, MemoryType::NVIDIA_GPU), SUCCESS);
  EXPECT_EQ(memory.allocateBuffer(&address, 1), SUCCESS);
  EXPECT_EQ(memory.freeBuffer(nullptr), SUCCESS);  // as the vendors' functions
  EXPECT_EQ(memory.free(), SUCCESS);
  EXPECT_EQ(memory.freeBuffer(address), NOT_FOUND);
}

std::string name_of_case(const ::testing::TestParamInfo<OnDevice::ParamType>& info) {
  const auto kind = [](MemoryType type) { return type == MemoryType::CPU ? "host" : "device"; };
  const std::string wire = std::get<0>(info.param);
  return (wire.empty() ? "shm" : wire) + "_server_" + kind(std::get<1>(info.param)) + "_client_" +
         kind(std::get<2>(info.param));
}
INSTANTIATE_TEST_SUITE_P(, OnDevice,
                         ::testing::Combine(::testing::ValuesIn(tested_wires()),
                                            ::testing::Values(MemoryType::CPU, MemoryType::NVIDIA_GPU),
                                            ::testing::Values(MemoryType::CPU, MemoryType::NVIDIA_GPU)),
                         &name_of_case);

}  // namespace
}  // namespace hmc::test
