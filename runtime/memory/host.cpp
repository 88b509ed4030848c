#include "runtime/memory/host.hpp"

#include <fmt/format.h>

#include <cstring>

#include <hmc/error.hpp>

namespace hmc::memory {

std::shared_ptr<Allocation> HostProvider::allocate(int device, std::size_t bytes) const {
  if (device != 0)
    throw Error(Code::invalid_argument, "ConnBuffer", fmt::format("host memory has device 0 only, not {}", device));
  auto segment = base::Segment::create(bytes);
  segment->populate(0, bytes);
  return adopt_segment(std::move(segment), 0, bytes);
}

base::Status HostProvider::copy_from_host(void* destination, const void* source, std::size_t bytes) const noexcept {
  if (bytes > 0) std::memmove(destination, source, bytes);
  return {};
}
base::Status HostProvider::copy_to_host(void* destination, const void* source, std::size_t bytes) const noexcept {
  return copy_from_host(destination, source, bytes);
}
base::Status HostProvider::copy_within(void* destination, const void* source, std::size_t bytes) const noexcept {
  return copy_from_host(destination, source, bytes);
}

}  // namespace hmc::memory
