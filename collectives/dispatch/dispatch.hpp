// The three drivers of a collective: blocking, non-blocking and persistent.
#pragma once

#include <hmc/request.hpp>

#include "collectives/args/collective_args.hpp"
#include "collectives/network/operation.hpp"
#include "collectives/node/engine.hpp"
#include "collectives/state/state.hpp"

namespace hmc::collectives {

// All throw Error. The engine is chosen once per call, before anything moves, and is the same on every rank:
//  - node, by load and store: a blocking call of a team on one node, unless a setting selects a schedule
//  - network, by a schedule: all others
// Reductions of the node engine run on the devices if all ranks can use theirs. Other device buffers are staged through
// host memory.

/// Chooses the engine. Returns the node engine's team, or null for the network engine.
inline DirectTeam* node_for(const OpenTeam& team, const CollectiveArgs& args) noexcept {
  const std::uint64_t extent = args.call.irregular() ? extent_of(args.call) : args.call.count;
  DirectTeam* const node = team.state.direct(args.call.collective, extent * args.call.element_bytes);
  return node != nullptr && node_engine::can(*node, args) ? node : nullptr;
}
void run_on_network(const OpenTeam& team, const CollectiveArgs& args);
/// Reports a failure outside of the network engine to all ranks, which may be in a schedule, and throws. Blocking.
[[noreturn]] void refuse(const OpenTeam& team, const base::Status& status, const char* operation, std::size_t bytes);

/// Blocking. Requires buffers that the host can access. Inline: in a barrier all branches except the first are
/// constant.
[[gnu::always_inline]] inline void run_on_host(const OpenTeam& team, const CollectiveArgs& args) {
  DirectTeam* const node = node_for(team, args);
  if (node == nullptr) [[unlikely]]
    return run_on_network(team, args);
  team.state.count_direct(args.call.collective);
  if (const base::Status status = node_engine::run(*node, args); !status.ok()) [[unlikely]]
    refuse(team, status, args.operation, args.bytes());
}
/// Blocking.
void run(const OpenTeam& team, const CollectiveArgs& args);
/// Blocking alltoallv: compares the counts of all pairs before data moves. Throws Error{mismatch} on every rank if they
/// don't match; the team stays usable.
void run_alltoallv(const OpenTeam& team, const CollectiveArgs& args);
/// Non-blocking. `name`: the name of the user's call, for errors.
Request start(const OpenTeam& team, const CollectiveArgs& args, const char* name);

/// Persistent: prepares the operation of a Plan.
Operation* prepare(const OpenTeam& team, const CollectiveArgs& args, const char* name);
/// Starts a run of a prepared operation.
Request start_prepared(const OpenTeam& team, Operation& operation, const char* name);

}  // namespace hmc::collectives
