// Parts of the closed forms of the cost, shared by several algorithms.
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
/// Calls f(2^k) for all 2^k below the limit.
template <typename Function> void doubling(double limit, const Function& f) {
  for (double distance = 1; distance < limit; distance *= 2) f(distance);
}
template <typename Function> void halving(double limit, const Function& f) {
  double distance = 1;
  while (distance * 2 < limit) distance *= 2;
  for (; distance >= 1 && limit > 1; distance /= 2) f(distance);
}
/// The critical path down or up a binomial tree: step(distance) for every level. If `members` isn't a power of two,
/// the highest level isn't on the path and only occupies the root: busy(distance).
template <typename Step, typename Busy> void tree(int members, const Step& step, const Busy& busy) {
  halving(members, [&](double distance) {
    const bool is_highest = distance * 2 >= members;
    is_highest&& distance * 2 > members ? busy(distance) : step(distance);
  });
}

/// Rounds of Bruck's allgather over the whole team.
void gather_all(Path& path, double block);
/// A gather of blocks up a binomial tree.
void gather_up(Path& path, double block);

}  // namespace hmc::collectives::schedule::costs
