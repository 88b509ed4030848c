// The program's functions in long waits: set_interrupt_check, set_wait_yield.
#pragma once

#include <cstdint>

#include <hmc/request.hpp>

namespace hmc::base {

/// The program answers a signal within this time, if its function returns at once.
inline constexpr std::int64_t interrupt_interval_ns = 20'000'000;

/// Calls the program's function. True: the caller ends its wait as at its deadline. False if there is no function.
bool is_interrupted() noexcept;

/// See set_wait_yield. Null: only the waiting thread may make calls.
const WaitYield* wait_yield() noexcept;

}  // namespace hmc::base
