// An OpenMP library with one target device, whose memory the host can't read. The calls have no error codes: an
// injected failure returns null or a number other than 0.
#include <cstring>

#include "tests/fake_drivers/call.hpp"

namespace {

using namespace fake;

constexpr int devices = 1;
Side side_of(int device) { return device == devices ? Side::host : Side::device; }

}  // namespace

FAKE_API int omp_get_num_devices() { return devices; }

FAKE_API void* omp_target_alloc(std::size_t bytes, int device) {
  if (control().enter("omp_target_alloc", 1) != 0) return nullptr;
  void* address = nullptr;
  const Result result = device == devices ? memory().allocate_host(address, {.bytes = bytes, .device = device})
                                          : memory().allocate(address, bytes, device);
  return result == Result::ok ? address : nullptr;
}

FAKE_API void omp_target_free(void* address, int device) {
  if (device == devices)
    (void)memory().free_host(address);
  else
    (void)memory().free(address);
}

FAKE_API int omp_target_memcpy(void* to, const void* from, std::size_t bytes, std::size_t to_offset,
                               std::size_t from_offset, int to_device, int from_device) {
  if (const long code = control().enter("omp_target_memcpy", 1); code != 0) return static_cast<int>(code);
  std::byte* const target = memory().resolve(static_cast<std::byte*>(to) + to_offset, bytes, side_of(to_device));
  const std::byte* const source =
      memory().resolve(static_cast<const std::byte*>(from) + from_offset, bytes, side_of(from_device));
  if (target == nullptr || source == nullptr) return 1;
  std::memcpy(target, source, bytes);
  return 0;
}
