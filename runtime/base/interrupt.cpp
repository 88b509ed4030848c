#include "runtime/base/interrupt.hpp"

#include <atomic>

namespace hmc {

namespace {
std::atomic<InterruptCheck> current{nullptr};
std::atomic<const WaitYield*> current_yield{nullptr};
}  // namespace

// Release: pairs with the acquire in is_interrupted. The function sees the memory that its owner prepared for it.
void set_interrupt_check(InterruptCheck check) noexcept { current.store(check, std::memory_order_release); }

// Release and acquire: as above.
void set_wait_yield(const WaitYield* yield) noexcept { current_yield.store(yield, std::memory_order_release); }

const WaitYield* base::wait_yield() noexcept { return current_yield.load(std::memory_order_acquire); }

bool base::is_interrupted() noexcept {
  const InterruptCheck check = current.load(std::memory_order_acquire);
  return check != nullptr && check();
}

}  // namespace hmc
