// RadixQueue: a priority queue for times that never decrease. Items with equal times are FIFO.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstdint>
#include <vector>

namespace hmc::sim {

/// Bucket b holds the items whose highest bit that differs from the last taken time is bit b-1. pop()
/// sometimes redistributes one bucket. Each item moves at most 63 times, in practice a few times. `Item` has a member
/// `at`, not negative. An item's time must not be earlier than the last one taken.
template <typename Item> class RadixQueue {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  void push(const Item& item) {
    assert(item.at >= last_);
    buckets_[bucket_of(item)].push_back(item);
    ++size_;
  }

  Item pop() {
    if (head_ == buckets_[0].size()) refill();
    --size_;
    return buckets_[0][head_++];
  }

 private:
  std::size_t bucket_of(const Item& item) const {
    return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(item.at ^ last_)));
  }

  void refill() {
    buckets_[0].clear();
    head_ = 0;
    const auto full = std::find_if(buckets_.begin(), buckets_.end(), [](const auto& b) { return !b.empty(); });
    std::vector<Item> items;
    items.swap(*full);
    last_ = std::min_element(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.at < b.at; })->at;
    for (const Item& item : items) buckets_[bucket_of(item)].push_back(item);
    if (full->capacity() == 0) {  // keep the memory for reuse
      items.clear();
      full->swap(items);
    }
  }

  std::array<std::vector<Item>, 65> buckets_;
  std::size_t head_ = 0;  // of bucket 0: the number of items taken
  std::size_t size_ = 0;
  std::int64_t last_ = 0;
};

}  // namespace hmc::sim
