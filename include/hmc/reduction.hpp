// Reduction: the operation of allreduce, reduce, reduce_scatter, scan and exscan.
#pragma once

#include <hmc/types.hpp>

namespace hmc {

/// A predefined operation (Op) or a user-defined operation (ReduceFunction). An Op converts implicitly: pass
/// `hmc::sum`.
struct Reduction {
  constexpr Reduction(Op how) : op(how) {}
  /// `may_commute` is true if the function is commutative. HMC can then choose between more algorithms.
  /// Every rank passes the same function: HMC compares `may_commute`, but can't compare functions of other processes.
  constexpr Reduction(ReduceFunction user, void* users, bool may_commute = false)
      : function(user), context(users), commutative(may_commute), is_function(true) {}

  Op op = Op::sum;
  ReduceFunction function = nullptr;
  void* context = nullptr;
  bool commutative = true;
  bool is_function = false;
  /// If true, the bits of the result depend only on the contributions and the team size. They don't depend on the
  /// algorithm, the wires, or the placement of ranks on nodes. HMC_DETERMINISTIC=1 sets it for all calls.
  bool deterministic = false;
};

/// Returns `how` with `deterministic` set.
constexpr Reduction deterministic(Reduction how) {
  how.deterministic = true;
  return how;
}

}  // namespace hmc
