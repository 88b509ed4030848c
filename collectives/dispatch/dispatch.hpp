// The three drivers of a collective: blocking, non-blocking and persistent.
#pragma once

#include <hmc/request.hpp>

#include "collectives/args/collective_args.hpp"
#include "collectives/node/engine.hpp"
#include "collectives/team/state.hpp"

namespace hmc::collectives {

// All throw Error. The engine is chosen once per call, before anything moves, and is the same on every rank:
//  - node, by load and store: a blocking call of a team on one node, unless a setting selects a schedule
//  - network, by a schedule: all others
// Reductions of the node engine run on the devices if all ranks can use theirs. Other device buffers are staged through
// host memory.

/// Chooses the engine. Returns the node engine's team, or null for the network engine.
inline DirectTeam* node_for(const OpenTeam& team, const CollectiveArgs& args) noexcept {
  DirectTeam* const node = team.state.node();
  if (node == nullptr || !node_engine::can(*node, args)) return nullptr;
  return team.state.has_setting(args.call.collective) && team.state.wants_schedule(args.call) ? nullptr : node;
}
[[gnu::cold]] void run_on_network(const OpenTeam& team, const CollectiveArgs& args);
/// Reports the failure of a call of the node engine to all ranks, which may be in a schedule, and throws.
[[noreturn, gnu::cold]] void throw_node_failure(const OpenTeam& team, const base::Status& status,
                                                const CollectiveArgs& args);

/// Blocking. Any call except alltoallv.
void run(const OpenTeam& team, const CollectiveArgs& args);
/// The same, with buffers that the host can access. In a barrier all branches on the collective are constant.
[[gnu::always_inline]] inline void run_on_host(const OpenTeam& team, const CollectiveArgs& args) {
  DirectTeam* const node = node_for(team, args);
  if (node == nullptr) [[unlikely]]
    return run_on_network(team, args);
  team.state.count_direct(args.call.collective);
  if (const base::Status status = node_engine::run(*node, args); !status.ok()) [[unlikely]]
    throw_node_failure(team, status, args);
}
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
