// Defines the macros of device_kernels.inl for the host.
#pragma once

#include <bit>

#include "tests/fake_drivers/kernel_thread.hpp"

namespace fake {

inline thread_local const FakeThread* present_thread = nullptr;

template <typename T> T* reach(T* pointer) {
  return static_cast<T*>(present_thread->reach(const_cast<const void*>(static_cast<const volatile void*>(pointer))));
}

}  // namespace fake

#define HMC_KERNEL static void
#define HMC_DEVICE inline
#define HMC_AT(pointer) (::fake::reach(pointer))
#define HMC_THREAD                                                                                    \
  (static_cast<unsigned long long>(::fake::present_thread->block) * ::fake::present_thread->threads + \
   ::fake::present_thread->thread)
#define HMC_THREADS (static_cast<unsigned long long>(::fake::present_thread->blocks) * ::fake::present_thread->threads)
#define HMC_BITS_OF_FLOAT(value) std::bit_cast<unsigned>(value)
#define HMC_FLOAT_OF_BITS(bits) std::bit_cast<float>(bits)
#define HMC_BITS_OF_DOUBLE(value) std::bit_cast<unsigned long long>(value)
#define HMC_DOUBLE_OF_BITS(bits) std::bit_cast<double>(bits)
