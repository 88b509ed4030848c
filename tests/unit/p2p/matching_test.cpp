#include "runtime/p2p/matching.hpp"

#include <gtest/gtest.h>

#include "runtime/p2p/layout.hpp"

namespace hmc::p2p {
namespace {

struct Element {
  int value = 0;
  Element* next = nullptr;
};

TEST(Fifo, keeps_the_order_and_removes_anywhere) {
  Element elements[5];
  Fifo<Element> list;
  for (int i = 0; i < 5; ++i) {
    elements[i].value = i;
    list.push_back(elements[i]);
  }
  EXPECT_TRUE(list.remove(elements[2]));
  EXPECT_FALSE(list.remove(elements[2]));
  EXPECT_TRUE(list.remove(elements[4]));  // the last
  EXPECT_TRUE(list.remove(elements[0]));  // the first
  list.push_back(elements[2]);
  EXPECT_EQ(list.find([](const Element& each) { return each.value > 1; }), &elements[3]);
  EXPECT_EQ(list.pop_front(), &elements[1]);
  EXPECT_EQ(list.pop_front(), &elements[3]);
  EXPECT_EQ(list.pop_front(), &elements[2]);
  EXPECT_TRUE(list.is_empty());
  list.push_back(elements[0]);
  EXPECT_EQ(list.front(), &elements[0]);
}

TEST(Wanted, matches_by_team_and_tag) {
  Envelope message;
  message.team = 4;
  message.tag = 9;
  EXPECT_TRUE((Wanted{4, 9}.matches(message)));
  EXPECT_TRUE((Wanted{4, any_tag}.matches(message)));
  EXPECT_FALSE((Wanted{4, 8}.matches(message)));
  EXPECT_FALSE((Wanted{5, any_tag}.matches(message)));
}

TEST(Layout, parts_dont_overlap) {
  for (const int size : {1, 2, 3, 64, 1000, 5000}) {
    for (const bool one_node : {true, false}) {
      const Layout layout(size, one_node);
      EXPECT_LE(layout.announcement(size - 1) + 8, layout.line(0));
      EXPECT_LE(layout.line(size - 1) + Layout::line_bytes, layout.slot_signal(0));
      EXPECT_LE(layout.slot_signal(Layout::slots - 1) + 8, layout.slot(0));
      EXPECT_LE(layout.slot(Layout::slots - 1) + Layout::slot_bytes, layout.ring(0));
      EXPECT_EQ(layout.ring(size - 1) + layout.ring_bytes(), layout.bytes());
      EXPECT_GE(layout.ring_bytes(), 4096U);
      EXPECT_EQ(layout.ring(1) % Layout::line_bytes, 0U);
    }
  }
}

}  // namespace
}  // namespace hmc::p2p
