// Placement: the (emulated) node and the CPUs of each rank.
#pragma once

#include <string>
#include <vector>

#include "launcher/options.hpp"
#include "runtime/topology/cpu_layout.hpp"
#include "runtime/topology/cpu_set.hpp"

namespace hmc::launcher {

struct Place {
  int node = 0;
  topology::CpuSet cpus;  ///< empty: not bound
};

/// Ranks are assigned to nodes in blocks: rank r to node r * nodes / ranks.
int node_of(int rank, int ranks, int nodes) noexcept;

/// Indexed by rank. `layout` is used only for binding. Emulated nodes share this machine's cores, so binding counts
/// ranks over all nodes. If there are more ranks than cores, the assignment restarts at the first core, and ranks share
/// cores.
std::vector<Place> place_ranks(const Options& options, const topology::CpuLayout* layout);

/// For --report-bindings: "rank 3 (node 1): core 3 (cpus 3)".
std::string describe_place(int rank, const Place& place, const topology::CpuLayout* layout);

}  // namespace hmc::launcher
