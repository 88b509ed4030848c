#include "runtime/progress/nudge.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace hmc::progress {

using base::Doorbell;

void wake_background(Doorbell& door) noexcept {
  // Release: pairs with the thread's acquire load before its sleep; the thread sees all writes before the nudge.
  door.nudges.fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, &door.nudges, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void detail::nudge_now(Doorbell& door) noexcept {
  std::uint32_t asked = Doorbell::asked;
  // Acquire: pairs with the requester's release store of `asked`. Release: the woken thread sees the requester's
  // writes.
  if (door.wanted.compare_exchange_strong(asked, Doorbell::nudged, std::memory_order_acq_rel,
                                          std::memory_order_relaxed))
    wake_background(door);
}

}  // namespace hmc::progress
