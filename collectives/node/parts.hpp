// The blocks of a call in which ranks read their peers' inputs: Roles (which ranks send and receive), Parts (positions
// and lengths), and the ring of chunks in a rank's staging. The owner fills the ring; the peers copy from it.
#pragma once

#include <algorithm>
#include <cstddef>

#include "collectives/args/collective_args.hpp"
#include "collectives/node/direct_team.hpp"
#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives {

/// Its switches name every kind, so that the compiler finds them for a new one.
struct Roles {
  CollectiveKind collective;
  int rank;
  int size;
  int root;

  bool is_root() const noexcept { return rank == root; }
  bool is_prefix() const noexcept { return collective == CollectiveKind::scan || collective == CollectiveKind::exscan; }

  /// The input holds a block for each rank.
  static bool has_parts_in(CollectiveKind collective) noexcept {
    return collective == CollectiveKind::scatter || collective == CollectiveKind::alltoall ||
           collective == CollectiveKind::reduce_scatter;
  }
  /// The output holds a block from each rank.
  static bool has_parts_out(CollectiveKind collective) noexcept {
    return collective == CollectiveKind::gather || collective == CollectiveKind::allgather ||
           collective == CollectiveKind::alltoall;
  }

  bool gives() const noexcept {
    switch (collective) {
      case CollectiveKind::gather:
      case CollectiveKind::reduce: return !is_root();
      case CollectiveKind::scatter: return is_root();
      case CollectiveKind::scan:
      case CollectiveKind::exscan: return rank < size - 1;
      case CollectiveKind::barrier:
      case CollectiveKind::broadcast:
      case CollectiveKind::allreduce:
      case CollectiveKind::allgather:
      case CollectiveKind::alltoall:
      case CollectiveKind::reduce_scatter: break;
    }
    return size > 1;
  }
  bool has_result() const noexcept {
    switch (collective) {
      case CollectiveKind::gather:
      case CollectiveKind::reduce: return is_root();
      case CollectiveKind::exscan: return rank > 0;
      case CollectiveKind::barrier:
      case CollectiveKind::broadcast:
      case CollectiveKind::allreduce:
      case CollectiveKind::scatter:
      case CollectiveKind::allgather:
      case CollectiveKind::alltoall:
      case CollectiveKind::reduce_scatter:
      case CollectiveKind::scan: break;
    }
    return true;
  }
  bool takes_from(int peer) const noexcept {
    if (peer == rank || !has_result()) return false;
    switch (collective) {
      case CollectiveKind::scatter: return peer == root;
      case CollectiveKind::scan:
      case CollectiveKind::exscan: return peer < rank;
      case CollectiveKind::barrier:
      case CollectiveKind::broadcast:
      case CollectiveKind::reduce:
      case CollectiveKind::allreduce:
      case CollectiveKind::gather:
      case CollectiveKind::allgather:
      case CollectiveKind::alltoall:
      case CollectiveKind::reduce_scatter: break;
    }
    return true;
  }
  bool takes_from_all() const noexcept { return collective != CollectiveKind::scatter && !is_prefix(); }
  /// True if an in-place call overwrites input that other ranks read.
  bool overwrites_input() const noexcept { return collective == CollectiveKind::alltoall || reduces(collective); }
};

/// A buffer holds one block per rank or a single block. Normally all blocks have the same length and are contiguous. In
/// a v-form the caller sets the lengths and the displacements.
class Parts {
 public:
  Parts(DirectTeam& team, const CollectiveArgs& args) noexcept
      : call_(args.call),
        rank_(static_cast<std::size_t>(team.rank())),
        element_(call_.element_bytes),
        irregular_(call_.irregular()),
        parts_in_(Roles::has_parts_in(call_.collective)),
        parts_out_(Roles::has_parts_out(call_.collective)),
        block_(irregular_ ? 0 : args.bytes()) {
    if (!irregular_) return;
    const bool all_to_all = call_.collective == CollectiveKind::alltoall;
    received_ = all_to_all ? call_.receive_counts : call_.counts;
    if (parts_in_) in_begins_ = lay_out(call_.counts, call_.displacements, team.in_begins);
    if (parts_out_)
      out_begins_ = lay_out(received_, all_to_all ? call_.receive_displacements : call_.displacements, team.out_begins);
    for (std::size_t i = 0; i < call_.counts.size(); ++i)
      block_ = std::max({block_, call_.counts[i] * element_, received_[i] * element_});
  }

