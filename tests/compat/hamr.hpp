// For the tests of hamr::buffer: the fakes of the drivers, the program's own use of them, and values.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <vector>

#include <hamr_buffer.h>

#include "tests/unit/memory/fake.hpp"

namespace hmc::compat {

inline const bool with_fakes = [] {  // each test may be the first
  memory::use_fakes();
  ::setenv("HMC_OPENMP_LIBRARY", memory::fake_path("openmp_cuda").c_str(), 1);
  return true;
}();

using hamr::buffer;
using A = hamr::buffer_allocator;
using Transfer = hamr::buffer_transfer;

inline constexpr A allocators[] = {A::cpp,       A::malloc, A::cuda,    A::cuda_async, A::cuda_uva,
                                   A::cuda_host, A::hip,    A::hip_uva, A::openmp};

/// The program's own use of a vendor's library.
class Driver {
 public:
  explicit Driver(const char* variable) : library_(::dlopen(std::getenv(variable), RTLD_NOW)) {}
  template <typename... Args> int operator()(const char* name, Args... args) const {
    return reinterpret_cast<int (*)(Args...)>(::dlsym(library_, name))(args...);
  }
  void set_delay_us(int us) const { reinterpret_cast<void (*)(int)>(::dlsym(library_, "fake_set_delay_us"))(us); }
  long live() const { return memory() + live({"stream"}); }
  /// HMC keeps the stream of its first blocking copy.
  long memory() const { return live({"memory", "physical", "host"}); }

 private:
  long live(std::initializer_list<const char*> kinds) const {
    long count = 0;
    for (const char* const kind : kinds)
      count += reinterpret_cast<long (*)(const char*)>(::dlsym(library_, "fake_live"))(kind);
    return count;
  }

  void* library_;
};

/// cudaSetDevice, for the current scope.
class Cuda : public Driver {
 public:
  explicit Cuda(int device = 0) : Driver("HMC_CUDA_LIBRARY"), device_(device) {
    void* context = nullptr;
    EXPECT_EQ((*this)("cuInit", 0U), 0);
    EXPECT_EQ((*this)("cuDevicePrimaryCtxRetain", &context, device), 0);
    EXPECT_EQ((*this)("cuCtxPushCurrent_v2", context), 0);
  }
  ~Cuda() {
    set_delay_us(0);
    void* popped = nullptr;
    EXPECT_EQ((*this)("cuCtxPopCurrent_v2", &popped), 0);
    EXPECT_EQ((*this)("cuDevicePrimaryCtxRelease_v2", device_), 0);
  }
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;
  /// As a kernel on the legacy default stream: stores the values after the stream's earlier work. The values must
  /// outlive it.
  template <typename T> void launch(T* to, const std::vector<T>& values) const {
    EXPECT_EQ((*this)("cuMemcpyHtoDAsync_v2", reinterpret_cast<std::uintptr_t>(to),
                      static_cast<const void*>(values.data()), values.size() * sizeof(T), static_cast<void*>(nullptr)),
              0);
  }

 private:
  int device_;
};

template <typename T> std::vector<T> all_of(const buffer<T>& of) {
  const auto [handle, values] = hamr::get_host_accessible(of);
  return std::vector<T>(values, values + of.size());
}

template <typename T> std::vector<T> counted(std::size_t count, int seed) {
  std::vector<T> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = static_cast<T>((i * 7 + static_cast<std::size_t>(seed)) % 101);
  return made;
}

}  // namespace hmc::compat
