// Host memory on one NUMA node.
#pragma once

#include <cstdint>

namespace hmc::memfabric {

/// The node of the CPU that executes the caller.
int current_numa_node();
/// The pages of this shared memory are allocated on the node. Throws Failure.
void bind_to_node(int descriptor, std::uint64_t bytes, int node);

}  // namespace hmc::memfabric
