#include "runtime/pool/reservation.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include <hmc/error.hpp>

namespace hmc::pool {

namespace {

/// Below the mmap area, above non-PIE programs, and outside the shadow memory of sanitizers. The last ones are for
/// ThreadSanitizer, which allows few ranges.
constexpr std::uint64_t starts[] = {0x2800'0000'0000, 0x3000'0000'0000, 0x3800'0000'0000, 0x4000'0000'0000,
                                    0x4800'0000'0000, 0x1800'0000'0000, 0x7e90'0000'0000, 0x7ea0'0000'0000};
constexpr int no_access = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

/// Null, with errno, if the range isn't free. The kernel takes a free address as it is, without MAP_FIXED_NOREPLACE,
/// which old kernels and ThreadSanitizer don't know.
std::byte* reserve_at(std::uint64_t start, std::uint64_t bytes) noexcept {
  void* const wanted = reinterpret_cast<void*>(start);
  void* const got = ::mmap(wanted, bytes, PROT_NONE, no_access, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  if (got == wanted) return static_cast<std::byte*>(got);
  ::munmap(got, bytes);
  errno = EEXIST;
  return nullptr;
}

}  // namespace

Reservation::Reservation(std::uint64_t start, std::uint64_t bytes) : bytes_(bytes) {
  if (start != 0) {
    base_ = reserve_at(start, bytes);
    if (base_ == nullptr)
      why_elsewhere_ = fmt::format("{} bytes at {:#x}, where the pool's first member has them, aren't free here: {}",
                                   bytes, start, std::strerror(errno));
  } else {
    for (const std::uint64_t each : starts)
      if (base_ == nullptr) base_ = reserve_at(each, bytes);
  }
  if (base_ != nullptr) return;
  void* const anywhere = ::mmap(nullptr, bytes, PROT_NONE, no_access, -1, 0);
  if (anywhere == MAP_FAILED)
    throw Error(Code::out_of_memory, "Pool::create",
                fmt::format("the address space has no {} bytes: {}", bytes, std::strerror(errno)),
                "fewer members or a smaller stride; see `ulimit -v`");
  base_ = static_cast<std::byte*>(anywhere);
}

Reservation::~Reservation() { ::munmap(base_, bytes_); }

void Reservation::map(std::uint64_t offset, int fd, std::uint64_t bytes, std::uint64_t file_offset) {
  void* const at = ::mmap(base_ + offset, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                          static_cast<off_t>(file_offset));
  if (at == MAP_FAILED)
    throw Error(Code::error, "mmap", fmt::format("{} bytes of a member's part: {}", bytes, std::strerror(errno)));
  (void)::madvise(at, bytes, MADV_HUGEPAGE);
}

bool Reservation::unmap(std::uint64_t offset, std::uint64_t bytes) noexcept {
  return ::mmap(base_ + offset, bytes, PROT_NONE, no_access | MAP_FIXED, -1, 0) != MAP_FAILED;
}

}  // namespace hmc::pool
