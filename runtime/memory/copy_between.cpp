// Copies between any two kinds of memory.
#include <algorithm>

#include <hmc/error.hpp>

#include "runtime/memory/pointer_lookup.hpp"
#include "runtime/memory/stage.hpp"

namespace hmc::memory {

namespace {

/// Copies between two devices that can't access each other, staged through the host in pieces. The source device copies
/// the next piece while the destination device copies the current one.
base::Status through_host(void* destination, const Owner& to, const void* source, const Owner& from,
                          std::size_t bytes) noexcept {
  try {
    const StageLease stage(*from.provider, from.info.device);
    const std::size_t piece = staged_piece(bytes);
    OutPieces pieces(*stage, source, bytes, piece);
    for (std::size_t done = 0; done < bytes; done += piece) {
      const std::byte* at = nullptr;
      if (const auto status = pieces.next(at); !status.ok()) return status;
      const auto status =
          to.provider->copy_from_host(static_cast<std::byte*>(destination) + done, at, std::min(piece, bytes - done));
      if (!status.ok()) return status;
    }
    return {};
  } catch (const Error& error) {
    return base::Status::failure(error.code(), "no host memory or stream to copy between two devices through");
  } catch (const std::exception&) {
    return base::Status::failure(Code::out_of_memory, "no host memory to copy between two devices through");
  }
}

}  // namespace

base::Status copy_between(void* destination, const void* source, std::size_t bytes) noexcept {
  if (bytes == 0) return {};
  return copy_between(destination, owner_of(destination), source, owner_of(source), bytes);
}

base::Status copy_between(void* destination, const Owner& to, const void* source, const Owner& from,
                          std::size_t bytes) noexcept {
  if (bytes == 0) return {};
  if (is_host_accessible(to) && is_host_accessible(from))
    return provider_for(MemoryType::CPU).copy_within(destination, source, bytes);
  if (is_host_accessible(from)) return to.provider->copy_from_host(destination, source, bytes);
  if (is_host_accessible(to)) return from.provider->copy_to_host(destination, source, bytes);
  if (to.provider != from.provider) return through_host(destination, to, source, from, bytes);
  if (to.info.device == from.info.device) return to.provider->copy_within(destination, source, bytes);
  const auto status = to.provider->copy({.destination = destination,
                                         .source = source,
                                         .width = bytes,
                                         .direction = Direction::device_to_device,
                                         .destination_device = to.info.device,
                                         .source_device = from.info.device});
  if (status.code != Code::unsupported) return status;
  return through_host(destination, to, source, from, bytes);
}

}  // namespace hmc::memory
