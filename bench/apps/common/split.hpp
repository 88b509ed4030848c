// Splits each exchange into the wait for the last rank that it depends on, and the rest.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/apps/common/stamps.hpp"
#include "bench/kit/figures.hpp"

namespace apps {

/// The figures of a job, in us per step, averaged over the ranks.
struct Figures {
  double total = 0, compute = 0, exchange = 0, wait = 0, rest = 0;
  double exposed() const { return total - compute; }
};

/// The times of many steps, by their median and their mean.
struct Both {
  Figures median, mean;
};

/// The exchange of one call, in ns.
struct Split {
  std::int64_t exchange, wait;
};

/// `calls`: call i of each rank. The wait ends with the arrival of the last rank on which the call depends, at the
/// latest with its own departure.
inline Split split_of(const std::vector<Call>& calls, std::size_t rank) {
  const Call& mine = calls[rank];
  std::int64_t last = mine.arrival;
  for (std::size_t other = 0; other < calls.size(); ++other)
    if ((mine.with >> other & 1) != 0) last = std::max(last, calls[other].arrival);
  return {mine.start_ns + mine.departure - mine.arrival, std::min(last, mine.departure) - mine.arrival};
}

/// `calls` and `steps`: by rank. Every rank has the same number of both.
inline Both exchanges_of(const std::vector<std::vector<Call>>& calls, std::size_t steps) {
  const std::size_t ranks = calls.size(), calls_of_step = steps == 0 ? 0 : calls[0].size() / steps;
  std::vector<Call> together(ranks);
  std::vector<std::vector<double>> exchange(ranks), wait(ranks), rest(ranks);
  for (std::size_t step = 0; step < steps; ++step) {
    std::vector<Split> sums(ranks, Split{0, 0});
    for (std::size_t i = step * calls_of_step; i < (step + 1) * calls_of_step; ++i) {
      for (std::size_t rank = 0; rank < ranks; ++rank) together[rank] = calls[rank][i];
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const Split split = split_of(together, rank);
        sums[rank].exchange += split.exchange;
        sums[rank].wait += split.wait;
      }
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      exchange[rank].push_back(static_cast<double>(sums[rank].exchange));
      wait[rank].push_back(static_cast<double>(sums[rank].wait));
      rest[rank].push_back(static_cast<double>(sums[rank].exchange - sums[rank].wait));
    }
  }
  const double per_us = 1e3 * static_cast<double>(ranks);
  const auto averaged = [&](auto statistic) {
    Figures figures;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      figures.exchange += statistic(exchange[rank]) / per_us;
      figures.wait += statistic(wait[rank]) / per_us;
      figures.rest += statistic(rest[rank]) / per_us;
    }
    return figures;
  };
  return {averaged(bench::median_of), averaged(bench::mean_of)};
}

/// The time of a step: the median of a rank's steps, and the time of whole blocks of steps of all ranks, in us.
struct StepTime {
  double median, mean;
};
inline StepTime step_time_of(const std::vector<std::vector<Step>>& steps, std::size_t block) {
  StepTime time{0, 0};
  const std::size_t count = steps[0].size(), blocks = block == 0 ? 0 : count / block;
  for (const std::vector<Step>& rank : steps) {
    std::vector<double> ns;
    for (const Step& step : rank) ns.push_back(static_cast<double>(step.end - step.begin));
    time.median += bench::median_of(ns) / 1e3 / static_cast<double>(steps.size());
  }
  double whole = 0;
  for (std::size_t i = 0; i < blocks; ++i) {
    std::int64_t begin = steps[0][i * block].begin, end = 0;
    for (const std::vector<Step>& rank : steps) {
      begin = std::min(begin, rank[i * block].begin);
      end = std::max(end, rank[(i + 1) * block - 1].end);
    }
    whole += static_cast<double>(end - begin);
  }
  if (blocks > 0) time.mean = whole / 1e3 / static_cast<double>(blocks * block);
  return time;
}

}  // namespace apps
