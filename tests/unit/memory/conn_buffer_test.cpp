// ConnBuffers of every kind, and copies between any two, through the process's own registry.
#include <cstring>

#include <hmc/buffer.hpp>
#include <hmc/conn_buffer.hpp>
#include <hmc/runtime.hpp>
#include <hmc/window.hpp>

#include "runtime/memory/host.hpp"
#include "runtime/memory/library.hpp"
#include "tests/unit/memory/fake.hpp"

namespace hmc::memory {

namespace {

constexpr MemoryType kinds[] = {MemoryType::CPU,           MemoryType::NVIDIA_GPU,    MemoryType::AMD_GPU,
                                MemoryType::CAMBRICON_MLU, MemoryType::MOORE_GPU,     MemoryType::ASCEND_NPU,
                                MemoryType::OPENCL,        MemoryType::NVIDIA_PINNED, MemoryType::NVIDIA_MANAGED,
                                MemoryType::AMD_PINNED,    MemoryType::AMD_MANAGED};
constexpr std::size_t bytes = 150'000;  // more than one piece of a copy through the host

/// Null if this machine has no such memory; only OpenCL may be missing.
std::unique_ptr<ConnBuffer> make(MemoryType type, int device = 0) {
  try {
    return std::make_unique<ConnBuffer>(device, bytes, type);
  } catch (const Error& error) {
    EXPECT_EQ(type, MemoryType::OPENCL) << error.what();
    return nullptr;
  }
}

class ConnBufferKinds : public testing::Test {
 protected:
  ConnBufferKinds() { use_fakes(); }
};

TEST_F(ConnBufferKinds, every_kind_starts_zeroed_and_keeps_contents) {
  for (const MemoryType kind : kinds) {
    const auto buffer = make(kind);
    if (buffer == nullptr) continue;
    std::vector<unsigned char> back(bytes, 0xEE);
    ASSERT_EQ(buffer->readToCpu(back.data(), bytes), status_t::SUCCESS) << name_of(kind);
    EXPECT_EQ(back, std::vector<unsigned char>(bytes, 0)) << name_of(kind);
    const auto data = pattern(1000, 1);
    ASSERT_EQ(buffer->writeFromCpu(data.data(), 1000, 500), status_t::SUCCESS);
    ASSERT_EQ(buffer->copyWithin(700, 500, 1000), status_t::SUCCESS);
    back.resize(1000);
    ASSERT_EQ(buffer->readToCpu(back.data(), 1000, 700), status_t::SUCCESS);
    EXPECT_EQ(back, data) << name_of(kind);
    EXPECT_EQ(buffer->writeFromCpu(data.data(), 1000, bytes - 999), status_t::ERROR);
  }
}

TEST_F(ConnBufferKinds, bytes_are_copied_to_and_from_every_device) {
  for (const MemoryType from : kinds) {
    for (const MemoryType to : kinds) {
      const auto source = make(from);
      const auto target = make(to, to == from && to != MemoryType::CPU && to != MemoryType::OPENCL ? 1 : 0);
      if (source == nullptr || target == nullptr) continue;
      const auto data = pattern(bytes, static_cast<unsigned>(from) * 16 + static_cast<unsigned>(to));
      ASSERT_EQ(source->writeFromCpu(data.data(), bytes), status_t::SUCCESS);
      const auto* const middle = static_cast<const std::byte*>(source->ptr) + 100;
      const status_t expected = from == MemoryType::CPU ? status_t::UNSUPPORT : status_t::SUCCESS;
      ASSERT_EQ(target->writeFromGpu(middle, bytes - 100, 50), expected) << name_of(from) << " " << name_of(to);
      if (expected != status_t::SUCCESS) continue;
      std::vector<unsigned char> back(bytes - 100);
      ASSERT_EQ(target->readToCpu(back.data(), back.size(), 50), status_t::SUCCESS);
      EXPECT_TRUE(std::equal(back.begin(), back.end(), data.begin() + 100)) << name_of(from) << " " << name_of(to);

      // The opposite direction: the target is the source of the copy.
      ASSERT_EQ(target->readToGpu(source->ptr, 500, 50), status_t::SUCCESS);
      ASSERT_EQ(source->readToCpu(back.data(), 500), status_t::SUCCESS);
      EXPECT_TRUE(std::equal(back.begin(), back.begin() + 500, data.begin() + 100))
          << name_of(from) << " " << name_of(to);
    }
  }
}

TEST_F(ConnBufferKinds, kind_is_the_requested_one) {
  for (const MemoryType kind : kinds)
    if (const auto buffer = make(kind); buffer != nullptr) {
      EXPECT_EQ(buffer->mem_type, kind) << name_of(kind);
    }
}

// The host writes pinned and managed memory with stores; devices read the same bytes.
TEST_F(ConnBufferKinds, host_accessible_kinds_support_load_and_store) {
  for (const MemoryType kind : {MemoryType::CPU, MemoryType::NVIDIA_PINNED, MemoryType::NVIDIA_MANAGED,
                                MemoryType::AMD_PINNED, MemoryType::AMD_MANAGED}) {
    EXPECT_TRUE(host_accessible(kind));
    const auto buffer = make(kind);
    EXPECT_TRUE(buffer->allocation()->provider->host_accessible() || buffer->allocation()->host_accessible);
    const auto data = pattern(bytes, static_cast<unsigned>(kind));
    std::memcpy(buffer->ptr, data.data(), bytes);
    ConnBuffer device(0, bytes, MemoryType::NVIDIA_GPU);
    if (kind != MemoryType::CPU) {
      ASSERT_EQ(device.writeFromGpu(buffer->ptr, bytes), status_t::SUCCESS) << name_of(kind);
      std::vector<unsigned char> back(bytes);
      ASSERT_EQ(device.readToCpu(back.data(), bytes), status_t::SUCCESS);
      EXPECT_EQ(back, data) << name_of(kind);
    }
    const auto other = pattern(100, static_cast<unsigned>(kind) + 1);
    ASSERT_EQ(buffer->writeFromCpu(other.data(), 100, 7), status_t::SUCCESS);
    EXPECT_EQ(std::memcmp(static_cast<std::byte*>(buffer->ptr) + 7, other.data(), 100), 0) << name_of(kind);
  }
  for (const MemoryType kind : {MemoryType::DEFAULT, MemoryType::NVIDIA_GPU, MemoryType::AMD_GPU, MemoryType::OPENCL})
    EXPECT_FALSE(host_accessible(kind)) << name_of(kind);
}

TEST_F(ConnBufferKinds, default_kind_is_the_accelerator_or_the_host) {
  ConnBuffer best(1, bytes, MemoryType::DEFAULT);
  EXPECT_EQ(best.mem_type, MemoryType::NVIDIA_GPU);
  EXPECT_EQ(best.device_id, 1);
  EXPECT_EQ(owner_of(best.ptr).info.kind, PointerKind::device);
  ConnBuffer unnamed(0, bytes, MemoryType::CPU);
  EXPECT_EQ(unnamed.mem_type, MemoryType::CPU);
  std::memset(unnamed.ptr, 0x3C, bytes);
  const ConnBuffer moved = std::move(best);
  EXPECT_EQ(best.mem_type, MemoryType::DEFAULT);  // NOLINT: the state after a move is documented
  EXPECT_EQ(moved.mem_type, MemoryType::NVIDIA_GPU);

  const auto data = pattern(1000, 5);
  const Buffer<unsigned char> on_host(Allocator::host_new, data.data(), data.size());
  const auto there = on_host.get_accessible(MemoryType::DEFAULT, 1);
  EXPECT_EQ(owner_of(there.get()).provider->type(), MemoryType::NVIDIA_GPU);
  EXPECT_EQ(owner_of(there.get()).info.device, 1);
  EXPECT_EQ(read_back(provider_for(MemoryType::DEFAULT), there.get(), 1000), data);
}

TEST_F(ConnBufferKinds, unavailable_kind_reports_the_reason) {
  try {
    const ConnBuffer buffer(0, 100, static_cast<MemoryType>(memory_type_count));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unsupported);
  }
}

TEST(LibraryReason, names_every_library_that_was_tried) {
  const Library one({"HMC_TEST_LIBRARY", {"libhmc_none.so.1", "libhmc_none.so"}});
  EXPECT_EQ(one.why_not(), "libhmc_none.so.1 isn't on this machine");
  const Library several({"HMC_TEST_LIBRARY", {"libhmc_none.so.1", "libhmc_other.so", "libhmc_other.so.5"}});
  EXPECT_EQ(several.why_not(), "none of libhmc_none.so.1, libhmc_other.so is on this machine");
}

TEST_F(ConnBufferKinds, every_kind_supports_a_window) {
  Runtime runtime = Runtime::init();
  for (const MemoryType kind :
       {MemoryType::NVIDIA_GPU, MemoryType::OPENCL, MemoryType::AMD_PINNED, MemoryType::NVIDIA_MANAGED}) {
    const auto buffer = make(kind);
    if (buffer == nullptr) continue;
    Window window = Window::create(runtime.world(), *buffer);
    const std::uint64_t word = 0x1122334455667788;
    window.put(0, 8, &word, sizeof word);
    std::uint64_t got = 0;
    EXPECT_EQ(buffer->readToCpu(&got, sizeof got, 8), status_t::SUCCESS) << name_of(kind);
    EXPECT_EQ(got, word) << name_of(kind);
    EXPECT_EQ(window.fetch_add<std::uint64_t>(0, 8, 1), word) << name_of(kind);
    window.close();
  }
  runtime.close();
}

TEST_F(ConnBufferKinds, failed_copy_returns_an_error_code) {
  const auto buffer = make(MemoryType::NVIDIA_GPU);
  const Fake fake("cuda");
  char byte = 1;
  fake.arm("cuMemcpyHtoDAsync_v2:1");
  EXPECT_EQ(buffer->writeFromCpu(&byte, 1), status_t::ERROR);
  fake.arm("");
  EXPECT_EQ(buffer->writeFromCpu(&byte, 1), status_t::SUCCESS);
}

TEST_F(ConnBufferKinds, owner_of_finds_the_buffer_of_an_address) {
  const auto cuda = make(MemoryType::NVIDIA_GPU, 1);
  const auto hip = make(MemoryType::AMD_PINNED);
  int local = 0;
  EXPECT_EQ(owner_of(cuda->ptr).provider->name(), "cuda");
  EXPECT_EQ(owner_of(cuda->ptr).info.device, 1);
  EXPECT_EQ(owner_of(hip->ptr).provider->name(), "hip");
  EXPECT_EQ(owner_of(hip->ptr).info.kind, PointerKind::pinned);
  EXPECT_EQ(owner_of(&local).info.kind, PointerKind::unknown);
}

TEST(HostProvider, existing_node_is_bound_and_a_missing_one_is_rejected) {
  const HostProvider host;
  HostPlacement placement;
  placement.pages = HostPlacement::Pages::small;
  const auto memory = host.allocate_at(10'000, placement);
  EXPECT_EQ(memory->address[9999], std::byte{0});
  placement.numa_node = 900;
  EXPECT_THROW((void)host.allocate_at(10'000, placement), Error);
}

}  // namespace

}  // namespace hmc::memory
