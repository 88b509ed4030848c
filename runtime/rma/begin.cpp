#include "runtime/rma/begin.hpp"

#include <algorithm>

namespace hmc::rma {

base::Status begin_put_signal(const WindowCore& core, int rank, std::uint64_t offset, const void* source,
                              std::size_t bytes, std::uint64_t signal_offset, std::uint64_t value,
                              std::uint64_t& ticket) noexcept {
  return core.peers()[static_cast<std::size_t>(rank)].channel->put_signal(offset, source, bytes, signal_offset, value,
                                                                          ticket);
}

base::Status look(const WindowCore& core, int rank, std::uint64_t ticket) noexcept {
  return core.fabric().tickets.test(core.peers()[static_cast<std::size_t>(rank)].wire, ticket);
}

void abandon(const WindowCore& core, int rank, std::uint64_t ticket) noexcept {
  core.fabric().tickets.abandon(core.peers()[static_cast<std::size_t>(rank)].wire, ticket);
}

bool receive_into(const WindowCore& core, DirectReceive& receive) noexcept {
  // Only on the first wire that supports it: otherwise the threads of two wires would write the same `parts`. Bytes
  // from another wire are written to the region and copied from there.
  return std::ranges::any_of(core.fabric().wires,
                             [&](const auto& wire) { return wire->receive_into(core.region(), receive); });
}

void end_receive_into(const WindowCore& core, DirectReceive& receive) noexcept {
  for (const auto& wire : core.fabric().wires) wire->end_receive_into(core.region(), receive);
}

}  // namespace hmc::rma
