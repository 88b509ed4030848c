// Shared by the files of the fake libcuda. As in libcuda, most calls need a current context.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "runtime/memory/vendors/cuda_api.hpp"
#include "tests/fake_drivers/result_numbers.hpp"

namespace fake {

using hmc::memory::cuda::Address;

/// CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES.
inline constexpr int attribute_can_flush = 98;

/// cuInit was called.
extern bool initialized;

/// Has no destructor: destructors of static objects may free memory after the thread-local objects were destroyed.
class ContextStack {
 public:
  bool empty() const noexcept { return depth_ == 0; }
  int back() const noexcept { return devices_[depth_ - 1]; }
  bool push(int device) noexcept {
    if (depth_ == devices_.size()) return false;
    devices_[depth_++] = device;
    return true;
  }
  void pop() noexcept { --depth_; }

 private:
  std::array<int, 64> devices_;
  std::size_t depth_;
};
extern thread_local constinit ContextStack context_stack;

template <typename Work> int run(const char* name, Work&& work) {
  return call(name, code_of, 999, [&]() -> Result { return initialized ? work() : Result::not_initialized; });
}
/// For a call that needs a context. `work` gets the context's device.
template <typename Work> int run_here(const char* name, Work&& work) {
  return run(name,
             [&]() -> Result { return context_stack.empty() ? Result::invalid_context : work(context_stack.back()); });
}
inline void* context(int device) { return reinterpret_cast<void*>(static_cast<std::intptr_t>(0xC0 + device)); }
inline int device_of(void* context) { return static_cast<int>(reinterpret_cast<std::intptr_t>(context)) - 0xC0; }
inline bool is_device(int device) { return device >= 0 && device < control().devices; }
inline void* pointer(Address address) { return reinterpret_cast<void*>(address); }

}  // namespace fake
