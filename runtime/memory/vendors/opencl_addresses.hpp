// OpenClAddresses: OpenCL buffers have no address, so HMC reserves an inaccessible address range for each. Pointer
// arithmetic works, and a host access to device memory faults at once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace hmc::memory {

class OpenClAddresses {
 public:
  struct Place {
    void* buffer = nullptr;  ///< null: the address isn't in any range of HMC
    std::size_t offset = 0;
    std::size_t left = 0;  ///< bytes from the address to the buffer's end
    int device = -1;
  };
  /// Null if out of addresses or host memory.
  void* add(void* buffer, std::size_t bytes, int device) noexcept;
  /// Returns the buffer, which the caller releases; null if `address` isn't the start of a range.
  void* remove(void* address) noexcept;
  Place find(const void* address) const noexcept;

 private:
  struct Range {
    std::size_t bytes;
    void* buffer;
    int device;
  };
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, Range> ranges_;
  // Bounds of all ranges so far. An address outside is host memory; find() checks that without the lock.
  std::atomic<std::uintptr_t> lowest_{UINTPTR_MAX}, end_{0};
};

}  // namespace hmc::memory
