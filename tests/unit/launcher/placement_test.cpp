#include "launcher/plan.hpp"

#include <gtest/gtest.h>

namespace hmc::launcher {
namespace {

using topology::CpuSet;

topology::CpuLayout two_by_two() {
  topology::CpuLayout layout;
  layout.numa_nodes = {{0, 0, CpuSet::of({0, 1})}, {1, 0, CpuSet::of({2, 3})}};
  for (int cpu = 0; cpu < 4; ++cpu) layout.cores.push_back({cpu, cpu / 2, CpuSet::of({cpu})});
  layout.allowed = CpuSet::of({0, 1, 2, 3});
  return layout;
}

std::vector<Place> places(int ranks, int nodes, BindTo bind_to, MapBy map_by = MapBy::slot) {
  Options options;
  options.map_by = map_by;
  options.ranks = ranks;
  options.nodes = nodes;
  options.bind_to = bind_to;
  const topology::CpuLayout layout = two_by_two();
  return place_ranks(options, &layout);
}

TEST(Placement, node_sizes_differ_by_one_at_most) {
  for (int ranks = 1; ranks <= 40; ++ranks) {
    for (int nodes = 1; nodes <= ranks; ++nodes) {
      std::vector<int> count(static_cast<std::size_t>(nodes), 0);
      int last = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const int node = node_of(rank, ranks, nodes);
        EXPECT_GE(node, last);
        last = node;
        ++count.at(static_cast<std::size_t>(node));
      }
      for (const int c : count) EXPECT_TRUE(c == ranks / nodes || c == ranks / nodes + 1);
    }
  }
}

TEST(Placement, nodes_match_the_formula) {
  std::vector<int> nodes;
  for (int rank = 0; rank < 5; ++rank) nodes.push_back(node_of(rank, 5, 2));
  EXPECT_EQ(nodes, (std::vector<int>{0, 0, 0, 1, 1}));
}

TEST(Placement, many_ranks_do_not_overflow) { EXPECT_EQ(node_of(65535, 65536, 65536), 65535); }

TEST(Placement, none_binds_nothing) {
  for (const Place& place : places(3, 1, BindTo::none)) EXPECT_TRUE(place.cpus.empty());
}

TEST(Placement, numa_nodes_alternate) {
  constexpr int core[] = {0, 2, 1, 3};
  const std::vector<Place> cores = places(6, 1, BindTo::core, MapBy::numa);
  const std::vector<Place> nodes = places(6, 1, BindTo::numa, MapBy::numa);
  for (std::size_t rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(cores[rank].cpus, CpuSet::of({core[rank % 4]})) << rank;
    EXPECT_EQ(nodes[rank].cpus, rank % 2 == 0 ? CpuSet::of({0, 1}) : CpuSet::of({2, 3})) << rank;
  }
}

TEST(Placement, ranks_alternate_between_emulated_nodes) {
  const std::vector<Place> found = places(5, 2, BindTo::none, MapBy::node);
  for (int rank = 0; rank < 5; ++rank) EXPECT_EQ(found[static_cast<std::size_t>(rank)].node, rank % 2) << rank;
}

TEST(Placement, cores_are_numbered_through_all_nodes_and_reused) {
  const std::vector<Place> found = places(6, 2, BindTo::core);
  for (int rank = 0; rank < 6; ++rank)
    EXPECT_EQ(found[static_cast<std::size_t>(rank)].cpus, CpuSet::of({rank % 4})) << rank;
}

TEST(Placement, numa_assigns_blocks) {
  const std::vector<Place> found = places(4, 1, BindTo::numa);
  EXPECT_EQ(found[0].cpus, CpuSet::of({0, 1}));
  EXPECT_EQ(found[1].cpus, CpuSet::of({0, 1}));
  EXPECT_EQ(found[2].cpus, CpuSet::of({2, 3}));
  EXPECT_EQ(found[3].cpus, CpuSet::of({2, 3}));
}

TEST(Placement, fewer_ranks_than_numa_nodes_are_placed) {
  EXPECT_EQ(places(1, 1, BindTo::numa)[0].cpus, CpuSet::of({0, 1}));
}

TEST(Placement, description_names_cores_and_nodes) {
  const topology::CpuLayout layout = two_by_two();
  EXPECT_EQ(describe_place(3, {1, 0, 1, CpuSet::of({3})}, &layout), "rank 3 (node 1): core 3 (cpus 3)");
  EXPECT_EQ(describe_place(3, {1, 0, 1, {}}, nullptr).find("rank 3 (node 1): not bound (cpus "), 0U);
}

}  // namespace
}  // namespace hmc::launcher