  bool irregular() const noexcept { return irregular_; }
  /// The largest block; in alltoallv, the largest that this rank sends or receives.
  std::size_t block() const noexcept { return block_; }
  /// The input's block for rank `to`.
  std::size_t in_begin(std::size_t to) const noexcept { return begin(parts_in_, in_begins_, to); }
  std::size_t in_bytes(std::size_t to) const noexcept {
    return irregular_ ? call_.counts[parts_in_ ? to : rank_] * element_ : block_;
  }
  /// The output's block from rank `from`.
  std::size_t out_begin(std::size_t from) const noexcept { return begin(parts_out_, out_begins_, from); }
  std::size_t out_bytes(std::size_t from) const noexcept {
    return irregular_ ? received_[parts_out_ ? from : rank_] * element_ : block_;
  }
  /// Positions of the blocks; null if not a v-form, or if the buffer holds a single block.
  const std::size_t* in_begins() const noexcept { return in_begins_; }
  const std::size_t* out_begins() const noexcept { return out_begins_; }
  /// Input and output have their blocks at the same positions.
  bool same_layout() const noexcept {
    for (std::size_t i = 0; i < call_.counts.size() && irregular_; ++i)
      if (in_begin(i) != out_begin(i) || in_bytes(i) != out_bytes(i)) return false;
    return true;
  }

 private:
  using Numbers = std::span<const std::uint64_t>;

  std::size_t begin(bool has_parts, const std::size_t* begins, std::size_t part) const noexcept {
    if (!has_parts) return 0;
    return begins != nullptr ? begins[part] : part * block_;
  }
  const std::size_t* lay_out(Numbers counts, Numbers displacements, std::vector<std::size_t>& begins) const noexcept {
    std::size_t next = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      // The displacement of an empty block may be any value.
      begins[i] = counts[i] == 0 ? 0 : displacements.empty() ? next : displacements[i] * element_;
      next += counts[i] * element_;
    }
    return begins.data();
  }

  const schedule::Call& call_;
  std::size_t rank_;
  std::size_t element_;
  bool irregular_;
  bool parts_in_;
  bool parts_out_;
  std::size_t block_;
  Numbers received_;
  const std::size_t* in_begins_ = nullptr;
  const std::size_t* out_begins_ = nullptr;
};

inline constexpr std::size_t ring_slots = 4;

/// Upper limit of a chunk: small enough that writer and readers overlap, large enough that the cost of the flags is
/// negligible.
constexpr std::size_t staged_at_once(std::size_t block) noexcept {
  return block <= std::size_t{128} << 10 ? std::size_t{32} << 10 : std::size_t{64} << 10;
}

/// With smaller chunks the waits cost more than a schedule of the network engine.
inline constexpr std::size_t least_chunk = 1024;

inline std::size_t parts_of(const DirectTeam& team, CollectiveKind collective) noexcept {
  return Roles::has_parts_in(collective) ? static_cast<std::size_t>(team.size()) : 1;
}

constexpr std::size_t slot_stride(std::size_t parts) noexcept { return slot_bytes / parts / 8 * 8; }

/// Bytes of a chunk. A slot of the ring holds one chunk of each part. A chunk is a multiple of a line and, in
/// reductions, of an element.
inline std::size_t chunk_of(const DirectTeam& team, const schedule::Call& call, std::size_t block) noexcept {
  const std::size_t parts = parts_of(team, call.collective);
  const std::size_t element = reduces(call.collective) ? call.element_bytes : 1;
  const std::size_t most = std::min(team.staging_bytes() / ring_slots / parts, staged_at_once(block));
  return most / line_bytes * line_bytes / element * element;
}

/// True if the ring is efficient for a block that doesn't fit a slot. All ranks get the same result.
inline bool fits_ring(const DirectTeam& team, const schedule::Call& call, std::size_t block) noexcept {
  const std::size_t chunk = chunk_of(team, call, block);
  return chunk >= std::min(block, least_chunk) && block / chunk < DirectTeam::too_many_steps - 1;
}

}  // namespace hmc::collectives
