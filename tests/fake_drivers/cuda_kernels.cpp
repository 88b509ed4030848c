// libcuda: kernels, and words that streams write and wait for.
#include "tests/fake_drivers/cuda_calls.hpp"
#include "tests/fake_drivers/kernels.hpp"

using namespace fake;

FAKE_API int cuModuleLoadData(void** module, const void* image) {
  return run_here("cuModuleLoadData", [&](int) { return kernels().load(*module, image); });
}
FAKE_API int cuModuleUnload(void* module) {
  return run_here("cuModuleUnload", [&](int) { return kernels().unload(module); });
}
FAKE_API int cuModuleGetFunction(void** function, void* module, const char* name) {
  return run_here("cuModuleGetFunction", [&](int) { return kernels().function(*function, module, name); });
}
FAKE_API int cuLaunchKernel(void* function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                            unsigned, void* stream, void** arguments, void**) {
  return run_here("cuLaunchKernel", [&](int device) {
    return kernels().launch(function, blocks, threads, arguments, {stream, device});
  });
}
FAKE_API int cuMemHostGetDevicePointer_v2(Address* seen, void* address, unsigned flags) {
  return run_here("cuMemHostGetDevicePointer_v2", [&](int device) {
    void* found = nullptr;
    const Result result = flags == 0 ? memory().device_pointer(found, address, device) : Result::invalid_value;
    *seen = reinterpret_cast<Address>(found);
    return result;
  });
}
FAKE_API int cuStreamWriteValue32_v2(void* stream, Address word, unsigned value, unsigned flags) {
  constexpr unsigned no_memory_barrier = 1;
  return run_here("cuStreamWriteValue32_v2", [&](int device) {
    if ((flags & ~no_memory_barrier) != 0) return Result::invalid_value;
    return streams().write_word({stream, device}, pointer(word), value, 4);
  });
}
// FLUSH makes earlier remote writes to the device visible. Here they are visible when the word is, so it does nothing.
FAKE_API int cuStreamWaitValue32_v2(void* stream, Address word, unsigned value, unsigned flags) {
  constexpr unsigned flush = 1U << 30, not_all_bits = 3;
  return run_here("cuStreamWaitValue32_v2", [&](int device) {
    if ((flags & ~flush) > not_all_bits) return Result::invalid_value;
    return streams().wait_word({stream, device}, pointer(word),
                               {.bytes = 4, .value = value, .until = static_cast<WordWait::Until>(flags & ~flush)});
  });
}
