// OpenCL's buffers are objects without an address. HMC gives each one a reserved range of this
// process's addresses that nobody can read: pointer arithmetic works, and a host that dereferences
// device memory faults at once.
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
    void* buffer = nullptr;  ///< null: not ours
    std::size_t offset = 0;
    std::size_t left = 0;  ///< bytes from the address to the buffer's end
    int device = -1;
  };
  /// Null when there are no addresses left.
  void* add(void* buffer, std::size_t bytes, int device) noexcept;
  /// The buffer that lay there, for releasing; null if `address` isn't a start.
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
  // What lies outside of all that ever were is the host's, and needs no lock to say so.
  std::atomic<std::uintptr_t> lowest_{UINTPTR_MAX}, end_{0};
};

}  // namespace hmc::memory
