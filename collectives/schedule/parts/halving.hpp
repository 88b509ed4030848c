// Recursive halving and doubling over a group (Rabenseifner; Swing with other partners): in each round a member
// exchanges half of its range with a partner and reduces the other half, until it has the sum of its slice. Then the
// rounds run backwards with copies, to all members or to the root. 2 log2 N rounds; each member sends about two
// vectors.
//
// Any group size: see Clusters. The received range becomes its new sum, so no buffer in flight is written.
#pragma once

#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/parts/group.hpp"

namespace hmc::collectives::schedule {

/// The partner of a member and the half that the member keeps. In round s, partners have kept the same halves so far.
struct HalvingPartners {
  int (*partner)(int number, int round, int size);
  bool (*keeps_upper)(int number, int round, int rounds);
  /// The cost of one round in which every member exchanges `bytes`. `every`: ranks per member.
  void (*cost)(CriticalPath& path, int round, double every, double bytes);
};
/// Partners differ in bit s. Combined ranges of ranks are neighbours, so order is kept.
extern const HalvingPartners bit_partners;

/// Reduces `count` elements from `from`, with the scaled result at `to` on all members. Puts from `from` may be in
/// flight at the end.
void allreduce_halving_in(GroupBuilder& x, const HalvingPartners& partners, Operand from, Operand to,
                          std::uint64_t count);
/// The same with the result only at the root. Uses bit_partners.
void reduce_halving_in(GroupBuilder& x, int root, Operand from, Operand to, std::uint64_t count);
ScratchSize halving_size(int size, std::uint64_t count, std::uint32_t element_bytes);

/// The costs over the whole team. cost_of_halving: the rounds that reduce.
void cost_of_allreduce_halving(CriticalPath& path, double bytes, const HalvingPartners& partners);
void cost_of_halving(CriticalPath& path, double members, double bytes, const HalvingPartners& partners);

}  // namespace hmc::collectives::schedule
