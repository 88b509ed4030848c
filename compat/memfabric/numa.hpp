// Host memory on one NUMA node.
#pragma once

#include <cstdint>

namespace hmc::memfabric {

/// The node of the CPU that executes the caller.
int current_numa_node();
/// A new shared memory whose pages are allocated on the node. The caller closes the descriptor. Throws Failure.
int allocate_on_node(std::uint64_t bytes, int node);
/// The same for the pages of an existing one.
void bind_to_node(int descriptor, std::uint64_t bytes, int node);

}  // namespace hmc::memfabric
