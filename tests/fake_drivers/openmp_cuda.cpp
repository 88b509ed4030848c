// An OpenMP library that offloads to the fake GPU of HMC_CUDA_LIBRARY: its device 0 is CUDA's device 0.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define FAKE_API extern "C" __attribute__((visibility("default")))

namespace {

constexpr int devices = 1;

/// Calls of libcuda in the context of device 0.
class Gpu {
 public:
  Gpu() : library_(::dlopen(std::getenv("HMC_CUDA_LIBRARY"), RTLD_NOW | RTLD_LOCAL)) {
    (*this)("cuInit", 0U);
    (*this)("cuDevicePrimaryCtxRetain", &context_, 0);
  }
  template <typename... Args> int operator()(const char* name, Args... args) const {
    return reinterpret_cast<int (*)(Args...)>(::dlsym(library_, name))(args...);
  }
  template <typename... Args> int in_context(const char* name, Args... args) const {
    void* popped = nullptr;
    if (const int code = (*this)("cuCtxPushCurrent_v2", context_); code != 0) return code;
    int code = (*this)(name, args...);
    if (code == 0) code = (*this)("cuStreamSynchronize", static_cast<void*>(nullptr));
    (*this)("cuCtxPopCurrent_v2", &popped);
    return code;
  }

 private:
  void* library_;
  void* context_ = nullptr;
};

const Gpu& gpu() {
  static const Gpu one;
  return one;
}
std::uintptr_t number_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

FAKE_API int omp_get_num_devices() { return devices; }
FAKE_API int omp_get_default_device() { return 0; }

FAKE_API void* omp_target_alloc(std::size_t bytes, int device) {
  if (device == devices) return std::malloc(bytes);
  std::uintptr_t address = 0;
  return gpu().in_context("cuMemAlloc_v2", &address, bytes) == 0 ? reinterpret_cast<void*>(address) : nullptr;
}

FAKE_API void omp_target_free(void* address, int device) {
  if (device == devices)
    std::free(address);
  else
    gpu().in_context("cuMemFree_v2", number_of(address));
}

FAKE_API int omp_target_memcpy(void* to, const void* from, std::size_t bytes, std::size_t to_offset,
                               std::size_t from_offset, int to_device, int from_device) {
  void* const target = static_cast<std::byte*>(to) + to_offset;
  const void* const source = static_cast<const std::byte*>(from) + from_offset;
  void* const stream = nullptr;
  if (to_device == devices && from_device == devices) {
    std::memcpy(target, source, bytes);
    return 0;
  }
  if (to_device == devices) return gpu().in_context("cuMemcpyDtoHAsync_v2", target, number_of(source), bytes, stream);
  if (from_device == devices) return gpu().in_context("cuMemcpyHtoDAsync_v2", number_of(target), source, bytes, stream);
  return gpu().in_context("cuMemcpyDtoDAsync_v2", number_of(target), number_of(source), bytes, stream);
}
