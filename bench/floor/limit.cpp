#include "bench/floor/limit.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <utility>

namespace hmc::floor {

double quantile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(static_cast<double>(values.size()) * part);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}
double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

Verdict::Verdict(const Limit& limit, const std::vector<double>& bare, const std::vector<double>& hmc) {
  std::vector<double> ratios;
  std::vector<double> extra;
  for (std::size_t round = 0; round < hmc.size(); ++round) {
    ratios.push_back(hmc[round] / bare[round]);
    extra.push_back(hmc[round] - bare[round]);
  }
  ratio = median(std::move(ratios));
  extra_ns = median(std::move(extra));
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

}  // namespace hmc::floor
