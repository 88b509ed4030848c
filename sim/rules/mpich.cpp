// MPICH 4.0.2 with ch4, the compiled-in selection, for commutative built-in operations.
//
// Source of the facts: github.com/pmodels/mpich, tag v4.0.2: maint/tuning/coll/mpir/generic.json (flat algorithms),
// maint/tuning/coll/ch4/generic.json and src/mpid/ch4/src/ch4_coll_impl.h (hierarchical algorithms), and
// maint/tuning/coll/ch4/posix_generic.json (on a node: trees in shared memory, here as binomial trees).
#include <span>

#include "sim/rules/rules.hpp"

namespace hmc::sim::rules {

namespace {

using C = CollectiveKind;

constexpr int any = 0;
constexpr int power_of_two = -1;

/// Algorithms by bytes: for fewer ranks than `below`, for powers of two, or for any number.
struct MpichRule {
  C collective;
  int below;
  bool total;  ///< bytes of all ranks together, not of one
  std::string_view algorithms;
};

constexpr MpichRule rows[] = {
    {C::barrier, any, false, "dissemination"},
    {C::broadcast, 8, false, "binomial"},
    {C::broadcast, power_of_two, false,
     "binomial <=12288, scatter_recursive_doubling_allgather <=524288, scatter_ring_allgather"},
    {C::broadcast, any, false, "binomial <=12288, scatter_ring_allgather"},
    {C::reduce, any, false, "binomial <=2048, reduce_scatter_gather"},
    {C::allreduce, any, false, "recursive_doubling <=8, reduce_scatter_allgather"},
    {C::gather, any, false, "binomial"},
    {C::scatter, any, false, "binomial"},
    {C::allgather, power_of_two, true, "recursive_doubling <524288, ring"},
    {C::allgather, any, true, "brucks <81920, ring"},
    {C::alltoall, 8, false, "scattered <=32768, pairwise"},
    {C::alltoall, any, false, "brucks <=256, scattered <=32768, pairwise"},
    {C::reduce_scatter, any, true, "recursive_halving <524288, pairwise"},
    {C::scan, any, false, "recursive_doubling"},
    {C::exscan, any, false, "recursive_doubling"},
};

struct MpichAlgorithm {
  C collective;
  std::string_view theirs;
  std::string_view ours;
};

/// The equal HMC algorithm (no mark) or a similar one (~).
constexpr MpichAlgorithm names[] = {
    {C::barrier, "dissemination", "dissemination"},
    {C::broadcast, "binomial", "binomial"},
    {C::broadcast, "scatter_recursive_doubling_allgather", "~scatter+bruck"},
    {C::broadcast, "scatter_ring_allgather", "scatter+ring"},
    {C::reduce, "binomial", "binomial"},
    {C::reduce, "reduce_scatter_gather", "rabenseifner"},
    {C::allreduce, "recursive_doubling", "recursive_doubling"},
    {C::allreduce, "reduce_scatter_allgather", "rabenseifner"},
    {C::gather, "binomial", "binomial"},
    {C::scatter, "binomial", "binomial"},
    {C::allgather, "recursive_doubling", "~bruck"},
    {C::allgather, "brucks", "bruck"},
    {C::allgather, "ring", "ring"},
    {C::alltoall, "brucks", "bruck"},
    {C::alltoall, "scattered", "~pairwise"},
    {C::alltoall, "pairwise", "pairwise"},
    {C::reduce_scatter, "recursive_halving", "~pat"},
    {C::reduce_scatter, "pairwise", "pairwise"},
    {C::scan, "recursive_doubling", "recursive_doubling"},
    {C::exscan, "recursive_doubling", "recursive_doubling"},
};

/// Broadcasts are hierarchical below this number of bytes.
constexpr std::uint64_t broadcast_by_nodes_below = 12288;
constexpr std::uint64_t broadcast_by_nodes_power_of_two_below = 524288;
constexpr int few_ranks = 8;

bool is_power_of_two(int ranks) { return power_of_two_below(ranks) == ranks; }

std::string_view flat_name(const LibraryCall& q) {
  for (const MpichRule& row : rows) {
    if (row.collective != q.collective) continue;
    if (row.below == power_of_two && !is_power_of_two(q.shape.size)) continue;
    if (row.below > 0 && q.shape.size >= row.below) continue;
    const auto ranks = static_cast<std::uint64_t>(q.shape.size);
    const std::string_view name = pick(row.algorithms, row.total ? q.bytes * ranks : q.bytes);
    // Fewer elements than the largest power of two of ranks: the vector can't be scattered.
    const bool little = q.bytes / 4 < static_cast<std::uint64_t>(power_of_two_below(q.shape.size));
    if (little && name == "reduce_scatter_allgather") return "recursive_doubling";
    if (little && name == "reduce_scatter_gather") return "binomial";
    return name;
  }
  return {};
}

LibraryChoice flat(const LibraryCall& q, PhaseScope scope) {
  const std::string_view theirs = flat_name(q);
  for (const MpichAlgorithm& name : names) {
    if (name.collective != q.collective || name.theirs != theirs) continue;
    LibraryChoice choice{std::string(theirs), {}, name.ours.starts_with('~')};
    const std::string_view ours = name.ours.substr(choice.similar ? 1 : 0);
    if (ours.starts_with("scatter+")) {
      const std::uint64_t block = q.bytes / static_cast<std::uint64_t>(q.shape.size);
      choice.phases = {{scope, C::scatter, block, "binomial"}, {scope, C::allgather, block, ours.substr(8)}};
    } else {
      choice.phases = {{scope, q.collective, q.bytes, ours}};
    }
    return choice;
  }
  return {"(no rule)", {}, false};
}

bool is_hierarchical(const LibraryCall& q) {
  switch (q.collective) {
    case C::barrier:
    case C::reduce:
    case C::allreduce: return true;
    case C::broadcast:
      return q.shape.size < few_ranks || q.bytes < broadcast_by_nodes_below ||
             (is_power_of_two(q.shape.size) && q.bytes < broadcast_by_nodes_power_of_two_below);
    default: return false;
  }
}

/// Within each node to its first rank, between the nodes' first ranks, then within each node from its first rank.
LibraryChoice hierarchical_choice(const LibraryCall& q) {
  const schedule::Shape leaders{q.shape.nodes(), 1};
  const bool up = q.collective != C::broadcast;
  const bool down = q.collective != C::reduce;
  LibraryChoice choice = flat({q.collective, q.bytes, leaders}, PhaseScope::leaders);
  const std::uint64_t bytes = q.collective == C::barrier ? 4 : q.bytes;
  if (up) choice.phases.insert(choice.phases.begin(), {PhaseScope::node, C::reduce, bytes, "binomial"});
  if (down) choice.phases.push_back({PhaseScope::node, C::broadcast, bytes, "binomial"});
  choice.theirs += " of nodes";
  choice.similar = true;  // on the node
  return choice;
}

}  // namespace

LibraryChoice mpich(const LibraryCall& question) {
  const bool several = question.shape.per_node > 1 && question.shape.size > 1;
  if (several && question.shape.nodes() == 1 && is_hierarchical(question)) {
    LibraryChoice choice{"release_gather", {}, true};  // in shared memory
    const std::uint64_t bytes = question.collective == C::barrier ? 4 : question.bytes;
    if (question.collective != C::broadcast) choice.phases.push_back({PhaseScope::all, C::reduce, bytes, "binomial"});
    if (question.collective != C::reduce) choice.phases.push_back({PhaseScope::all, C::broadcast, bytes, "binomial"});
    return choice;
  }
  if (several && is_hierarchical(question)) return hierarchical_choice(question);
  LibraryChoice choice = flat(question, PhaseScope::all);
  if (several && question.collective == C::scan) {  // hierarchical, since the ranks of a node are consecutive
    choice.theirs = "smp";
    choice.similar = true;
  }
  return choice;
}

}  // namespace hmc::sim::rules
