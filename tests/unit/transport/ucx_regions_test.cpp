#include "runtime/transport/ucx/regions.hpp"

#include <gtest/gtest.h>

#include <array>

namespace hmc::transport::ucx {
namespace {

TEST(UcxRegions, FindsOnlyWhatLiesInside) {
  std::array<std::byte, 100> memory{};
  Regions regions;
  const auto id = regions.add(memory.data(), memory.size());
  EXPECT_NE(regions.find(id, 0, 100), nullptr);
  EXPECT_NE(regions.find(id, 100, 0), nullptr);
  EXPECT_EQ(regions.find(id, 0, 101), nullptr);
  EXPECT_EQ(regions.find(id, 101, 0), nullptr);
  EXPECT_EQ(regions.find(id, UINT64_MAX, 2), nullptr);
  EXPECT_EQ(regions.find(id, 2, UINT64_MAX), nullptr);
  EXPECT_EQ(regions.find(id + 1, 0, 1), nullptr);
  EXPECT_EQ(regions.find(UINT64_MAX, 0, 1), nullptr);
}

TEST(UcxRegions, AKeyDiesWithItsRegion) {
  std::array<std::byte, 100> memory{};
  Regions regions;
  const auto first = regions.add(memory.data(), memory.size());
  regions.of(memory.data(), memory.size())->uses = 0;
  EXPECT_EQ(regions.find(first, 0, 1), nullptr);
  const auto second = regions.add(memory.data(), memory.size());
  EXPECT_EQ(static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(second));
  EXPECT_EQ(regions.find(first, 0, 1), nullptr);
  EXPECT_NE(regions.find(second, 0, 1), nullptr);
}

TEST(UcxRegions, TheSameMemoryTwiceIsOneRegion) {
  std::array<std::byte, 100> memory{};
  Regions regions;
  const auto first = regions.add(memory.data(), memory.size());
  EXPECT_EQ(regions.add(memory.data(), memory.size()), first);
  EXPECT_EQ(regions.find(first, 0, 1)->uses, 2);
  EXPECT_NE(regions.add(memory.data(), 50), first);
}

}  // namespace
}  // namespace hmc::transport::ucx
