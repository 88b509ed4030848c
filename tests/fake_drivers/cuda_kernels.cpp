// libcuda's names for kernels, and for words that streams write and wait for.
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
  return run_here("cuLaunchKernel",
                  [&](int) { return kernels().launch(function, blocks, threads, arguments, stream); });
}
FAKE_API int cuMemHostGetDevicePointer_v2(Address* seen, void* address, unsigned) {
  return run_here("cuMemHostGetDevicePointer_v2", [&](int) {
    HostBlock block;
    if (!memory().find_host(block, address)) return Result::invalid_value;
    *seen = reinterpret_cast<Address>(address);
    return Result::ok;
  });
}
FAKE_API int cuStreamWriteValue32_v2(void* stream, Address word, unsigned value, unsigned) {
  return run_here("cuStreamWriteValue32_v2", [&](int) { return streams().write_word(stream, pointer(word), value); });
}
FAKE_API int cuStreamWaitValue32_v2(void* stream, Address word, unsigned value, unsigned) {
  return run_here("cuStreamWaitValue32_v2", [&](int) { return streams().wait_word(stream, pointer(word), value); });
}
