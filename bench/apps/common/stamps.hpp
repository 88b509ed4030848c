// Time stamps of a program's exchanges and steps.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/kit/figures.hpp"

namespace apps {

using bench::now_ns;

/// One exchange of one rank. Call i of a step on one rank corresponds to call i of the same step on all ranks.
struct Call {
  std::uint64_t with;      ///< bit r: the exchange depends on rank r
  std::int64_t start_ns;   ///< time in calls that start the exchange, before `arrival`
  std::int64_t arrival;    ///< entry of the call that completes it
  std::int64_t departure;  ///< return of that call
};

struct Step {
  std::int64_t begin, end;
};

/// The stamps of one rank. The program marks its exchanges; the loop marks the steps.
class Stamps {
 public:
  /// An exchange with the ranks of `with`.
  template <typename Exchange> void call(std::uint64_t with, Exchange exchange) {
    const std::int64_t arrival = now_ns();
    exchange();
    calls_.push_back({with, start_ns_, arrival, now_ns()});
    start_ns_ = 0;
  }
  /// Starts a part of the next call()'s exchange.
  template <typename Exchange> void start(Exchange exchange) {
    const std::int64_t before = now_ns();
    exchange();
    start_ns_ += now_ns() - before;
  }
  template <typename Work> void step(Work work) {
    const std::int64_t begin = now_ns();
    work();
    steps_.push_back({begin, now_ns()});
  }
  void reserve(std::size_t calls, std::size_t steps) {
    calls_.reserve(calls);
    steps_.reserve(steps);
  }
  void clear() {
    calls_.clear();
    steps_.clear();
  }
  const std::vector<Call>& calls() const { return calls_; }
  const std::vector<Step>& steps() const { return steps_; }

 private:
  std::vector<Call> calls_;
  std::vector<Step> steps_;
  std::int64_t start_ns_ = 0;
};

inline std::uint64_t bit(int rank) { return std::uint64_t{1} << rank; }
inline std::uint64_t all_ranks(int size) { return size == 64 ? ~std::uint64_t{0} : bit(size) - 1; }

}  // namespace apps
