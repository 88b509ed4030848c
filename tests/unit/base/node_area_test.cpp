#include "runtime/base/node_page.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include <hmc/error.hpp>

namespace hmc::base {
namespace {

TEST(NodeArea, a_part_is_shared_and_keeps_to_itself) {
  const NodePage page = NodePage::create(2);
  const NodeArea area(page);
  const std::uint32_t a = area.take(3 * page_size(), 2), b = area.take(page_size() + 1, 1);
  ASSERT_NE(a, NodeArea::none);
  ASSERT_NE(b, NodeArea::none);
  const auto one = area.map(a, 3 * page_size(), area.share(a)), two = area.map(a, 3 * page_size(), area.share(a));
  const auto other = area.map(b, 2 * page_size(), area.share(b));
  EXPECT_EQ(one->base(), two->base());  // one mapping per process
  EXPECT_EQ(one->fd(), page.segment()->fd());
  std::memset(one->base(), 1, one->bytes());
  std::memset(other->base(), 2, other->bytes());
  EXPECT_EQ(one->base()[one->bytes() - 1], std::byte{1});
  EXPECT_EQ(two->base()[0], std::byte{1});
  EXPECT_EQ(other->base()[0], std::byte{2});
}

TEST(NodeArea, a_part_is_used_again_when_all_shares_are_dropped_and_is_zero) {
  const NodePage page = NodePage::create(2);
  const NodeArea area(page);
  const std::uint32_t number = area.take(4 * page_size(), 2);
  auto one = area.map(number, 4 * page_size(), area.share(number));
  auto two = area.map(number, 4 * page_size(), area.share(number));
  std::memset(one->base(), 7, one->bytes());
  one.reset();
  EXPECT_NE(area.take(4 * page_size(), 1), number);  // in use by the other rank
  two.reset();
  ASSERT_EQ(area.take(3 * page_size(), 1), number);  // a smaller part fits too
  const auto again = area.map(number, 3 * page_size(), area.share(number));
  const std::vector<std::byte> zeros(again->bytes());
  EXPECT_EQ(std::memcmp(again->base(), zeros.data(), zeros.size()), 0);
}

TEST(NodeArea, a_full_table_or_file_is_reported) {
  const NodePage page = NodePage::create(1);
  const NodeArea area(page);
  EXPECT_EQ(area.take(std::size_t{1} << 50, 1), NodeArea::none);
  const NodePage other = NodePage::create(1);
  for (std::uint32_t i = 0; i < NodePage::area_entries; ++i) EXPECT_EQ(NodeArea(other).take(1, 1), i + 1);
  EXPECT_EQ(NodeArea(other).take(1, 1), NodeArea::none);
}

TEST(NodeArea, an_unknown_number_is_refused) {
  const NodePage page = NodePage::create(1);
  const NodeArea area(page);
  EXPECT_EQ(area.share(NodeArea::none), nullptr);
  EXPECT_EQ(area.share(NodePage::area_entries + 1), nullptr);
  EXPECT_THROW((void)area.map(NodePage::area_entries + 1, 1, nullptr), Error);
}

}  // namespace
}  // namespace hmc::base
