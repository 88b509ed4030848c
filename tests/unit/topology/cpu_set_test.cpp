#include "runtime/topology/cpu_layout.hpp"

#include <gtest/gtest.h>
#include <sched.h>

namespace hmc::topology {
namespace {

TEST(CpuSet, empty_set_is_none) {
  EXPECT_TRUE(CpuSet().empty());
  EXPECT_EQ(CpuSet().text(), "none");
  EXPECT_FALSE(CpuSet().contains(0));
}

TEST(CpuSet, set_contains_added_cpus) {
  const CpuSet set = CpuSet::of({3, 64, 1000});
  EXPECT_EQ(set.count(), 3U);
  EXPECT_TRUE(set.contains(3) && set.contains(64) && set.contains(1000));
  EXPECT_FALSE(set.contains(4) || set.contains(63) || set.contains(5000) || set.contains(-1));
}

TEST(CpuSet, text_joins_neighbours) {
  EXPECT_EQ(CpuSet::of({0, 1, 2, 3, 8, 10, 11}).text(), "0-3,8,10-11");
  EXPECT_EQ(CpuSet::of({63, 64}).text(), "63-64");
}

TEST(CpuSet, intersection_has_the_common_cpus) {
  EXPECT_EQ((CpuSet::of({0, 1, 70}) & CpuSet::of({1, 2, 70, 500})).text(), "1,70");
  EXPECT_TRUE((CpuSet::of({200}) & CpuSet::of({1})).empty());
}

TEST(CpuSet, equality_ignores_the_storage_size) {
  EXPECT_EQ(CpuSet::of({1}), CpuSet::of({1, 500}) & CpuSet::of({1, 2}));
  EXPECT_EQ(CpuSet::of({500}) & CpuSet::of({1}), CpuSet());
  EXPECT_FALSE(CpuSet::of({1}) == CpuSet::of({1, 500}));
}

TEST(CpuSet, thread_set_matches_the_kernel) {
  const CpuSet set = CpuSet::of_this_thread();
  EXPECT_FALSE(set.empty());
  const int cpu = ::sched_getcpu();
  EXPECT_TRUE(set.contains(cpu));
}

TEST(CpuSet, thread_set_follows_the_affinity) {
  const CpuSet before = CpuSet::of_this_thread();
  int first = 0;
  while (!before.contains(first)) ++first;
  const CpuSet one = CpuSet::of({first});
  ASSERT_EQ(::sched_setaffinity(0, one.bytes(), reinterpret_cast<const cpu_set_t*>(one.words())), 0);
  EXPECT_EQ(CpuSet::of_this_thread(), one);
  ::sched_setaffinity(0, before.bytes(), reinterpret_cast<const cpu_set_t*>(before.words()));
}

}  // namespace
}  // namespace hmc::topology
