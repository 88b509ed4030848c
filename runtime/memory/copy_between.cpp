// Copies between any two kinds of memory.
#include <algorithm>
#include <array>

#include "runtime/memory/presence.hpp"

namespace hmc::memory {

namespace {

/// Between two devices that can't reach each other: through a buffer on the host, piece by piece.
base::Status through_host(void* destination, const Provider& to, const void* source, const Provider& from,
                          std::size_t bytes) noexcept {
  std::array<std::byte, 64 * 1024> stage;  // small enough for any thread's stack
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t now = std::min(bytes - done, stage.size());
    if (const auto status = from.copy_to_host(stage.data(), static_cast<const std::byte*>(source) + done, now);
        !status.ok())
      return status;
    if (const auto status = to.copy_from_host(static_cast<std::byte*>(destination) + done, stage.data(), now);
        !status.ok())
      return status;
    done += now;
  }
  return {};
}

}  // namespace

base::Status copy_between(void* destination, const void* source, std::size_t bytes) noexcept {
  if (bytes == 0) return {};
  return copy_between(destination, owner_of(destination), source, owner_of(source), bytes);
}

base::Status copy_between(void* destination, const Owner& to, const void* source, const Owner& from,
                          std::size_t bytes) noexcept {
  if (bytes == 0) return {};
  if (host_reaches(to) && host_reaches(from))
    return provider_for(MemoryType::CPU).copy_within(destination, source, bytes);
  if (host_reaches(from)) return to.provider->copy_from_host(destination, source, bytes);
  if (host_reaches(to)) return from.provider->copy_to_host(destination, source, bytes);
  if (to.provider != from.provider) return through_host(destination, *to.provider, source, *from.provider, bytes);
  if (to.info.device == from.info.device) return to.provider->copy_within(destination, source, bytes);
  const auto status = to.provider->copy({.destination = destination,
                                         .source = source,
                                         .width = bytes,
                                         .direction = Direction::device_to_device,
                                         .destination_device = to.info.device,
                                         .source_device = from.info.device});
  if (status.code != Code::unsupported) return status;
  return through_host(destination, *to.provider, source, *from.provider, bytes);
}

}  // namespace hmc::memory
