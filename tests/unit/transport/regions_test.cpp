#include "runtime/transport/am/regions.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace hmc::transport::am {
namespace {

TEST(MessageRegions, only_ranges_inside_a_region_are_found) {
  std::array<std::byte, 100> memory{};
  Regions regions;
  const auto key = regions.add(memory.data(), memory.size());
  EXPECT_NE(regions.find(key, 0, 100), nullptr);
  EXPECT_NE(regions.find(key, 100, 0), nullptr);
  EXPECT_EQ(regions.find(key, 0, 101), nullptr);
  EXPECT_EQ(regions.find(key, 101, 0), nullptr);
  EXPECT_EQ(regions.find(key, UINT64_MAX, 2), nullptr);
  EXPECT_EQ(regions.find(key, 2, UINT64_MAX), nullptr);
  EXPECT_EQ(regions.find({key.index + 1, key.nonce}, 0, 1), nullptr);
  EXPECT_EQ(regions.find({UINT64_MAX, key.nonce}, 0, 1), nullptr);
}

TEST(MessageRegions, access_needs_the_key) {
  std::array<std::byte, 100> memory{};
  Regions regions;
  const auto key = regions.add(memory.data(), memory.size());
  EXPECT_EQ(regions.find({key.index, 0}, 0, 1), nullptr);
  EXPECT_EQ(regions.find({key.index, key.nonce + 1}, 0, 1), nullptr);
  EXPECT_EQ(regions.find({key.index, key.nonce ^ (1ULL << 63)}, 0, 1), nullptr);
  std::set<std::uint64_t> nonces;
  for (int i = 0; i < 1000; ++i) nonces.insert(make_nonce());
  EXPECT_EQ(nonces.size(), 1000U);
  EXPECT_FALSE(nonces.contains(0));
}

TEST(MessageRegions, key_is_invalid_after_deregistration) {
  std::array<std::byte, 100> memory{};
  Regions regions;
  const auto first = regions.add(memory.data(), memory.size());
  regions.of(memory.data(), memory.size())->uses = 0;
  EXPECT_EQ(regions.find(first, 0, 1), nullptr);
  const auto second = regions.add(memory.data(), memory.size());
  EXPECT_EQ(first.index, second.index) << "slots are used again";
  EXPECT_EQ(regions.find(first, 0, 1), nullptr);
  EXPECT_NE(regions.find(second, 0, 1), nullptr);
}

TEST(MessageRegions, slot_in_use_is_not_reused) {
  std::array<std::byte, 100> memory{};
  Regions regions;
  const auto first = regions.add(memory.data(), memory.size());
  Regions::Registered* const old = regions.of(memory.data(), memory.size());
  old->sending = 2;
  old->uses = 0;
  const auto second = regions.add(memory.data(), memory.size());
  EXPECT_NE(first.index, second.index);
  EXPECT_EQ(old->sending, 2U) << "a later decrement would be of another region";
  old->sending = 0;
  EXPECT_EQ(regions.add(memory.data(), 50).index, first.index);
}

TEST(MessageRegions, same_memory_registered_twice_is_one_region) {
  std::array<std::byte, 100> memory{};
  Regions regions;
  const auto first = regions.add(memory.data(), memory.size());
  EXPECT_EQ(regions.add(memory.data(), memory.size()), first);
  EXPECT_EQ(regions.find(first, 0, 1)->uses, 2);
  EXPECT_NE(regions.add(memory.data(), 50).index, first.index);
}

}  // namespace
}  // namespace hmc::transport::am
