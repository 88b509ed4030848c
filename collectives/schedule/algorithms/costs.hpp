// Parts of the closed forms that several algorithms share.
#pragma once

#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/algorithms/parts.hpp"

namespace hmc::collectives::schedule::costs {

inline double bytes_of(const Call& call) {
  return static_cast<double>(call.count) * static_cast<double>(call.element_bytes);
}
inline double segment_of(const Call& call, std::uint64_t otherwise) {
  return static_cast<double>(call.segment_bytes > 0 ? call.segment_bytes : otherwise);
}
inline double segments_in(double bytes, double segment) { return std::clamp(bytes / segment, 1.0, 1024.0); }
/// f(2^k) for all 2^k below the limit.
template <typename Function> void doubling(double limit, const Function& f) {
  for (double distance = 1; distance < limit; distance *= 2) f(distance);
}
template <typename Function> void halving(double limit, const Function& f) {
  double distance = 1;
  while (distance * 2 < limit) distance *= 2;
  for (; distance >= 1 && limit > 1; distance /= 2) f(distance);
}
/// Down a binomial tree of `members`, or up: step(distance) for every level but, where they are no power of two, the
/// highest, which is one of those at which the top is only kept busy: busy(distance).
template <typename Step, typename Busy> void tree(int members, const Step& step, const Busy& busy) {
  halving(members, [&](double distance) {
    const bool is_highest = distance * 2 >= members;
    is_highest&& distance * 2 > members ? busy(distance) : step(distance);
  });
}

/// Bruck's rounds, of the whole team.
void gather_all(Path& path, double block);
/// Up a binomial tree, blocks coming together.
void gather_up(Path& path, double block);

}  // namespace hmc::collectives::schedule::costs
