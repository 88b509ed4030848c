// Identity of the machine and of the network namespace of this process.
#pragma once

#include <cstdint>

namespace hmc::base {

/// A hash of the kernel's boot id: equal for all processes on one running kernel. 0 without /proc.
std::uint64_t machine_id() noexcept;

/// The number of the caller's network namespace, unique on one machine. Processes in one namespace connect by
/// loopback. 0 without /proc.
std::uint64_t network_namespace() noexcept;

}  // namespace hmc::base
