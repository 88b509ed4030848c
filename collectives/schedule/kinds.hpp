// The properties of each collective: one row per CollectiveKind, which checks, engines and hmc-verify read. Its name is
// in <hmc/types.hpp>.
#pragma once

#include <cstddef>
#include <cstdint>

#include <hmc/types.hpp>

namespace hmc::collectives {

/// What a rank's input or output holds. A block has `count` elements; in a v-form, the rank's own count.
enum class Holds : std::uint8_t {
  nothing,
  block,          ///< this rank's block, or the whole vector
  block_at_root,  ///< the root's; nothing on the other ranks
  blocks,         ///< a block for each rank, or from each rank
  blocks_at_root,
};

/// The ranks whose input a result consists of.
enum class Sources : std::uint8_t { all, root, up_to_itself, before_itself };

struct KindRow {
  CollectiveKind kind;
  Holds in, out;
  Sources sources;
};

inline constexpr KindRow kind_rows[] = {
    {CollectiveKind::barrier, Holds::nothing, Holds::nothing, Sources::all},
    {CollectiveKind::broadcast, Holds::block_at_root, Holds::block, Sources::root},
    {CollectiveKind::reduce, Holds::block, Holds::block_at_root, Sources::all},
    {CollectiveKind::allreduce, Holds::block, Holds::block, Sources::all},
    {CollectiveKind::gather, Holds::block, Holds::blocks_at_root, Sources::all},
    {CollectiveKind::scatter, Holds::blocks_at_root, Holds::block, Sources::root},
    {CollectiveKind::allgather, Holds::block, Holds::blocks, Sources::all},
    {CollectiveKind::alltoall, Holds::blocks, Holds::blocks, Sources::all},
    {CollectiveKind::reduce_scatter, Holds::blocks, Holds::block, Sources::all},
    {CollectiveKind::scan, Holds::block, Holds::block, Sources::up_to_itself},
    {CollectiveKind::exscan, Holds::block, Holds::block, Sources::before_itself},
};

constexpr const KindRow& row_of(CollectiveKind kind) noexcept { return kind_rows[static_cast<std::size_t>(kind)]; }
constexpr bool only_at_root(Holds holds) noexcept {
  return holds == Holds::block_at_root || holds == Holds::blocks_at_root;
}
constexpr bool are_blocks(Holds holds) noexcept { return holds == Holds::blocks || holds == Holds::blocks_at_root; }

/// The input holds a block for each rank.
constexpr bool has_blocks_in(CollectiveKind kind) noexcept { return are_blocks(row_of(kind).in); }
/// The output holds a block from each rank.
constexpr bool has_blocks_out(CollectiveKind kind) noexcept { return are_blocks(row_of(kind).out); }
/// Every rank needs data of every rank, or a sign of it.
constexpr bool synchronises(CollectiveKind kind) noexcept {
  return row_of(kind).sources == Sources::all && !only_at_root(row_of(kind).out);
}
/// The ranks below this one contribute to the result of `rank` in a reduction. 0 only on rank 0 of exscan, whose output
/// isn't written; a collective that doesn't reduce gives the team's size.
constexpr int contributions(CollectiveKind kind, int rank, int size) noexcept {
  const Sources sources = row_of(kind).sources;
  return sources == Sources::up_to_itself ? rank + 1 : sources == Sources::before_itself ? rank : size;
}

/// The rows are complete and in order, and <hmc/types.hpp> has the same properties.
constexpr bool has_row_per_kind() noexcept {
  if (sizeof kind_rows / sizeof *kind_rows != collective_count) return false;
  for (int i = 0; i < collective_count; ++i) {
    const auto kind = static_cast<CollectiveKind>(i);
    const KindRow& row = row_of(kind);
    if (row.kind != kind || has_root(kind) != (only_at_root(row.in) || only_at_root(row.out)) ||
        has_blocks(kind) != (are_blocks(row.in) || are_blocks(row.out)))
      return false;
  }
  return true;
}
static_assert(has_row_per_kind());

}  // namespace hmc::collectives
