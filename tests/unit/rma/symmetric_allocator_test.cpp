#include "runtime/rma/symmetric_allocator.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace hmc::rma {
namespace {

TEST(SymmetricAllocator, offsets_are_aligned_and_inside) {
  SymmetricAllocator allocator(1 << 16);
  for (std::uint64_t align = 1; align <= 4096; align *= 2) {
    const auto offset = allocator.allocate(3, align);
    ASSERT_TRUE(offset);
    EXPECT_EQ(*offset % align, 0U) << align;
    EXPECT_LE(*offset + 3, std::uint64_t{1} << 16);
  }
}

TEST(SymmetricAllocator, whole_capacity_can_be_allocated_and_no_more) {
  SymmetricAllocator allocator(1000);
  EXPECT_FALSE(allocator.allocate(1001, 1));
  const auto whole = allocator.allocate(1000, 1);
  ASSERT_TRUE(whole);
  EXPECT_EQ(*whole, 0U);
  EXPECT_FALSE(allocator.allocate(1, 1));
  EXPECT_EQ(allocator.largest_free(), 0U);
  EXPECT_TRUE(allocator.release(0));
  EXPECT_EQ(allocator.largest_free(), 1000U);
}

TEST(SymmetricAllocator, empty_allocator_allocates_nothing) {
  SymmetricAllocator allocator(0);
  EXPECT_FALSE(allocator.allocate(1, 1));
  EXPECT_EQ(allocator.largest_free(), 0U);
}

TEST(SymmetricAllocator, huge_sizes_and_alignments_do_not_overflow) {
  SymmetricAllocator allocator(4096);
  ASSERT_TRUE(allocator.allocate(1, 1));
  EXPECT_FALSE(allocator.allocate(UINT64_MAX, 1));
  EXPECT_FALSE(allocator.allocate(UINT64_MAX - 4095, 4096));
  EXPECT_FALSE(allocator.allocate(1, std::uint64_t{1} << 63));
}

TEST(SymmetricAllocator, allocation_is_freed_once_by_its_start) {
  SymmetricAllocator allocator(4096);
  const auto offset = allocator.allocate(100, 64);
  ASSERT_TRUE(offset);
  EXPECT_FALSE(allocator.release(*offset + 1));
  EXPECT_FALSE(allocator.release(4096));
  EXPECT_TRUE(allocator.release(*offset));
  EXPECT_FALSE(allocator.release(*offset));
}

TEST(SymmetricAllocator, freed_neighbours_merge_in_every_order) {
  for (int order = 0; order < 6; ++order) {
    SymmetricAllocator allocator(300);
    std::uint64_t parts[3];
    for (auto& part : parts) part = allocator.allocate(100, 1).value();
    constexpr int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (const int i : orders[order]) EXPECT_TRUE(allocator.release(parts[i]));
    EXPECT_EQ(allocator.largest_free(), 300U) << order;
  }
}

/// Random calls against a map of the allocated ranges. Allocations don't overlap, stay inside the capacity, and are
/// all recovered by free. Two allocators with the same calls return the same results.
class AllocatorModel : public testing::TestWithParam<unsigned> {};

TEST_P(AllocatorModel, random_calls_match_the_model) {
  constexpr std::uint64_t capacity = 100'003;
  SymmetricAllocator one(capacity);
  SymmetricAllocator other(capacity);
  std::map<std::uint64_t, std::uint64_t> taken;
  std::mt19937 random(GetParam());
  const auto at_most = [&](std::uint64_t limit) {
    return std::uniform_int_distribution<std::uint64_t>(0, limit)(random);
  };
  for (int step = 0; step < 5000; ++step) {
    if (taken.empty() || at_most(99) < 55) {
      const std::uint64_t bytes = 1 + at_most(at_most(9) == 0 ? 20'000 : 900);
      const std::uint64_t align = std::uint64_t{1} << at_most(12);
      const auto offset = one.allocate(bytes, align);
      ASSERT_EQ(offset, other.allocate(bytes, align)) << "step " << step;
      if (!offset) {
        ASSERT_LT(one.largest_free(), bytes + align - 1) << "step " << step << ": it reports no space, but has space";
        continue;
      }
      ASSERT_EQ(*offset % align, 0U);
      ASSERT_LE(*offset + bytes, capacity);
      const auto after = taken.lower_bound(*offset);
      ASSERT_TRUE(after == taken.end() || *offset + bytes <= after->first) << "step " << step;
      ASSERT_TRUE(after == taken.begin() || std::prev(after)->first + std::prev(after)->second <= *offset)
          << "step " << step;
      taken[*offset] = bytes;
    } else {
      const auto victim = std::next(taken.begin(), static_cast<std::ptrdiff_t>(at_most(taken.size() - 1)));
      ASSERT_TRUE(one.release(victim->first));
      ASSERT_TRUE(other.release(victim->first));
      taken.erase(victim);
    }
  }
  for (const auto& [offset, bytes] : taken) ASSERT_TRUE(one.release(offset));
  EXPECT_EQ(one.largest_free(), capacity) << "a piece was lost";
}

INSTANTIATE_TEST_SUITE_P(Seeds, AllocatorModel, testing::Range(1U, 9U));

}  // namespace
}  // namespace hmc::rma
