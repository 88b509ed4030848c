#include "runtime/topology/cpu_layout.hpp"

#include <gtest/gtest.h>
#include <sched.h>

namespace hmc::topology {
namespace {

TEST(CpuLayout, cores_cover_the_allowed_cpus_without_overlap) {
  const CpuLayout layout = load_cpu_layout();
  std::size_t sum = 0;
  for (const CpuCore& core : layout.cores) {
    sum += core.cpus.count();
    EXPECT_EQ((core.cpus & layout.allowed), core.cpus);
  }
  EXPECT_EQ(sum, layout.allowed.count());
}

TEST(CpuLayout, each_core_is_inside_of_its_numa_node) {
  const CpuLayout layout = load_cpu_layout();
  ASSERT_FALSE(layout.numa_nodes.empty());
  for (const CpuCore& core : layout.cores) {
    const NumaNode& node = layout.numa_nodes.at(static_cast<std::size_t>(core.numa_node));
    EXPECT_EQ(core.cpus & node.cpus, core.cpus);
  }
}

TEST(CpuLayout, layout_has_only_allowed_cpus_of_this_thread) {
  const CpuSet before = CpuSet::of_this_thread();
  int last = 0;
  for (int cpu = 0; cpu < 65536; ++cpu) last = before.contains(cpu) ? cpu : last;
  const CpuSet one = CpuSet::of({last});
  ASSERT_EQ(::sched_setaffinity(0, one.bytes(), reinterpret_cast<const cpu_set_t*>(one.words())), 0);
  const CpuLayout layout = load_cpu_layout();
  ::sched_setaffinity(0, before.bytes(), reinterpret_cast<const cpu_set_t*>(before.words()));
  ASSERT_EQ(layout.cores.size(), 1U);
  EXPECT_EQ(layout.cores.front().cpus, one);
}

TEST(CpuLayout, descriptions_name_the_object) {
  CpuLayout layout;
  layout.cores = {{0, 0, CpuSet::of({0, 4})}, {1, 0, CpuSet::of({1, 5})}};
  layout.numa_nodes = {{7, 0, CpuSet::of({0, 1, 4, 5})}};
  EXPECT_EQ(describe(layout, CpuSet::of({1, 5})), "core 1 (cpus 1,5)");
  EXPECT_EQ(describe(layout, CpuSet::of({0, 1, 4, 5})), "NUMA node 7 (cpus 0-1,4-5)");
  EXPECT_EQ(describe(layout, CpuSet::of({0, 1})), "cpus 0-1");
}

}  // namespace
}  // namespace hmc::topology
