#include "collectives/args/signature.hpp"

#include <gtest/gtest.h>

namespace hmc::collectives {
namespace {

TEST(Signature, word_of_another_rank_has_a_text_for_any_value) {
  EXPECT_EQ(Signature().text(), "nothing");
  EXPECT_EQ(Signature::make(CollectiveKind::allreduce, 7, 0, DType::u64).text(), "allreduce(7 x u64, sum)");
  for (std::uint64_t kind = 0; kind < 32; ++kind)
    for (std::uint64_t op = 0; op < 32; ++op) EXPECT_FALSE(Signature(kind << 59 | op << 49).text().empty());
  EXPECT_EQ(Signature(std::uint64_t{31} << 59).text(), "unknown");
  EXPECT_EQ(Signature::plan_start(2, Signature(std::uint64_t{31} << 59)).text(), "Plan::start of plan 2 (unknown)");
}

}  // namespace
}  // namespace hmc::collectives
