// CollectiveArgs: the checked arguments of one collective call. The input of the three drivers (blocking, non-blocking,
// persistent) and of both engines.
#pragma once

#include <cstddef>
#include <span>

#include <hmc/reduction.hpp>

#include "collectives/args/signature.hpp"
#include "collectives/reduce/reduce.hpp"
#include "collectives/schedule/schedule.hpp"
#include "runtime/rma/team_core.hpp"

namespace hmc::collectives {

struct CollectiveArgs {
  schedule::Call call;
  const void* input = nullptr;
  void* output = nullptr;
  Signature signature;
  const char* operation = "";
  int compares_as = -1;  ///< this rank in an alltoallv that compares all counts before data moves; -1 in other calls
  Reducer reducer;

  /// Bytes of a vector, or of one rank's block.
  std::uint64_t bytes() const noexcept { return call.count * call.element_bytes; }
};

using Counts = std::span<const std::size_t>;
/// The blocks of a v-form; displacements are optional.
struct Layout {
  Counts counts;
  Counts displacements;
};

// ---- Each function checks a caller's arguments and describes the call. Throws Error{invalid_argument, bad_rank}.
constexpr CollectiveArgs barrier_args() {
  CollectiveArgs args;
  args.operation = "barrier";
  args.signature = Signature::make(Kind::barrier, 0);
  return args;
}
CollectiveArgs broadcast_args(const rma::TeamCore& team, void* data, std::size_t bytes, int root);
CollectiveArgs gather_args(const rma::TeamCore& team, const void* in, void* out, std::size_t bytes, int root);
CollectiveArgs scatter_args(const rma::TeamCore& team, const void* in, void* out, std::size_t bytes, int root);
CollectiveArgs allgather_args(const rma::TeamCore& team, const void* in, void* out, std::size_t bytes);
CollectiveArgs alltoall_args(const rma::TeamCore& team, const void* in, void* out, std::size_t bytes);

CollectiveArgs gatherv_args(const rma::TeamCore& team, const void* in, void* out, const Layout& blocks, int root,
                            std::size_t element);
CollectiveArgs scatterv_args(const rma::TeamCore& team, const void* in, void* out, const Layout& blocks, int root,
                             std::size_t element);
CollectiveArgs allgatherv_args(const rma::TeamCore& team, const void* in, void* out, const Layout& blocks,
                               std::size_t element);
/// The ranks determine the largest count and compare the counts during the call.
CollectiveArgs alltoallv_args(const rma::TeamCore& team, const void* in, void* out, const Layout& sent,
                              const Layout& received, std::size_t element);
/// All ranks pass the same `largest`. The call compares it and the counts.
CollectiveArgs alltoallv_args(const rma::TeamCore& team, const void* in, void* out, const Layout& sent,
                              const Layout& received, std::size_t largest, std::size_t element);

CollectiveArgs allreduce_args(const rma::TeamCore& team, const void* in, void* out, std::size_t count, DType type,
                              const Reduction& how);
/// reduce, reduce_scatter, scan, exscan. `root`: of reduce.
CollectiveArgs reduction_args(const rma::TeamCore& team, schedule::Collective collective, const void* in, void* out,
                              std::size_t count, DType type, const Reduction& how, int root = 0);
CollectiveArgs reduce_scatterv_args(const rma::TeamCore& team, const void* in, void* out, Counts counts, DType type,
                                    const Reduction& how);

}  // namespace hmc::collectives
