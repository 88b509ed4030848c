// Sample sort: each rank sorts its keys, all agree on splitters, and an alltoallv moves each key to its owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "bench/apps/common/job.hpp"
#include "bench/apps/common/stamps.hpp"
#include "bench/kit/pattern.hpp"

namespace apps {

template <typename Library> class SampleSort {
 public:
  SampleSort(Library& library, const Job& job)
      : library_(library),
        ranks_(static_cast<std::size_t>(library.size())),
        count_(static_cast<std::size_t>(job.size)),
        capacity_(2 * count_ + ranks_ * ranks_),
        keys_(count_),
        all_samples_(ranks_ * ranks_),
        samples_(ranks_),
        send_counts_(ranks_),
        receive_counts_(ranks_),
        begins_(ranks_),
        receive_begins_(ranks_) {
    library.reserve((count_ + 2 * capacity_) * sizeof(std::uint64_t) + (64 << 10));
    sorted_ = library.template allocate<std::uint64_t>(count_);
    received_ = library.template allocate<std::uint64_t>(capacity_);
    merged_ = library.template allocate<std::uint64_t>(capacity_);
    fill(library.rank(), keys_);
    library.barrier();
  }

  void reset() {}

  void step(Stamps* stamps) {
    std::copy(keys_.begin(), keys_.end(), sorted_);
    std::sort(sorted_, sorted_ + count_);
    for (std::size_t i = 0; i < ranks_; ++i) samples_[i] = sorted_[i * count_ / ranks_];
    const std::uint64_t all = all_ranks(library_.size());
    if (stamps != nullptr)
      stamps->call(all, [&] { library_.allgather(samples_.data(), all_samples_.data(), ranks_ * sizeof samples_[0]); });
    std::sort(all_samples_.begin(), all_samples_.end());
    std::size_t begin = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const std::uint64_t* const end =
          rank + 1 == ranks_ ? sorted_ + count_
                             : std::lower_bound(sorted_ + begin, sorted_ + count_, all_samples_[(rank + 1) * ranks_]);
      begins_[rank] = begin;
      send_counts_[rank] = static_cast<std::size_t>(end - sorted_) - begin;
      begin += send_counts_[rank];
    }
    if (stamps != nullptr) {
      stamps->call(all,
                   [&] { library_.alltoall(send_counts_.data(), receive_counts_.data(), sizeof receive_counts_[0]); });
    }
    total_ = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      receive_begins_[rank] = total_;
      total_ += receive_counts_[rank];
    }
    if (total_ > capacity_) throw std::runtime_error("sort: more keys than regular sampling allows");
    if (stamps != nullptr) {
      stamps->call(all, [&] {
        library_.alltoallv(sorted_, send_counts_, begins_, received_, receive_counts_, receive_begins_,
                           sizeof received_[0]);
      });
    }
    merge();
  }

  /// Compares this rank's keys with those at the same places of a serial sort of all keys.
  bool is_right(int) {
    std::vector<std::uint64_t> everything, part(count_);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      fill(static_cast<int>(rank), part);
      everything.insert(everything.end(), part.begin(), part.end());
    }
    std::sort(everything.begin(), everything.end());
    std::vector<std::size_t> totals(ranks_);
    library_.allgather(&total_, totals.data(), sizeof total_);
    std::size_t first = 0, sum = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (rank < static_cast<std::size_t>(library_.rank())) first += totals[rank];
      sum += totals[rank];
    }
    return sum == everything.size() &&
           std::equal(merged_, merged_ + total_, everything.begin() + static_cast<std::ptrdiff_t>(first));
  }

 private:
  static void fill(int rank, std::vector<std::uint64_t>& keys) {
    for (std::size_t i = 0; i < keys.size(); ++i)
      keys[i] = bench::mixed(static_cast<std::uint64_t>(rank + 1) << 40 | i);
  }

  // Merges the sorted runs of the ranks pairwise.
  void merge() {
    std::copy(received_, received_ + total_, merged_);
    for (std::size_t width = 1; width < ranks_; width *= 2) {
      for (std::size_t rank = 0; rank + width < ranks_; rank += 2 * width) {
        const std::size_t end = rank + 2 * width < ranks_ ? receive_begins_[rank + 2 * width] : total_;
        std::inplace_merge(merged_ + receive_begins_[rank], merged_ + receive_begins_[rank + width], merged_ + end);
      }
    }
  }

  Library& library_;
  std::size_t ranks_, count_, capacity_, total_ = 0;
  std::vector<std::uint64_t> keys_, all_samples_, samples_;
  std::vector<std::size_t> send_counts_, receive_counts_, begins_, receive_begins_;
  std::uint64_t* sorted_ = nullptr;
  std::uint64_t* received_ = nullptr;
  std::uint64_t* merged_ = nullptr;
};

}  // namespace apps
