// Functions of libmusart whose names differ from HIP's beyond the prefix.
#include "runtime/memory/vendors/runtime_api.hpp"
#include "tests/fake_drivers/result_numbers.hpp"
#include "tests/fake_drivers/runtime_family.hpp"

using namespace fake;
namespace api = hmc::memory::runtime_api;

FAKE_API int musaHostAlloc(void** address, std::size_t bytes, unsigned flags) {
  constexpr unsigned mapped = 2, write_combined = 4;
  return call("musaHostAlloc", code_of, 999, [&] {
    if ((flags & ~(api::host_alloc_portable | mapped | write_combined)) != 0) return Result::invalid_value;
    return memory().allocate_host(*address, {.bytes = bytes,
                                             .device = current_device,
                                             .portable = (flags & api::host_alloc_portable) != 0,
                                             .mapped = (flags & mapped) != 0});
  });
}
FAKE_API int musaFreeHost(void* address) {
  return call("musaFreeHost", code_of, 999, [&] { return memory().free_host(address); });
}
