// Open MPI 4.1.4, coll/tuned, fixed decisions for commutative operations.
//
// Source of the facts: github.com/open-mpi/ompi, tag v4.1.4, ompi/mca/coll/tuned/coll_tuned_decision_fixed.c. Fallbacks
// of algorithms for little data: ompi/mca/coll/base/coll_base_{allreduce,bcast,allgather,reduce}.c. Segment size 0
// there, so pipelines have one segment and the segmented ring equals the ring.
#include <array>
#include <span>

#include "sim/rules/rules.hpp"

namespace hmc::sim::rules {

namespace {

using C = CollectiveKind;

constexpr int any = 0;

/// For fewer ranks than `below`: algorithm numbers, each used below its bound in bytes.
struct OpenMpiRule {
  C collective;
  int below;
  std::string_view algorithms;
};

constexpr OpenMpiRule rows[] = {
    {C::barrier, 4, "3"},
    {C::barrier, 8, "1"},
    {C::barrier, 64, "3"},
    {C::barrier, 256, "4"},
    {C::barrier, 512, "6"},
    {C::barrier, 1024, "4"},
    {C::barrier, 4096, "6"},
    {C::barrier, any, "4"},

    {C::broadcast, 4, "3 <32, 5 <256, 3 <512, 7 <1024, 1 <32768, 5 <131072, 2 <262144, 1 <524288, 6 <1048576, 5"},
    {C::broadcast, 8, "5 <64, 6 <128, 5 <2048, 6 <8192, 1 <1048576, 2"},
    {C::broadcast, 16, "7 <8, 5 <64, 7 <4096, 5 <16384, 6 <32768, 1"},
    {C::broadcast, 32, "7 <4096, 6 <1048576, 8"},
    {C::broadcast, 64, "6 <2048, 7"},
    {C::broadcast, 128, "7"},
    {C::broadcast, 256, "6 <2, 5 <16384, 1 <32768, 5 <65536, 7"},
    {C::broadcast, 1024, "7 <16384, 4 <32768, 7"},
    {C::broadcast, 2048, "7 <524288, 8"},
    {C::broadcast, 4096, "7 <262144, 8"},
    {C::broadcast, any, "7 <8192, 5 <16384, 7 <262144, 8"},

    {C::reduce, 4, "7 <8, 4 <16, 3 <32, 1 <262144, 3 <524288, 2 <1048576, 3"},
    {C::reduce, 8, "4 <4096, 2 <65536, 5 <262144, 1 <524288, 5 <1048576, 1"},
    {C::reduce, 16, "4 <8192, 5"},
    {C::reduce, 32, "4 <4096, 5"},
    {C::reduce, 256, "5"},
    {C::reduce, 512, "5 <8192, 6 <16384, 5"},
    {C::reduce, 2048, "5"},
    {C::reduce, 4096, "5 <512, 6 <1024, 5 <8192, 6 <16384, 5"},
    {C::reduce, any, "5 <16, 6 <32, 5 <1024, 6 <2048, 5 <8192, 6 <16384, 5"},

    {C::allreduce, 4, "4 <8, 3 <4096, 4 <8192, 3 <16384, 4 <65536, 5 <262144, 6"},
    {C::allreduce, 8, "4 <16, 3 <8192, 6"},
    {C::allreduce, 16, "3 <8192, 6"},
    {C::allreduce, 32, "5 <64, 3 <4096, 6"},
    {C::allreduce, 64, "5 <128, 6"},
    {C::allreduce, 128, "3 <262144, 6"},
    {C::allreduce, 256, "2 <131072, 3 <262144, 6"},
    {C::allreduce, 512, "2 <4096, 6"},
    {C::allreduce, 2048, "2 <2048, 3 <16384, 6"},
    {C::allreduce, 4096, "2 <2048, 5 <4096, 3 <16384, 6"},
    {C::allreduce, any, "2 <2048, 5 <16384, 3 <32768, 6"},

    {C::gather, 4, "3 <2, 1 <4, 2 <32768, 1 <65536, 2 <131072, 3"},
    {C::gather, 8, "2 <1024, 1 <8192, 2 <32768, 1 <262144, 3"},
    {C::gather, 256, "2"},
    {C::gather, 512, "2 <2048, 1 <8192, 2"},
    {C::gather, any, "2"},

    {C::scatter, 4, "3 <2, 1 <131072, 3 <262144, 1"},
    {C::scatter, 8, "2 <2048, 1 <4096, 2 <8192, 1 <32768, 3 <1048576, 1"},
    {C::scatter, 16, "2 <16384, 3 <1048576, 1"},
    {C::scatter, 32, "2 <16384, 1 <32768, 3"},
    {C::scatter, 64, "2 <512, 3 <8192, 2 <16384, 3"},
    {C::scatter, any, "2 <512, 3"},

    {C::allgather, 3, "6"},
    {C::allgather, 32, "3"},
    {C::allgather, 64, "3 <1024, 5 <65536, 4"},
    {C::allgather, 128, "3 <512, 5 <65536, 4"},
    {C::allgather, 256, "3 <512, 5 <131072, 4 <524288, 5 <1048576, 4"},
    {C::allgather, 512, "3 <32, 2 <128, 3 <1024, 5 <131072, 4 <524288, 5 <1048576, 4"},
    {C::allgather, 1024, "3 <64, 2 <256, 3 <2048, 5"},
    {C::allgather, 2048, "3 <4, 2 <8, 3 <16, 2 <32, 3 <256, 2 <512, 3 <4096, 5"},
    {C::allgather, 4096, "2 <32, 3 <128, 2 <512, 3 <4096, 5"},
    {C::allgather, any, "3 <2, 2 <8, 3 <16, 2 <512, 3 <4096, 5"},

    {C::alltoall, 3, "2 <2, 5 <4, 2 <16, 5 <64, 2 <256, 5 <4096, 2 <32768, 4 <262144, 5 <1048576, 2"},
    {C::alltoall, 8, "4 <8192, 1 <16384, 4 <65536, 1 <524288, 2 <1048576, 1"},
    {C::alltoall, 16, "4 <262144, 1"},
    {C::alltoall, 32, "4 <4, 3 <512, 4 <8192, 1 <32768, 4 <262144, 1 <524288, 4"},
    {C::alltoall, 64, "3 <512, 1 <524288, 4"},
    {C::alltoall, 128, "3 <1024, 1 <2048, 4 <4096, 1 <262144, 2"},
    {C::alltoall, 256, "3 <1024, 4 <2048, 1 <262144, 2"},
    {C::alltoall, 512, "3 <1024, 4 <8192, 1 <32768, 2"},
    {C::alltoall, 1024, "3 <512, 4 <8192, 1 <16384, 4 <131072, 1 <262144, 2"},
    {C::alltoall, 2048, "3 <512, 4 <1024, 1 <2048, 4 <16384, 1 <262144, 4"},
    {C::alltoall, 4096, "3 <1024, 4 <4096, 1 <8192, 4 <131072, 1"},
    {C::alltoall, any, "3 <2048, 4 <8192, 1 <16384, 4 <32768, 1 <65536, 4"},

    // MPI_Reduce_scatter_block
    {C::reduce_scatter, 4, "2 <4, 4 <8, 3 <16, 4 <128, 3 <256, 4 <4096, 3 <8192, 4 <131072, 1"},
    {C::reduce_scatter, 8, "3 <8, 2 <32, 4 <256, 3 <8192, 4 <16384, 3 <1048576, 1"},
    {C::reduce_scatter, 16, "1 <4, 3 <32, 4 <128, 3 <524288, 1 <4194304, 4"},
    {C::reduce_scatter, 32, "1 <32, 3 <524288, 1 <2097152, 3 <4194304, 4"},
    {C::reduce_scatter, any, "3 <4, 1 <16, 4 <65536, 1 <262144, 4"},
};

/// Algorithm `number` of a collective, and the equal HMC algorithm or a similar one ("~"). Empty: none.
struct OpenMpiAlgorithm {
  C collective;
  char number;
  std::string_view theirs;
  std::string_view ours;
};

constexpr OpenMpiAlgorithm names[] = {
    {C::barrier, '1', "linear", ""},
    {C::barrier, '2', "double_ring", ""},
    {C::barrier, '3', "recursive_doubling", "~dissemination"},
    {C::barrier, '4', "bruck", "dissemination"},
    {C::barrier, '5', "two_proc", "dissemination"},
    {C::barrier, '6', "tree", "~tree"},
    {C::broadcast, '1', "basic_linear", ""},
    {C::broadcast, '2', "chain", ""},
    {C::broadcast, '3', "pipeline", ""},
    {C::broadcast, '4', "split_binary_tree", ""},
    {C::broadcast, '5', "binary_tree", "~binomial"},
    {C::broadcast, '6', "binomial", "binomial"},
    {C::broadcast, '7', "knomial", "~binomial"},
    {C::broadcast, '8', "scatter_allgather", "~scatter+bruck"},
    {C::broadcast, '9', "scatter_allgather_ring", "scatter+ring"},
    {C::reduce, '1', "linear", ""},
    {C::reduce, '2', "chain", ""},
    {C::reduce, '3', "pipeline", ""},
    {C::reduce, '4', "binary", "~binomial"},
    {C::reduce, '5', "binomial", "binomial"},
    {C::reduce, '6', "in-order_binary", "~binomial"},
    {C::reduce, '7', "rabenseifner", "rabenseifner"},
    {C::allreduce, '1', "basic_linear", ""},
    {C::allreduce, '2', "nonoverlapping", "reduce+broadcast"},
    {C::allreduce, '3', "recursive_doubling", "recursive_doubling"},
    {C::allreduce, '4', "ring", "ring"},
    {C::allreduce, '5', "segmented_ring", "ring"},
    {C::allreduce, '6', "rabenseifner", "rabenseifner"},
    {C::gather, '1', "basic_linear", "linear"},
    {C::gather, '2', "binomial", "binomial"},
    {C::gather, '3', "linear_sync", "~linear"},
    {C::scatter, '1', "basic_linear", "linear"},
    {C::scatter, '2', "binomial", "binomial"},
    {C::scatter, '3', "linear_nb", "~linear"},
    {C::allgather, '1', "linear", ""},
    {C::allgather, '2', "bruck", "bruck"},
    {C::allgather, '3', "recursive_doubling", "~bruck"},
    {C::allgather, '4', "ring", "ring"},
    {C::allgather, '5', "neighbor", "~ring"},
    {C::allgather, '6', "two_proc", "bruck"},
    {C::alltoall, '1', "linear", "~pairwise"},
    {C::alltoall, '2', "pairwise", "pairwise"},
    {C::alltoall, '3', "modified_bruck", "bruck"},
    {C::alltoall, '4', "linear_sync", "~pairwise"},
    {C::alltoall, '5', "two_proc", "pairwise"},
    {C::reduce_scatter, '1', "basic_linear", "reduce+scatter"},
    {C::reduce_scatter, '2', "recursive_doubling", ""},
    {C::reduce_scatter, '3', "recursive_halving", "~pat"},
    {C::reduce_scatter, '4', "butterfly", "~pat"},
};

/// The fallback of an algorithm if there are fewer elements than ranks.
char fallback_for_few_elements(C collective, char number, std::uint64_t count, int ranks) {
  const auto all = static_cast<std::uint64_t>(ranks);
  const auto power = static_cast<std::uint64_t>(power_of_two_below(ranks));
  if (collective == C::allreduce && (number == '4' || number == '5') && count < all) return '3';
  if (collective == C::allreduce && number == '6' && count < power) return '1';
  if (collective == C::broadcast && (number == '8' || number == '9') && count < all) return '1';
  if (collective == C::reduce && number == '7' && count < power) return '1';
  if (collective == C::allgather && number == '5' && ranks % 2 != 0) return '4';
  return number;
}

char number_for(const LibraryCall& question) {
  for (const OpenMpiRule& row : rows) {
    if (row.collective != question.collective) continue;
    if (row.below != any && question.shape.size >= row.below) continue;
    const char number = pick(row.algorithms, question.bytes).front();
    return fallback_for_few_elements(question.collective, number, question.bytes / 4, question.shape.size);
  }
  return 0;
}

/// `parts` in sequence, each with the algorithm that Open MPI would choose.
void append(LibraryChoice& choice, const LibraryCall& part) {
  const LibraryChoice chosen = openmpi(part);
  choice.theirs += (choice.phases.empty() ? " of " : " and ") + chosen.theirs;
  choice.phases.insert(choice.phases.end(), chosen.phases.begin(), chosen.phases.end());
  choice.similar = choice.similar || chosen.similar;
}

void append_both(LibraryChoice& choice, const LibraryCall& first, const LibraryCall& second) {
  if (openmpi(first).phases.empty() || openmpi(second).phases.empty()) return;
  append(choice, first);
  append(choice, second);
}

void add_phases(LibraryChoice& choice, std::string_view ours, const LibraryCall& q) {
  const std::uint64_t block = q.bytes / static_cast<std::uint64_t>(q.shape.size);
  const auto with = [&](C collective, std::uint64_t bytes) { return LibraryCall{collective, bytes, q.shape}; };
  if (ours == "reduce+broadcast") {
    append_both(choice, with(C::reduce, q.bytes), with(C::broadcast, q.bytes));
  } else if (ours == "reduce+scatter") {
    const std::uint64_t whole = q.bytes * static_cast<std::uint64_t>(q.shape.size);
    append_both(choice, with(C::reduce, whole), with(C::scatter, q.bytes));
  } else if (ours.starts_with("scatter+")) {
    choice.phases = {{PhaseScope::all, C::scatter, block, "binomial"},
                     {PhaseScope::all, C::allgather, block, ours.substr(8)}};
  } else if (ours == "tree") {
    choice.phases = {{PhaseScope::all, C::reduce, 4, "binomial"}, {PhaseScope::all, C::broadcast, 4, "binomial"}};
  } else if (!ours.empty()) {
    choice.phases = {{PhaseScope::all, q.collective, q.bytes, ours}};
  }
}

}  // namespace

LibraryChoice openmpi(const LibraryCall& question) {
  const char number = number_for(question);
  for (const OpenMpiAlgorithm& name : names) {
    if (name.collective != question.collective || name.number != number) continue;
    LibraryChoice choice{std::string(name.theirs), {}, name.ours.starts_with('~')};
    add_phases(choice, name.ours.substr(choice.similar ? 1 : 0), question);
    return choice;
  }
  return {"(no fixed rule)", {}, false};
}

}  // namespace hmc::sim::rules
