// The limits of hmc_floor's rows, and the verdict on measured rounds.
#pragma once

#include <string>
#include <vector>

namespace hmc::floor {

/// An upper bound of HMC's time, relative to the best bare form. There is no default: every row has a limit.
class Limit {
 public:
  /// At most this multiple of the bare form's time.
  static Limit ratio(double most) { return {Kind::ratio, most}; }
  /// At most this many nanoseconds more: for calls so short that a ratio isn't meaningful.
  static Limit extra_ns(double most) { return {Kind::extra_ns, most}; }

 private:
  enum class Kind { ratio, extra_ns };
  Limit(Kind kind, double most) : kind_(kind), most_(most) {}
  friend struct Verdict;

  Kind kind_;
  double most_;
};

/// The verdict on a row. Times are in nanoseconds per call. Both forms are measured in every round; the median of the
/// rounds' ratios (or differences) counts.
struct Verdict {
  Verdict(const Limit& limit, const std::vector<double>& bare, const std::vector<double>& hmc);

  double ratio;
  double extra_ns;
  bool kept;
  std::string text;  ///< "<= 1.05  ok"
};

double quantile(std::vector<double> values, double part);
double median(std::vector<double> values);

}  // namespace hmc::floor
