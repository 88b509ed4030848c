// OpenMp: memory of OpenMP's devices, by the OpenMP library that the process has.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/base/status.hpp"
#include "runtime/memory/library.hpp"

namespace hmc::memory {

inline constexpr LibraryNames openmp_library{"HMC_OPENMP_LIBRARY", {"libgomp.so.1", "libomp.so.5", "libomp.so"}};

/// Devices have OpenMP's numbers: 0 to devices() - 1, and devices() for the host, where memory of omp_target_alloc is
/// ordinary. Its calls answer without codes, and copies are over when they return. Any thread.
class OpenMp {
 public:
  /// One OpenMP per process: with two, neither knows what the other gave.
  static const OpenMp& instance();

  const std::string& why_not() const noexcept { return why_not_; }
  const std::string& path() const noexcept { return library_.path(); }
  int devices() const noexcept { return why_not_.empty() ? count_() : 0; }
  int host() const noexcept { return devices(); }

  /// Null when there is no memory.
  void* allocate(std::size_t bytes, int device) const noexcept { return allocate_(bytes, device); }
  void free(void* address, int device) const noexcept { free_(address, device); }
  base::Status copy(void* to, int to_device, const void* from, int from_device, std::size_t bytes) const noexcept;

 private:
  OpenMp();
  template <typename Function> void take(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(library_.demand(name));
  }

  Library library_;
  std::string why_not_;
  int (*count_)() = nullptr;
  void* (*allocate_)(std::size_t, int) = nullptr;
  void (*free_)(void*, int) = nullptr;
  int (*copy_)(void*, const void*, std::size_t, std::size_t, std::size_t, int, int) = nullptr;
};

}  // namespace hmc::memory
