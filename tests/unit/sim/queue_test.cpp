#include "sim/queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace hmc::sim {
namespace {

struct Item {
  std::int64_t at;
  int number;
};

TEST(RadixQueue, queue_is_a_stable_priority_queue) {
  std::mt19937_64 random(7);
  RadixQueue<Item> queue;
  std::vector<Item> inside;  // reference: sorted by time, equal times in order of insertion
  std::int64_t now = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (random() % 5 < 3 || inside.empty()) {
      const Item item{now + static_cast<std::int64_t>(random() % (i % 7 == 0 ? 1'000'000 : 8)), i};
      queue.push(item);
      inside.insert(std::upper_bound(inside.begin(), inside.end(), item.at,
                                     [](std::int64_t at, const Item& other) { return at < other.at; }),
                    item);
    } else {
      const Item item = queue.pop();
      ASSERT_EQ(item.at, inside.front().at);
      ASSERT_EQ(item.number, inside.front().number);
      inside.erase(inside.begin());
      now = item.at;
    }
    ASSERT_EQ(queue.empty(), inside.empty());
  }
}

}  // namespace
}  // namespace hmc::sim
