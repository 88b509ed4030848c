#include <hmc/copy.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "runtime/window/core.hpp"

namespace hmc {

namespace {

constexpr std::size_t piece_bytes = std::size_t{1} << 20;

constexpr std::array<const char*, 10> names{"automatic",       "host to host",    "host to local",   "local to host",
                                            "local to local",  "host to global",  "local to global", "global to host",
                                            "global to local", "global to global"};

enum class Side { host, local, global };

Side side_of(const Location& location) noexcept {
  if (location.window != nullptr) return Side::global;
  return memory::host_reaches(location.pointer) ? Side::host : Side::local;
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

window::Core& core_of(const Location& location) {
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

/// Where this process finds the bytes of a window, on the host or on a device of its own; null if it doesn't.
std::byte* here(const window::Core& core, const Location& location, std::size_t bytes) {
  const window::Peer& peer = core.peer("copy", location.rank);
  if (bytes > peer.bytes || location.offset > peer.bytes - bytes) return nullptr;  // the verb says it better
  if (peer.direct != nullptr) return peer.direct + location.offset;
  return location.rank == core.rank() ? core.data() + location.offset : nullptr;
}

void copy_global(const Location& destination, const Location& source, std::size_t bytes) {
  window::Core& to = core_of(destination);
  window::Core& from = core_of(source);
  if (const std::byte* const at = here(from, source, bytes))
    return to.put(destination.rank, destination.offset, at, bytes);
  if (std::byte* const at = here(to, destination, bytes)) return from.get(source.rank, source.offset, at, bytes);
  std::vector<std::byte> between(std::min(bytes, piece_bytes));
  std::size_t done = 0;
  do {
    const std::size_t now = std::min(bytes - done, between.size());
    from.get(source.rank, source.offset + done, between.data(), now);
    to.put(destination.rank, destination.offset + done, between.data(), now);
    done += now;
  } while (done < bytes);
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
                fmt::format("these places are {}, not {}", name_of(found), name_of(direction)));
  if (destination.window == nullptr && source.window == nullptr)
    return copy_local(destination.pointer, source.pointer, bytes);
  if (source.window == nullptr)
    return core_of(destination).put(destination.rank, destination.offset, source.pointer, bytes);
  if (destination.window == nullptr) return core_of(source).get(source.rank, source.offset, destination.pointer, bytes);
  copy_global(destination, source, bytes);
}

}  // namespace hmc
