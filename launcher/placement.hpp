// Placement: on which (pretended) node and on which CPUs each rank lives.
#pragma once

#include <string>
#include <vector>

#include "launcher/options.hpp"
#include "runtime/topology/cpu_layout.hpp"
#include "runtime/topology/cpu_set.hpp"

namespace hmc::launcher {

struct Place {
  int node = 0;
  topology::CpuSet cpus;  ///< empty: wherever hmcrun itself may run
};

/// Ranks go to nodes in blocks: rank r to node r * nodes / ranks.
int node_of(int rank, int ranks, int nodes) noexcept;

/// By rank. `layout` is looked at only when something is to be bound. Pretended nodes share this
/// machine's cores, so binding counts ranks through, over all of them. With more ranks than cores it
/// starts again at the first: the ranks then share.
std::vector<Place> place_ranks(const Options& options, const topology::CpuLayout* layout);

/// For --report-bindings: "rank 3 (node 1): core 3 (cpus 3)".
std::string describe_place(int rank, const Place& place, const topology::CpuLayout* layout);

}  // namespace hmc::launcher
