// OpenMp: memory of OpenMP devices, through the OpenMP library of the process.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/base/status.hpp"
#include "runtime/memory/library.hpp"

namespace hmc::memory {

inline constexpr LibraryNames openmp_library{"HMC_OPENMP_LIBRARY", {"libgomp.so.1", "libomp.so.5", "libomp.so"}};

/// Devices have OpenMP's numbers, 0 to devices() - 1. Number devices() is the host: omp_target_alloc returns ordinary
/// host memory for it. The library returns no error codes. Copies are complete when they return. Any thread.
class OpenMp {
 public:
  /// One OpenMP library per process: a second one couldn't copy or free the memory of the first.
  static const OpenMp& instance();

  const std::string& why_not() const noexcept { return why_not_; }
  const std::string& path() const noexcept { return library_.path(); }
  int devices() const noexcept { return why_not_.empty() ? count_() : 0; }
  int host() const noexcept { return devices(); }
  /// The program's default device.
  int current_device() const noexcept { return default_ == nullptr ? 0 : default_(); }

  /// Null if out of memory.
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
  int (*default_)() = nullptr;  // null if the library has no such call
  void* (*allocate_)(std::size_t, int) = nullptr;
  void (*free_)(void*, int) = nullptr;
  int (*copy_)(void*, const void*, std::size_t, std::size_t, std::size_t, int, int) = nullptr;
};

}  // namespace hmc::memory
