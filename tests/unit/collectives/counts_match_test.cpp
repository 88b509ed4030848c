// The count check of a non-blocking alltoallv: it detects mismatches and fits into the areas of any team.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "collectives/network/operation.hpp"

namespace hmc::collectives {
namespace {

TEST(CountsMatch, comparison_fits_into_the_areas_of_any_team) {
  for (const int size : {2, 3, 64, 2047, 2048, 2049, 2050, 4096, 100'000, 1'000'000}) {
    const AreaLimits room = area_limits(size);
    for (std::uint64_t piece = 0; piece < 3; ++piece) {
      const Comparison way = comparison(piece, room.scratch_bytes);
      ASSERT_NE(way.algorithm, nullptr);
      const schedule::ScratchSize scratch_size = way.algorithm->scratch_size({size, 1}, way.call);
      EXPECT_LE(scratch_size.scratch, room.scratch_bytes) << "piece " << piece << " of " << size;
      EXPECT_LE(scratch_size.slots, room.slots) << "piece " << piece << " of " << size;
      if (size > 5000) continue;
      Plans plans(room, {size, 1}, size / 3, false);
      EXPECT_NE(plans.get(*way.algorithm, way.call), nullptr) << "piece " << piece << " of " << size;
    }
  }
}

TEST(CountsMatch, pairs_of_the_lowest_receivers_are_reported) {
  std::vector<CountMismatch> of_each(9);
  for (std::size_t rank = 0; rank < of_each.size(); ++rank) {
    std::vector<std::size_t> told(9, 5), received(9, 5);
    if (rank % 2 == 1 || rank == 8) told[rank / 2] = 100 + rank;
    of_each[rank] = first_count_mismatch(static_cast<int>(rank), told, received);
  }
  for (int order = 0; order < 20; ++order) {
    std::vector<CountMismatch> left = of_each;
    std::rotate(left.begin(), left.begin() + order % 9, left.end());
    while (left.size() > 1) {  // any two, as in a tree
      const std::size_t other = static_cast<std::size_t>(order) % (left.size() - 1) + 1;
      combine_count_mismatches(&left[0], &left[other], 1, DType::located_i64, nullptr);
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(other));
      std::rotate(left.begin(), left.begin() + 1, left.end());
    }
    EXPECT_EQ(left[0].receivers, 5U);
    for (std::size_t i = 0; i < CountMismatch::most_pairs; ++i) {
      const CountMismatch::Pair& pair = left[0].pairs[i];
      EXPECT_EQ(pair.to, 2 * i + 1);
      EXPECT_EQ(pair.from, i);
      EXPECT_EQ(pair.sent, 100 + pair.to);
      EXPECT_EQ(pair.expected, 5U);
    }
  }
}

}  // namespace
}  // namespace hmc::collectives
