// The limits of hmc_floor's rows, and the verdict on measured rounds.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "bench/kit/figures.hpp"

namespace bench {

/// An upper bound of HMC's time, relative to the bare loop's. There is no default: every row has a limit.
class Limit {
 public:
  /// At most this multiple of the bare loop's time.
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

/// The verdict on a row. Times are in nanoseconds per call. Both are measured in every round; the median of the
/// rounds' ratios (or differences) counts.
struct Verdict {
  Verdict(const Limit& limit, const std::vector<double>& bare, const std::vector<double>& hmc) {
    std::vector<double> ratios;
    std::vector<double> extra;
    for (std::size_t round = 0; round < hmc.size(); ++round) {
      ratios.push_back(hmc[round] / bare[round]);
      extra.push_back(hmc[round] - bare[round]);
    }
    ratio = median_of(std::move(ratios));
    extra_ns = median_of(std::move(extra));
    const bool by_ratio = limit.kind_ == Limit::Kind::ratio;
    kept = !hmc.empty() && (by_ratio ? ratio : extra_ns) <= limit.most_;
    char words[64];
    const char* const verdict = kept ? "ok" : "MISSED";
    if (by_ratio)
      std::snprintf(words, sizeof words, "<= %.2f  %s", limit.most_, verdict);
    else
      std::snprintf(words, sizeof words, "%+.1f ns of +%.0f  %s", extra_ns, limit.most_, verdict);
    text = words;
  }

  double ratio;
  double extra_ns;
  bool kept;
  std::string text;  ///< "<= 1.05  ok"
};

}  // namespace bench
