// Checks a caller's arguments and builds CollectiveArgs. Throws Error.
#pragma once

#include <cstddef>
#include <span>

#include <hmc/team.hpp>

#include "collectives/args/collective_args.hpp"
#include "collectives/state/state.hpp"

namespace hmc::collectives {

using Counts = std::span<const std::size_t>;

/// An open team, for the duration of a call. Throws Error{closed} if the team is closed.
struct OpenTeam {
  rma::TeamCore& core;
  State& state;
  OpenTeam(const std::shared_ptr<rma::TeamCore>& core, const char* operation);
  int rank() const noexcept { return core.rank(); }
  int size() const noexcept { return core.size(); }
};

/// The blocks of a v-form; displacements are optional.
struct Layout {
  Counts counts;
  Counts displacements;
};

// ---- for collectives by load and store: the checks, without CollectiveArgs
void check_broadcast(const OpenTeam& team, const void* data, std::size_t bytes, int root);
void check_allgather(const OpenTeam& team, const void* in, const void* out, std::size_t bytes);
ReduceCall allreduce_direct_call(const void* in, void* out, std::size_t count, DType type, const Reduction& how);

CollectiveArgs barrier_call();
CollectiveArgs broadcast_call(const OpenTeam& team, void* data, std::size_t bytes, int root);
CollectiveArgs gather_call(const OpenTeam& team, const void* in, void* out, std::size_t bytes, int root);
CollectiveArgs scatter_call(const OpenTeam& team, const void* in, void* out, std::size_t bytes, int root);
CollectiveArgs allgather_call(const OpenTeam& team, const void* in, void* out, std::size_t bytes);
CollectiveArgs alltoall_call(const OpenTeam& team, const void* in, void* out, std::size_t bytes);

CollectiveArgs gatherv_call(const OpenTeam& team, const void* in, void* out, const Layout& blocks, int root,
                            std::size_t element);
CollectiveArgs scatterv_call(const OpenTeam& team, const void* in, void* out, const Layout& blocks, int root,
                             std::size_t element);
CollectiveArgs allgatherv_call(const OpenTeam& team, const void* in, void* out, const Layout& blocks,
                               std::size_t element);
/// The ranks agree on `largest` afterwards.
CollectiveArgs alltoallv_call(const OpenTeam& team, const void* in, void* out, const Layout& sent,
                              const Layout& received, std::size_t element);

/// reduce, allreduce, reduce_scatter, scan, exscan. `root`: of reduce.
CollectiveArgs reduction_call(const OpenTeam& team, schedule::Collective collective, const void* in, void* out,
                              std::size_t count, DType type, const Reduction& how, int root = 0);
CollectiveArgs reduce_scatterv_call(const OpenTeam& team, const void* in, void* out, Counts counts, DType type,
                                    const Reduction& how);

}  // namespace hmc::collectives
