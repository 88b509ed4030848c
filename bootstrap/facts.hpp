// A rank's facts, and the numbering of nodes and of the ranks of a node.
#pragma once

#include <string>
#include <vector>

#include "bootstrap/bootstrap.hpp"

namespace hmc::bootstrap {

/// The facts of this process and thread: pid, machine, the CPUs it may run on. The node isn't set.
RankFacts own_facts(int rank);

/// `facts`: indexed by rank; `node` is any number that is equal for the ranks of one node. Renumbers the nodes by their
/// lowest rank, and sets local_index to the rank's position on its node.
void number_nodes(std::vector<RankFacts>& facts);

/// World ranks on `node`, ascending.
std::vector<int> members_of(const std::vector<RankFacts>& facts, int node);

/// Writes rank and pid into this rank's line of the node page. Every bootstrap calls it when the facts are complete.
void sign_page(const base::NodePage& page, const RankFacts& mine) noexcept;

/// "rank 3", "ranks 1, 4-6, 9" for error texts. "no rank" when empty.
std::string list_ranks(const std::vector<int>& ascending);

}  // namespace hmc::bootstrap
