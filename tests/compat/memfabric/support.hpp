// What the SPMD tests of MemFabric's API share. Its state is one per process, so the ranks are processes.
#pragma once

#include <smem_hmc.h>
#include <smem_trans.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <hmc/copy.hpp>
#include <hmc/hmc.hpp>
#include <hmc/place.hpp>

#include "tests/support/pattern.hpp"
#include "tests/support/spmd.hpp"

#define SMEM_CHECK(...)                                                                                   \
  do {                                                                                                    \
    if (const std::int32_t code_ = (__VA_ARGS__); code_ != SMEM_OK)                                       \
      ::hmc::spmd::fail_check(__FILE__, __LINE__, fmt::format("{}: {}", code_, smem_get_last_err_msg())); \
  } while (false)

namespace hmc::memfabric_test {

using spmd::Pattern;
using spmd::TestRank;

inline constexpr auto host = SMEM_MEM_TYPE_HOST;
inline constexpr auto device = SMEM_MEM_TYPE_DEVICE;
inline constexpr std::uint64_t MiB = 1 << 20;
inline constexpr std::uint64_t part_bytes = 4 * MiB;

/// Failures that a test expects would fill the log; a check prints the last error.
inline const std::int32_t quiet = smem_set_extern_logger([](int, const char*) {});

/// The device of the tests: --set device=cuda or opencl; else there is none, and device parts are in host memory.
struct Device {
  explicit Device(const TestRank& me) {
    const std::string name = me.options.setting("device");
    if (name.empty()) return;
    type = name == "opencl" ? MemoryType::OPENCL : MemoryType::NVIDIA_GPU;
    number = 0;
    try {
      (void)detail::allocate_at(Place(detail::allocator_for(type), 0), 4096);
    } catch (const Error& error) {
      if (type != MemoryType::OPENCL) throw;  // the fake drivers are always there
      spmd::skip(error.what());
    }
  }
  bool exists() const { return type != MemoryType::CPU; }
  MemoryType type = MemoryType::CPU;
  std::uint16_t number = static_cast<std::uint16_t>(SMEM_INVALID_DEV_ID);
};

inline void barrier(const TestRank& me) { me.runtime->world().barrier(); }

template <typename T> std::vector<T> allgather(const TestRank& me, const T& mine) {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(me.size));
  const auto word = static_cast<std::uint64_t>(mine);
  me.runtime->world().allgather(std::span(&word, 1), std::span(all));
  return {all.begin(), all.end()};
}

/// BM from init to uninit.
class BmProcess {
 public:
  explicit BmProcess(TestRank& me) : accelerator(me) {
    smem_bm_config_t config;
    SMEM_CHECK(smem_bm_config_init(&config));
    config.autoRanking = false;
    config.rankId = static_cast<std::uint16_t>(me.rank);
    config.initTimeout = config.createTimeout = config.controlOperationTimeout = 100;
    if (accelerator.exists()) SMEM_CHECK(smem_set_device_memory(static_cast<int>(accelerator.type)));
    SMEM_CHECK(smem_bm_init("hmc://", static_cast<std::uint32_t>(me.size), accelerator.number, &config));
    HMC_CHECK_EQ(smem_bm_get_rank_id(), static_cast<std::uint32_t>(me.rank));
  }
  ~BmProcess() { smem_uninit(); }
  BmProcess(const BmProcess&) = delete;
  BmProcess& operator=(const BmProcess&) = delete;

  const Device accelerator;
};

/// A pool of all ranks.
class BmPool {
 public:
  BmPool(TestRank& me, const smem_bm_create_option_t& option, std::uint32_t id = 0)
      : me_(&me), handle_(smem_bm_create2(id, &option)) {
    HMC_CHECK_MSG(handle_ != nullptr, "{}", smem_get_last_err_msg());
    SMEM_CHECK(smem_bm_join(handle_, 0));
    barrier(me);
  }
  ~BmPool() { smem_bm_destroy(handle_); }
  BmPool(const BmPool&) = delete;
  BmPool& operator=(const BmPool&) = delete;

  smem_bm_t handle() const { return handle_; }
  std::byte* address(int rank, smem_bm_mem_type type, std::uint64_t offset = 0) const {
    void* const base = smem_bm_ptr_by_mem_type(handle_, type, static_cast<std::uint16_t>(rank));
    HMC_CHECK_MSG(base != nullptr, "{}", smem_get_last_err_msg());
    return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(base) + offset);
  }
  std::int32_t copy(void* to, const void* from, std::uint64_t bytes, smem_bm_copy_type type,
                    std::uint32_t flags = 0) const {
    smem_copy_params params{from, to, bytes, nullptr};
    return smem_bm_copy(handle_, &params, type, flags);
  }
  /// This rank's own memory. The host part is loaded from; a device part is copied by the device.
  std::vector<std::byte> own(smem_bm_mem_type type, std::uint64_t offset, std::uint64_t bytes) const {
    std::vector<std::byte> read(bytes);
    const std::byte* const from = address(me_->rank, type, offset);
    if (type == SMEM_MEM_TYPE_HOST) {
      std::memcpy(read.data(), from, bytes);
    } else {
      SMEM_CHECK(copy(read.data(), from, bytes, SMEMB_COPY_G2H));
    }
    return read;
  }
  void fill_own(smem_bm_mem_type type, std::uint64_t offset, const std::vector<std::byte>& bytes) const {
    std::byte* const to = address(me_->rank, type, offset);
    if (type == SMEM_MEM_TYPE_HOST) {
      std::memcpy(to, bytes.data(), bytes.size());
    } else {
      SMEM_CHECK(copy(to, bytes.data(), bytes.size(), SMEMB_COPY_H2G));
    }
  }

 private:
  TestRank* me_;
  smem_bm_t handle_;
};

/// Equal parts in all members.
inline smem_bm_create_option_t parts(std::uint64_t host = part_bytes, std::uint64_t device = part_bytes) {
  smem_bm_create_option_t option{};
  option.maxDramSize = option.localDRAMSize = host;
  option.maxHbmSize = option.localHBMSize = device;
  option.dataOpType = SMEMB_DATA_OP_SDMA;
  return option;
}

/// Memory of this process: of the host, or of the device of the tests.
class LocalMemory {
 public:
  LocalMemory(std::uint64_t bytes, const Device& device, bool on_device) : bytes_(bytes) {
    on_device_ = on_device && device.exists();
    memory_ = detail::allocate_at(
        on_device_ ? Place(detail::allocator_for(device.type), device.number) : Place(Allocator::host_malloc), bytes);
    write(std::vector<std::byte>(bytes));
  }
  std::byte* data(std::uint64_t offset = 0) const {
    return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(memory_.get()) + offset);
  }
  void write(const std::vector<std::byte>& from, std::uint64_t offset = 0) const {
    hmc::copy(Location(data(offset)), Location(from.data()), from.size());
  }
  std::vector<std::byte> read(std::uint64_t offset, std::uint64_t bytes) const {
    std::vector<std::byte> to(bytes);
    hmc::copy(Location(to.data()), Location(data(offset)), bytes);
    return to;
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::uint64_t bytes_;
  bool on_device_ = false;
  std::shared_ptr<std::byte> memory_;
};

inline std::vector<std::byte> pattern(int rank, std::uint64_t call, std::uint64_t bytes) {
  std::vector<std::byte> filled(bytes);
  Pattern{rank, call}.fill(filled);
  return filled;
}

}  // namespace hmc::memfabric_test
