// What libmusart calls otherwise than HIP.
#include "tests/fake_drivers/call.hpp"

using namespace fake;

namespace {
int code_of(Result result) { return result == Result::ok ? 0 : result == Result::out_of_memory ? 2 : 1; }
}  // namespace

FAKE_API int musaHostAlloc(void** address, std::size_t bytes, unsigned) {
  return call("musaHostAlloc", code_of, 999, [&] { return memory().allocate_host(*address, bytes, 0, false); });
}
FAKE_API int musaFreeHost(void* address) {
  return call("musaFreeHost", code_of, 999, [&] { return memory().free_host(address); });
}
