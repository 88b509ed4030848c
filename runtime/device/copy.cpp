#include <hmc/copy.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/rma/device_access.hpp"

namespace hmc {

namespace {

constexpr std::array<const char*, 10> names{"automatic",       "host to host",    "host to local",   "local to host",
                                            "local to local",  "host to global",  "local to global", "global to host",
                                            "global to local", "global to global"};

enum class Side { host, local, global };

Side side_of(const Location& location) noexcept {
  if (location.window != nullptr) return Side::global;
  return memory::is_host_accessible(location.pointer) ? Side::host : Side::local;
}

Direction direction_of(Side from, Side to) noexcept {
  if (from == Side::global)
    return to == Side::global ? Direction::global_to_global
           : to == Side::host ? Direction::global_to_host
                              : Direction::global_to_local;
  if (to == Side::global) return from == Side::host ? Direction::host_to_global : Direction::local_to_global;
  if (from == Side::host) return to == Side::host ? Direction::host_to_host : Direction::host_to_local;
  return to == Side::host ? Direction::local_to_host : Direction::local_to_local;
}

rma::WindowCore& core_of(const Location& location) {
  const auto& core = location.window->core();
  if (core == nullptr) throw Error(Code::closed, "copy", "the window was never created, or was moved from");
  return *core;
}

void copy_local(void* destination, const void* source, std::size_t bytes) {
  if (bytes > 0 && (destination == nullptr || source == nullptr))
    throw Error(Code::invalid_argument, "copy", "a pointer is null, and the size isn't 0");
  const base::Status status = memory::copy_between(destination, memory::known_owner_of(destination), source,
                                                   memory::known_owner_of(source), bytes);
  if (!status.ok()) throw Error(status.code, "copy", status.what == nullptr ? "it failed" : status.what);
}

/// The rank's part if it is device memory that is mapped in this process, otherwise null.
const memory::Allocation* mapped_at(rma::WindowCore& core, int rank) {
  const rma::WindowPeer& peer = core.peer("copy", rank);
  const memory::Allocation* const mapped = peer.on_device ? core.devices().mapping(rank) : nullptr;
  return mapped == nullptr || memory::is_host_accessible(memory::owner_of(*mapped)) ? nullptr : mapped;
}

/// The address of `location` in this process, in host memory or mapped device memory; null if it isn't mapped.
std::byte* here(rma::WindowCore& core, const Location& location, std::size_t bytes) {
  const rma::WindowPeer& peer = core.peer("copy", location.rank);
  if (bytes > peer.bytes || location.offset > peer.bytes - bytes) return nullptr;  // the verb reports the error
  if (peer.direct != nullptr) return peer.direct + location.offset;
  if (const memory::Allocation* const mapped = mapped_at(core, location.rank)) return mapped->address + location.offset;
  return location.rank == core.rank() ? core.data() + location.offset : nullptr;
}

/// Staging memory in two halves, for a copy between two locations that aren't mapped in this process. It is pinned if
/// the destination is mapped device memory.
class Between {
 public:
  static constexpr std::size_t half = rma::DeviceAccess::bounce_half;
  Between(rma::WindowCore& to, int rank) {
    if (const memory::Allocation* const mapped = mapped_at(to, rank)) {
      provider_ = mapped->provider;
      block_ = provider_->take_block(mapped->device, 2 * half);
    }
    start_ = provider_ != nullptr ? block_.data : to.devices().bounce_buffer();
  }
  Between(const Between&) = delete;
  Between& operator=(const Between&) = delete;
  ~Between() {
    if (provider_ != nullptr) provider_->give_back(std::move(block_));
  }
  std::byte* at(std::size_t done) const noexcept { return start_ + done / half % 2 * half; }

 private:
  const memory::Provider* provider_ = nullptr;
  memory::HostBlock block_;
  std::byte* start_ = nullptr;
};

void copy_global(const Location& destination, const Location& source, std::size_t bytes) {
  rma::WindowCore& to = core_of(destination);
  rma::WindowCore& from = core_of(source);
  if (const std::byte* const at = here(from, source, bytes))
    return to.put(destination.rank, destination.offset, at, bytes);
  // Only verbs notify a peer that waits for a word of its device memory; plain copies don't.
  const bool needs_verb = destination.rank != to.rank() && mapped_at(to, destination.rank) != nullptr;
  std::byte* const at = needs_verb ? nullptr : here(to, destination, bytes);
  if (at != nullptr) return from.get(source.rank, source.offset, at, bytes);
  // The get of the next piece overlaps the put of the current one.
  constexpr std::size_t half = Between::half;
  const Between between(to, destination.rank);
  const auto fetch = [&](std::size_t at) {
    return from.get_nb(source.rank, source.offset + at, between.at(at), std::min(bytes - at, half));
  };
  Request coming = fetch(0);
  try {
    std::size_t done = 0;
    do {
      coming.wait();
      const std::size_t now = std::min(bytes - done, half);
      if (done + now < bytes) coming = fetch(done + now);
      to.put(destination.rank, destination.offset + done, between.at(done), now);
      done += now;
    } while (done < bytes);
  } catch (...) {
    coming.abandon();
    throw;
  }
}

}  // namespace

const char* name_of(Direction direction) noexcept {
  const auto index = static_cast<std::size_t>(direction);
  return index < names.size() ? names[index] : "unknown";
}

void copy(const Location& destination, const Location& source, std::size_t bytes, Direction direction) {
  const Direction found = direction_of(side_of(source), side_of(destination));
  if (direction != Direction::automatic && direction != found)
    throw Error(Code::invalid_argument, "copy",
                fmt::format("the direction of this copy is {}, not {}", name_of(found), name_of(direction)));
  if (destination.window == nullptr && source.window == nullptr)
    return copy_local(destination.pointer, source.pointer, bytes);
  if (source.window == nullptr)
    return core_of(destination).put(destination.rank, destination.offset, source.pointer, bytes);
  if (destination.window == nullptr) return core_of(source).get(source.rank, source.offset, destination.pointer, bytes);
  copy_global(destination, source, bytes);
}

}  // namespace hmc
