// BounceBuffers: registered memory into which transfers of unregistered memory are copied.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/transport/rdma/device.hpp"

namespace hmc::transport::rdma {

class BounceBuffers {
 public:
  static constexpr std::uint32_t bytes = 8192;  // of one buffer
  static constexpr std::uint32_t count = 256;

  /// Throws Error{unavailable}.
  explicit BounceBuffers(const Device& device) {
    // A shared mapping: after a fork() this process keeps its pages, which the device accesses.
    void* const memory =
        ::mmap(nullptr, std::size_t{bytes} * count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw_errno("no memory for bounce buffers", errno);
    memory_ = static_cast<std::byte*>(memory);
    registration_ = device.register_memory(memory_, std::size_t{bytes} * count, IBV_ACCESS_LOCAL_WRITE);
    if (registration_ == nullptr) {
      const int error = errno;
      ::munmap(memory_, std::size_t{bytes} * count);
      throw_errno("can't register the bounce buffers", error);
    }
    for (std::uint32_t i = count; i > 0; --i) free_.push_back(static_cast<std::uint16_t>(i));
  }
  ~BounceBuffers() {
    registration_.reset();
    ::munmap(memory_, std::size_t{bytes} * count);
  }
  BounceBuffers(const BounceBuffers&) = delete;
  BounceBuffers& operator=(const BounceBuffers&) = delete;

  bool is_empty() const noexcept { return free_.empty(); }
  /// Buffers have the numbers 1 to count.
  std::uint16_t take() noexcept {
    const std::uint16_t number = free_.back();
    free_.pop_back();
    return number;
  }
  void give_back(std::uint16_t number) noexcept { free_.push_back(number); }
  std::byte* at(std::uint16_t number) const noexcept { return memory_ + std::size_t{bytes} * (number - 1U); }
  std::uint32_t key() const noexcept { return registration_->lkey; }

 private:
  std::byte* memory_ = nullptr;
  Owned<ibv_mr> registration_;
  std::vector<std::uint16_t> free_;
};

}  // namespace hmc::transport::rdma
