// A hash table over the memory of all ranks: each rank counts random keys in it, by one-sided atomics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <vector>

#include "bench/apps/common/job.hpp"
#include "bench/apps/common/stamps.hpp"
#include "bench/kit/pattern.hpp"

namespace apps {

/// A slot of the table in window memory. The key 0 means: free.
struct Slot {
  std::uint64_t key, count;
};

/// Each step counts `job.size` keys. Modes: single (one compare_swap at a time), batched (several in flight).
template <typename Library> class HashTable {
 public:
  HashTable(Library& library, const Job& job)
      : library_(library),
        updates_(static_cast<std::size_t>(job.size)),
        slots_(16 * updates_),
        keys_(8 * updates_ * static_cast<std::size_t>(library.size())),
        batched_(job.mode == "batched"),
        atomics_(library, slots_ * sizeof(Slot)) {
    reset();
  }

  void reset() {
    auto* const slots = reinterpret_cast<Slot*>(atomics_.part());
    for (std::size_t i = 0; i < slots_; ++i) slots[i] = {0, 0};
    steps_ = 0;
    library_.barrier();
  }

  void step(Stamps* stamps) {
    wanted_.clear();
    for (std::size_t i = 0; i < updates_; ++i) {
      const std::uint64_t key = key_of(library_.rank(), steps_, i);
      wanted_.push_back(first_place(key));
    }
    ++steps_;
    if (stamps == nullptr) return;
    stamps->call(bit(library_.rank()), [&] {
      if (batched_)
        count_batched();
      else
        count_singly();
      atomics_.flush();
    });
  }

  /// Compares the counts in this rank's part with a serial count of the keys of all ranks.
  bool is_right(int steps) {
    library_.barrier();
    std::map<std::uint64_t, std::uint64_t> expected;
    for (int rank = 0; rank < library_.size(); ++rank) {
      for (int step = 0; step < steps; ++step) {
        for (std::size_t i = 0; i < updates_; ++i) {
          const std::uint64_t key = key_of(rank, static_cast<std::uint64_t>(step), i);
          if (first_place(key).owner == library_.rank()) ++expected[key];
        }
      }
    }
    bool right = true;
    const auto* const slots = reinterpret_cast<const Slot*>(atomics_.part());
    for (std::size_t i = 0; i < slots_; ++i) {
      if (slots[i].key == 0) continue;
      const auto found = expected.find(slots[i].key);
      right = right && found != expected.end() && found->second == slots[i].count;
      if (found != expected.end()) expected.erase(found);
    }
    return right && expected.empty();
  }

 private:
  struct Place {
    std::uint64_t key;
    int owner;
    std::size_t slot;
  };

  std::uint64_t key_of(int rank, std::uint64_t step, std::size_t i) const {
    const std::uint64_t draw = bench::mixed((static_cast<std::uint64_t>(rank) << 48) + step * updates_ + i + 1);
    return bench::mixed(draw % keys_ + 1) | 1;
  }
  Place first_place(std::uint64_t key) const {
    const std::uint64_t hash = bench::mixed(key);
    return {key, static_cast<int>(hash % static_cast<std::uint64_t>(library_.size())), (hash >> 32) % slots_};
  }
  void next(Place& place) const { place.slot = place.slot + 1 == slots_ ? 0 : place.slot + 1; }
  static std::size_t key_at(const Place& place) { return place.slot * sizeof(Slot); }
  static std::size_t count_at(const Place& place) { return place.slot * sizeof(Slot) + sizeof(std::uint64_t); }

  void count_singly() {
    for (Place place : wanted_) {
      for (;;) {
        const std::uint64_t old = atomics_.compare_swap(place.owner, key_at(place), free_, place.key);
        if (old == 0 || old == place.key) break;
        next(place);
      }
      atomics_.add(place.owner, count_at(place), one_);
    }
  }

  // Rounds of compare_swaps in flight. A key that found another key in its slot tries the next slot in the next round.
  // The keys of the previous round are counted while the compare_swaps of this round are in flight.
  void count_batched() {
    old_.resize(depth);
    pending_.clear();
    found_.clear();
    for (std::size_t next_wanted = 0; next_wanted < wanted_.size() || !pending_.empty();) {
      while (pending_.size() < depth && next_wanted < wanted_.size()) pending_.push_back(wanted_[next_wanted++]);
      for (std::size_t i = 0; i < pending_.size(); ++i)
        atomics_.start_compare_swap(pending_[i].owner, key_at(pending_[i]), free_, pending_[i].key, &old_[i]);
      count_found();
      atomics_.finish();
      std::size_t left = 0;
      for (std::size_t i = 0; i < pending_.size(); ++i) {
        if (old_[i] == 0 || old_[i] == pending_[i].key) {
          found_.push_back(pending_[i]);
        } else {
          next(pending_[i]);
          pending_[left++] = pending_[i];
        }
      }
      pending_.resize(left);
    }
    count_found();
  }
  void count_found() {
    for (const Place& place : found_) atomics_.add(place.owner, count_at(place), one_);
    found_.clear();
  }

  static constexpr std::size_t depth = 128;
  static constexpr std::uint64_t free_ = 0, one_ = 1;  // MPI reads operands until the flush

  Library& library_;
  std::size_t updates_, slots_, keys_;
  bool batched_;
  typename Library::Atomics atomics_;
  std::uint64_t steps_ = 0;
  std::vector<Place> wanted_, pending_, found_;
  std::vector<std::uint64_t> old_;
};

}  // namespace apps
