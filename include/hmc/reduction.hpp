// Reduction: how a collective combines contributions.
#pragma once

#include <hmc/types.hpp>

namespace hmc {

/// One of the operations, or a user's function. Where an Op is taken, `hmc::sum` is enough.
struct Reduction {
  constexpr Reduction(Op how) : op(how) {}
  /// `may_commute`: contributions may be combined in any order, so that more algorithms can be taken.
  constexpr Reduction(ReduceFunction user, void* users, bool may_commute = false)
      : function(user), context(users), commutative(may_commute), is_function(true) {}

  Op op = Op::sum;
  ReduceFunction function = nullptr;
  void* context = nullptr;
  bool commutative = true;
  bool is_function = false;
  /// The result's bits depend on nothing but the contributions and the team's size: not on the algorithm, on
  /// how a call is cut, on wires or on which rank is on which node. HMC_DETERMINISTIC=1 does it for all calls.
  bool deterministic = false;
};

/// `how`, with `deterministic` set.
constexpr Reduction deterministic(Reduction how) {
  how.deterministic = true;
  return how;
}

}  // namespace hmc
