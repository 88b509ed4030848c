#include "runtime/base/limits.hpp"

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <hmc/error.hpp>

#include "runtime/base/fd.hpp"

namespace hmc::base {
namespace {

AvailableMemory room(std::uint64_t machine, std::uint64_t machine_bytes, std::uint64_t group,
                     std::uint64_t group_bytes) {
  return {machine, machine_bytes, group, group_bytes};
}

TEST(Limits, demands_of_one_machine_are_summed) {
  const MemoryDemand one{0, 60, room(1, 100, 7, UINT64_MAX)};
  const MemoryDemand two{1, 40, room(1, 100, 7, UINT64_MAX)};
  MemoryDemand three{2, 1, room(1, 100, 7, UINT64_MAX)};
  EXPECT_EQ(memory_shortage(std::vector{one, two}), std::nullopt);
  EXPECT_EQ(memory_shortage(std::vector{one, two, three}),
            "ranks 0-2 need 101 bytes in all, and 100 bytes are available on the machine");
  three.room.machine = 2;  // another machine
  EXPECT_EQ(memory_shortage(std::vector{one, two, three}), std::nullopt);
}

TEST(Limits, ranks_of_one_machine_may_have_different_cgroups) {
  const MemoryDemand one{0, 60, room(1, 1000, 7, 80)};
  MemoryDemand two{5, 60, room(1, 1000, 8, 80)};
  EXPECT_EQ(memory_shortage(std::vector{one, two}), std::nullopt);
  two.room.group = 7;
  EXPECT_EQ(memory_shortage(std::vector{one, two}),
            "2 ranks from 0 to 5 need 120 bytes in all, and 80 bytes are available in the cgroup");
  two.bytes = 90;
  two.room.group = 8;
  EXPECT_EQ(memory_shortage(std::vector{one, two}), "rank 5 needs 90 bytes, and 80 bytes are available in the cgroup");
}

TEST(Limits, overflowing_sum_is_a_shortage) {
  const MemoryDemand one{0, UINT64_MAX / 2 + 1, room(1, UINT64_MAX - 1, 7, UINT64_MAX)};
  const MemoryDemand two{1, UINT64_MAX / 2 + 1, room(1, UINT64_MAX - 1, 7, UINT64_MAX)};
  EXPECT_NE(memory_shortage(std::vector{one, two}), std::nullopt);
}

TEST(Limits, errno_names_the_exceeded_limit) {
  EXPECT_NE(descriptor_limit(EMFILE).find("RLIMIT_NOFILE (ulimit -n) is "), std::string::npos);
  EXPECT_NE(descriptor_limit(ENFILE).find("fs.file-max"), std::string::npos);
}

TEST(Limits, machine_has_free_memory_below_its_total) {
  const AvailableMemory here = available_memory();
  EXPECT_NE(here.machine, 0U);
  EXPECT_GT(std::min(here.machine_bytes, here.group_bytes), std::uint64_t{1} << 20);
  EXPECT_LT(here.machine_bytes, std::uint64_t{1} << 60);
  EXPECT_EQ(available_memory().group, here.group);
}

TEST(Limits, counting_descriptors_keeps_none_open) {
  const UniqueFd some(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  // Other descriptors may be open above a gap, so the count starts above all of them.
  int above = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    above = std::max(above, std::stoi(entry.path().filename()) + 1);
  std::vector<UniqueFd> gaps;
  do {
    gaps.emplace_back(::fcntl(some.get(), F_DUPFD_CLOEXEC, 0));
    ASSERT_GE(gaps.back().get(), 0);
  } while (gaps.back().get() < above);
  const UniqueFd& highest = gaps.back();
  const rlimit two_left{static_cast<rlim_t>(highest.get()) + 3, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &two_left), 0);
  EXPECT_TRUE(has_descriptors(2, some.get()));
  EXPECT_TRUE(has_descriptors(2, some.get()));
  EXPECT_FALSE(has_descriptors(3, some.get()));
  EXPECT_TRUE(has_descriptors(2, some.get()));
  EXPECT_EQ(descriptor_limit(), "RLIMIT_NOFILE (ulimit -n) is " + std::to_string(highest.get() + 3));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace hmc::base
