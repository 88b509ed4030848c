#include "launcher/placement.hpp"

#include <fmt/format.h>

namespace hmc::launcher {

namespace {

topology::CpuSet cpus_of(int rank, const Options& options, const topology::CpuLayout& layout) {
  if (options.bind_to == BindTo::core) return layout.cores[static_cast<std::size_t>(rank) % layout.cores.size()].cpus;
  // In blocks, as for nodes, because ranks with close numbers usually communicate most.
  const int numa_nodes = static_cast<int>(layout.numa_nodes.size());
  return layout.numa_nodes[static_cast<std::size_t>(node_of(rank, options.ranks, numa_nodes))].cpus;
}

}  // namespace

int node_of(int rank, int ranks, int nodes) noexcept {
  return static_cast<int>(static_cast<long long>(rank) * nodes / ranks);
}

std::vector<Place> place_ranks(const Options& options, const topology::CpuLayout* layout) {
  std::vector<Place> places(static_cast<std::size_t>(options.ranks));
  for (int rank = 0; rank < options.ranks; ++rank) {
    Place& place = places[static_cast<std::size_t>(rank)];
    place.node = node_of(rank, options.ranks, options.nodes);
    if (options.bind_to != BindTo::none && layout != nullptr) place.cpus = cpus_of(rank, options, *layout);
  }
  return places;
}

std::string describe_place(int rank, const Place& place, const topology::CpuLayout* layout) {
  if (place.cpus.empty() || layout == nullptr) {
    return fmt::format("rank {} (node {}): not bound (cpus {})", rank, place.node,
                       topology::CpuSet::of_this_thread().text());
  }
  return fmt::format("rank {} (node {}): {}", rank, place.node, topology::describe(*layout, place.cpus));
}

}  // namespace hmc::launcher
