// nudge: wakes the background thread of a rank of this node (see background.hpp).
#pragma once

#include <atomic>

#include "runtime/base/fences.hpp"
#include "runtime/base/node_page.hpp"

namespace hmc::progress {

namespace detail {
void nudge_now(base::Doorbell& door) noexcept;
}

/// Call after data became visible to the rank of `door` for an operation that it has started. Any thread of the node.
///
/// Memory order: as for the bell (base/wait.hpp).
/// - Requester: store `asked`; full fence; poll once more.
/// - Nudging thread: make the bytes visible; full fence; load `wanted`.
/// - If the requester's fence is first, the nudging thread loads `asked`. Else the requester's last poll sees the
/// bytes.
///
/// The thread that changes `asked` to `nudged` wakes the background thread; no other does until the next request.
inline void nudge(base::Doorbell& door) noexcept {
  base::full_fence();
  // Relaxed: the fence orders it after the bytes; the argument above covers a stale value.
  if (door.wanted.load(std::memory_order_relaxed) == base::Doorbell::asked) detail::nudge_now(door);
}

/// Wakes the background thread for any value of `wanted`: to start or to stop it.
void wake_background(base::Doorbell& door) noexcept;

}  // namespace hmc::progress
