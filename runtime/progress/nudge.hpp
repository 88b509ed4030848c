// nudge: wakes the background thread of a rank on this node (see background.hpp).
#pragma once

#include <atomic>

#include "runtime/base/fences.hpp"
#include "runtime/base/node_page.hpp"

namespace hmc::progress {

namespace detail {
void nudge_now(base::Doorbell& door) noexcept;
}

/// Must be called after data became visible to the rank of `door` for an operation that this rank has started. Any
/// thread of the node.
///
/// The memory order is the same as for the bell (base/wait.hpp).
/// - Requester: store `asked`; full fence; poll once more.
/// - Nudging thread: make the bytes visible; full fence; load `wanted`.
/// - If the requester's fence is first, the nudging thread loads `asked`. Otherwise the requester's last poll sees the
///   bytes.
///
/// The thread that changes `asked` to `nudged` wakes the background thread. No other thread wakes it until the next
/// request.
inline void nudge(base::Doorbell& door) noexcept {
  base::full_fence();
  // Relaxed: the fence orders this load after the bytes; the argument above covers a stale value.
  if (door.wanted.load(std::memory_order_relaxed) == base::Doorbell::asked) detail::nudge_now(door);
}

/// Wakes the background thread regardless of `wanted`, for example to stop it.
void wake_background(base::Doorbell& door) noexcept;

}  // namespace hmc::progress
