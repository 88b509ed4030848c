// Counts: the counts or displacements of a v-form (gatherv, scatterv, allgatherv, alltoallv, reduce_scatterv).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <hmc/types.hpp>

namespace hmc {

/// One number per rank, from any contiguous range of integers: a vector, array or span of std::size_t, int, ...
///  - Numbers of type std::size_t aren't copied: the range must stay valid until the call returns.
///  - Numbers of other types are copied. Error{invalid_argument} if one is negative.
///  - Counts() is empty. Empty displacements mean contiguous blocks.
class HMC_API Counts {
 public:
  Counts() = default;
  Counts(std::initializer_list<std::size_t> numbers) : all_(numbers.begin(), numbers.size()) {}
  template <typename R>
  requires(!std::same_as<std::remove_cvref_t<R>, Counts> && std::ranges::contiguous_range<R> &&
           std::ranges::sized_range<R> && std::integral<std::ranges::range_value_t<R>> &&
           !std::same_as<std::ranges::range_value_t<R>, bool>) Counts(R&& numbers) {
    if constexpr (std::same_as<std::ranges::range_value_t<R>, std::size_t>) {
      all_ = {std::ranges::data(numbers), std::ranges::size(numbers)};
    } else {
      copies_.reserve(std::ranges::size(numbers));
      for (const auto number : numbers) {
        if (std::cmp_less(number, 0)) refuse(static_cast<std::int64_t>(number), copies_.size());
        copies_.push_back(static_cast<std::size_t>(number));
      }
      all_ = copies_;
    }
  }
  Counts(const Counts&) = delete;
  Counts& operator=(const Counts&) = delete;

  operator std::span<const std::size_t>() const noexcept { return all_; }
  std::size_t size() const noexcept { return all_.size(); }
  bool empty() const noexcept { return all_.empty(); }
  std::size_t operator[](std::size_t rank) const noexcept { return all_[rank]; }

 private:
  [[noreturn]] static void refuse(std::int64_t number, std::size_t index);

  std::vector<std::size_t> copies_;
  std::span<const std::size_t> all_;
};

}  // namespace hmc
