// The printed values: computed from times; and computation to overlap with communication.
#pragma once

#include <cstddef>
#include <vector>

#include <hmc/team.hpp>

namespace bench {

/// The p-th percentile of sorted values, by OSU's rule (nearest rank).
double percentile(const std::vector<double>& sorted, int percent);
inline constexpr int tail_percents[] = {50, 90, 99};

/// The overlap of communication and computation, from 0 to 100: OSU's rule, 100 - 100 (overall - compute) / pure.
double overlap_percent(double overall, double compute, double pure);

/// Element by element, over the ranks. Collective.
std::vector<double> sum_over_ranks(hmc::Team& team, std::vector<double> values);
double sum_over_ranks(hmc::Team& team, double value);
double min_over_ranks(hmc::Team& team, double value);
double max_over_ranks(hmc::Team& team, double value);

/// A fixed amount of arithmetic, which takes about `us` microseconds on an idle core. It isn't a fixed time: if the
/// progress of a collective uses the core, the work takes longer, which reduces the overlap.
class Work {
 public:
  explicit Work(double us);
  void run() const;

 private:
  std::size_t steps_;
};

}  // namespace bench
