// The table of preferences: a first answer, until costs are measured.
#pragma once

#include <cstdint>
#include <string_view>

#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives {

/// For calls of up to `bytes` (of the vector, or of one rank's block) on up to `ranks`. The first row that
/// holds, whose algorithm is there and applies, is taken.
struct Preference {
  schedule::Collective collective;
  std::uint64_t bytes;
  int ranks;
  std::string_view algorithm;
};

inline constexpr std::uint64_t any_bytes = UINT64_MAX;
inline constexpr int any_ranks = INT32_MAX;

using C = schedule::Collective;
inline constexpr std::uint64_t kib = 1024;

inline constexpr Preference preferences[] = {
    {C::barrier, any_bytes, any_ranks, "dissemination"},

    {C::broadcast, 16 * kib, any_ranks, "binomial"},
    {C::broadcast, any_bytes, 2, "binomial"},
    {C::broadcast, any_bytes, any_ranks, "double_tree"},

    {C::reduce, 16 * kib, any_ranks, "binomial"},
    {C::reduce, any_bytes, any_ranks, "rabenseifner"},

    {C::allreduce, 4 * kib, any_ranks, "recursive_doubling"},
    {C::allreduce, any_bytes, any_ranks, "rabenseifner"},

    {C::gather, 4 * kib, any_ranks, "binomial"},
    {C::gather, any_bytes, any_ranks, "linear"},
    {C::scatter, 4 * kib, any_ranks, "binomial"},
    {C::scatter, any_bytes, any_ranks, "linear"},

    {C::allgather, 4 * kib, any_ranks, "bruck"},
    {C::allgather, any_bytes, any_ranks, "ring"},

    {C::alltoall, 256, any_ranks, "bruck"},
    {C::alltoall, any_bytes, any_ranks, "pairwise"},

    {C::reduce_scatter, 4 * kib, any_ranks, "pat"},
    {C::reduce_scatter, any_bytes, any_ranks, "ring"},
    {C::reduce_scatter, any_bytes, any_ranks, "fold"},

    {C::scan, any_bytes, any_ranks, "recursive_doubling"},
    {C::exscan, any_bytes, any_ranks, "recursive_doubling"},
};

}  // namespace hmc::collectives
