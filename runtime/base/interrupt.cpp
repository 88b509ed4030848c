#include "runtime/base/interrupt.hpp"

#include <atomic>

namespace hmc {

namespace {
std::atomic<InterruptCheck> current{nullptr};
}

// Release: pairs with the acquire in is_interrupted. The function sees the memory that its owner prepared for it.
void set_interrupt_check(InterruptCheck check) noexcept { current.store(check, std::memory_order_release); }

bool base::is_interrupted() noexcept {
  const InterruptCheck check = current.load(std::memory_order_acquire);
  return check != nullptr && check();
}

}  // namespace hmc
