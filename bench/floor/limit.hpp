// The limits of hmc_floor's rows, and the judgement of measured rounds.
#pragma once

#include <string>
#include <vector>

namespace hmc::floor {

/// An upper bound of HMC's time, relative to the best bare form. There is no default: every row has a limit.
class Limit {
 public:
  /// At most so many times the bare form's time.
  static Limit ratio(double most) { return {Kind::ratio, most}; }
  /// At most so many nanoseconds more: of calls so short that a ratio would say little.
  static Limit extra_ns(double most) { return {Kind::extra_ns, most}; }

 private:
  enum class Kind { ratio, extra_ns };
  Limit(Kind kind, double most) : kind_(kind), most_(most) {}
  friend struct Verdict;

  Kind kind_;
  double most_;
};

/// The judgement of a row. Nanoseconds per call; the rounds of both forms were measured in turn, so that a round's
/// two times belong together, and the median over the rounds counts.
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
