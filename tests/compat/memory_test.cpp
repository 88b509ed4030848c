// Memory and ConnBuffer of <hmc.h> on the host, and the texts of status_t.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hmc.h>

#include "tests/support/too_much_memory.hpp"

namespace hmc::compat {

namespace {

TEST(CompatMemory, every_status_has_its_own_text) {
  std::set<std::string> texts;
  for (int status = 0; status <= 5; ++status) texts.insert(status_to_string(static_cast<status_t>(status)));
  EXPECT_EQ(texts.size(), 6U);
  EXPECT_EQ(texts.count("Unknown status"), 0U);
  EXPECT_STREQ(status_to_string(static_cast<status_t>(6)), "Unknown status");
}

TEST(CompatMemory, buffers_are_allocated_copied_and_freed) {
  Memory memory(0, MemoryType::CPU);
  ASSERT_EQ(memory.getInitStatus(), status_t::SUCCESS);
  EXPECT_EQ(memory.getMemoryType(), MemoryType::CPU);
  EXPECT_EQ(memory.getDeviceId(), 0);
  void *one = nullptr, *two = nullptr;
  ASSERT_EQ(memory.allocateBuffer(&one, 5000), status_t::SUCCESS);
  ASSERT_EQ(memory.allocatePeerableBuffer(&two, 5000), status_t::SUCCESS);
  std::vector<std::uint8_t> bytes(5000), back(5000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
  EXPECT_EQ(memory.copyHostToDevice(one, bytes.data(), 5000), status_t::SUCCESS);
  EXPECT_EQ(memory.copyDeviceToDevice(two, one, 5000), status_t::SUCCESS);
  EXPECT_EQ(memory.copyDeviceToHost(back.data(), two, 5000), status_t::SUCCESS);
  EXPECT_EQ(back, bytes);
  EXPECT_EQ(memory.copyHostToDevice(nullptr, bytes.data(), 1), status_t::ERROR);
  EXPECT_EQ(memory.freeBuffer(one), status_t::SUCCESS);
  EXPECT_EQ(memory.freeBuffer(one), status_t::NOT_FOUND);
  EXPECT_EQ(memory.freeBuffer(bytes.data()), status_t::NOT_FOUND);
  EXPECT_EQ(memory.freeBuffer(nullptr), status_t::ERROR);
}

TEST(CompatMemory, free_frees_all_buffers_and_the_object_remains_usable) {
  Memory memory(3, MemoryType::CPU);
  const std::unique_ptr<MemoryBase> other = memory.createMemoryClass(MemoryType::CPU);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(memory.createMemoryClass(MemoryType::DEFAULT), nullptr);
  void *one = nullptr, *two = nullptr, *theirs = nullptr;
  ASSERT_EQ(memory.allocateBuffer(&one, 100), status_t::SUCCESS);
  ASSERT_EQ(memory.allocateBuffer(&two, 100), status_t::SUCCESS);
  ASSERT_EQ(other->init(), status_t::SUCCESS);
  ASSERT_EQ(other->allocatePeerableBuffer(&theirs, 100), status_t::SUCCESS);
  EXPECT_EQ(memory.free(), status_t::SUCCESS);
  EXPECT_EQ(memory.freeBuffer(one), status_t::NOT_FOUND);
  EXPECT_EQ(memory.freeBuffer(two), status_t::NOT_FOUND);
  EXPECT_EQ(memory.init(), status_t::SUCCESS);
  EXPECT_EQ(memory.allocateBuffer(&one, 100), status_t::SUCCESS);
  // The other object's buffer remains.
  std::vector<std::uint8_t> bytes(100, 77), back(100);
  EXPECT_EQ(other->copyHostToDevice(theirs, bytes.data(), 100), status_t::SUCCESS);
  EXPECT_EQ(other->copyDeviceToDevice(one, theirs, 100), status_t::SUCCESS);
  EXPECT_EQ(other->copyDeviceToHost(back.data(), one, 100), status_t::SUCCESS);
  EXPECT_EQ(back, bytes);
  EXPECT_EQ(other->freeBuffer(theirs), status_t::SUCCESS);
}

TEST(CompatMemory, host_memory_accepts_the_number_of_any_device) {
  for (const int device : {0, 1, 7}) {
    ConnBuffer buffer(device, 100, MemoryType::CPU);
    EXPECT_EQ(buffer.device_id, device);
    const std::uint8_t byte = 5;
    EXPECT_EQ(buffer.writeFromCpu(&byte, 1, 99), status_t::SUCCESS);
    Memory memory(device, MemoryType::CPU);
    EXPECT_EQ(memory.getInitStatus(), status_t::SUCCESS);
    EXPECT_EQ(memory.getDeviceId(), device);
  }
}

TEST(CompatMemory, mem_ops_of_a_buffer_copies_and_allocates_on_its_device) {
  ConnBuffer buffer(3, 100, MemoryType::CPU);
  EXPECT_EQ(buffer.mem_ops->getMemoryType(), MemoryType::CPU);
  EXPECT_EQ(buffer.mem_ops->getDeviceId(), 3);
  std::vector<std::uint8_t> bytes(90), back(90);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(5 * i + 1);
  const auto at = [&](std::size_t offset) { return static_cast<std::uint8_t*>(buffer.ptr) + offset; };
  EXPECT_EQ(buffer.mem_ops->copyHostToDevice(at(10), bytes.data(), 90), status_t::SUCCESS);
  void* other = nullptr;
  Memory* const operations = buffer.mem_ops;
  ASSERT_EQ(operations->allocateBuffer(&other, 90), status_t::SUCCESS);
  EXPECT_EQ(operations->copyDeviceToDevice(other, at(10), 90), status_t::SUCCESS);
  EXPECT_EQ(operations->freeBuffer(buffer.ptr), status_t::NOT_FOUND);
  ConnBuffer moved(std::move(buffer));
  ASSERT_EQ(moved.mem_ops, operations);
  EXPECT_EQ(buffer.mem_ops, nullptr);
  EXPECT_EQ(moved.mem_ops->copyDeviceToHost(back.data(), other, 90), status_t::SUCCESS);
  EXPECT_EQ(back, bytes);
}

TEST(CompatMemory, a_type_that_the_machine_lacks_is_an_exception_with_the_reason) {
  ::setenv("HMC_HIP_LIBRARY", "none", 1);
  const auto expect_reason = [](auto&& call) {
    try {
      call();
      ADD_FAILURE() << "no exception";
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find("HMC_HIP_LIBRARY=none"), std::string::npos) << error.what();
    }
  };
  expect_reason([] { const Memory memory(0, MemoryType::AMD_GPU); });
  Memory memory(2, MemoryType::CPU);
  expect_reason([&] { (void)memory.setDeviceIdAndMemoryType(1, MemoryType::AMD_GPU); });
  expect_reason([&] { (void)memory.createMemoryClass(MemoryType::AMD_GPU); });
  // Nothing has changed.
  EXPECT_EQ(memory.getInitStatus(), status_t::SUCCESS);
  EXPECT_EQ(memory.getMemoryType(), MemoryType::CPU);
  EXPECT_EQ(memory.getDeviceId(), 2);
  ::unsetenv("HMC_HIP_LIBRARY");
}

TEST(CompatMemory, failures_are_statuses) {
  Memory memory(0, MemoryType::CPU);
  void* address = &memory;
  EXPECT_EQ(memory.allocateBuffer(&address, SIZE_MAX / 2), status_t::ERROR);
  EXPECT_EQ(address, nullptr);
  EXPECT_EQ(memory.allocateBuffer(nullptr, 1), status_t::ERROR);
  EXPECT_EQ(memory.allocateBuffer(&address, 1), status_t::SUCCESS);
}

TEST(CompatMemory, more_memory_than_the_machine_has_is_refused) {
  const std::size_t bytes = test::too_much_memory();
  Memory memory(0, MemoryType::CPU);
  void* address = &memory;
  EXPECT_EQ(memory.allocateBuffer(&address, bytes), status_t::ERROR);
  EXPECT_EQ(address, nullptr);
  try {
    const ConnBuffer buffer(0, bytes, MemoryType::CPU);
    ADD_FAILURE() << "ConnBuffer took " << bytes << " bytes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::out_of_memory) << error.what();
  }
}

TEST(CompatMemory, default_type_is_the_accelerator_or_the_host) {
  const Memory memory(0);
  EXPECT_EQ(memory.getMemoryType(), memory_supported());
  EXPECT_NE(memory.getMemoryType(), MemoryType::DEFAULT);
  const ConnBuffer buffer(0, 100);
  EXPECT_EQ(buffer.mem_type, memory_supported());
}

TEST(CompatMemory, ranges_near_the_end_of_the_address_space_are_refused) {
  ConnBuffer buffer(0, 4096, MemoryType::CPU);
  std::vector<std::uint8_t> bytes(4096);
  for (const std::size_t bias : {std::size_t{1}, std::size_t{4097}, SIZE_MAX, SIZE_MAX - 4095}) {
    EXPECT_EQ(buffer.writeFromCpu(bytes.data(), 4096, bias), status_t::ERROR) << bias;
    EXPECT_EQ(buffer.readToCpu(bytes.data(), 4096, bias), status_t::ERROR) << bias;
    if (bias > 1) {  // bias + size wraps to 1
      EXPECT_EQ(buffer.writeFromCpu(bytes.data(), SIZE_MAX - bias + 2, bias), status_t::ERROR) << bias;
    }
    EXPECT_EQ(buffer.copyWithin(bias, 0, 4096), status_t::ERROR) << bias;
    EXPECT_EQ(buffer.copyWithin(0, bias, 4096), status_t::ERROR) << bias;
  }
  EXPECT_EQ(buffer.writeFromCpu(bytes.data(), 4096), status_t::SUCCESS);
}

}  // namespace

}  // namespace hmc::compat
