// Selector: which algorithm carries a call out.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives {

/// What HMC_COLL forces, and otherwise a table by collective, bytes and team size. All ranks of a team have the
/// same one, and ask it the same.
class Selector {
 public:
  /// "allreduce:ring,broadcast:binomial". Throws Error{invalid_config} that lists the names there are.
  explicit Selector(std::string_view setting = {});

  /// Null if no algorithm does this call. A forced one is passed over where it doesn't apply.
  const schedule::Algorithm* choose(const schedule::Shape& shape, const schedule::Call& call,
                                    std::uint64_t bytes) const noexcept;
  /// A schedule is forced, so the collectives by load and store stand back.
  bool forces(schedule::Collective collective) const noexcept { return forced(collective) != nullptr; }
  void force(schedule::Collective collective, const schedule::Algorithm* algorithm) noexcept {
    forced_[static_cast<std::size_t>(collective)] = algorithm;
  }

 private:
  const schedule::Algorithm* forced(schedule::Collective collective) const noexcept {
    return forced_[static_cast<std::size_t>(collective)];
  }
  std::array<const schedule::Algorithm*, schedule::collective_count> forced_{};
};

}  // namespace hmc::collectives
