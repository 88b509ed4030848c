// Common to all bootstraps: facts of ranks, numbering of nodes, and the errors that they throw, with equal texts.
#pragma once

#include <string>
#include <string_view>
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

/// If the job has failed or was aborted, throws Error{peer_failed} or Error{aborted} with the page's text.
void throw_if_aborted(const base::NodePage& page, std::string_view operation, int rank);

/// Throws an Error of a rank's call; `peer` -1: no particular rank.
[[noreturn]] void throw_failure(Code code, std::string_view operation, int rank, int peer, std::string text,
                                std::string hint = {});

/// Throws Error{timeout}: the ranks in `missing` haven't arrived.
[[noreturn]] void throw_missing(std::string_view operation, int rank, const std::vector<int>& missing);

/// Throws Error{closed}: rank `left` has closed the job, so this call can't complete.
[[noreturn]] void throw_left(std::string_view operation, int rank, int left);

/// The text of a mismatch. It is equal on every rank.
std::string mismatch_text(std::string_view expected, std::string_view got, int rank);

}  // namespace hmc::bootstrap
