// The blocks of a call in which ranks read their peers' inputs: Roles (which ranks send and receive), Parts (positions
// and lengths), and the ring of chunks in a rank's staging. The owner fills the ring; the peers copy from it.
#pragma once

#include <algorithm>
#include <cstddef>

#include "collectives/args/collective_args.hpp"
#include "collectives/node/direct_team.hpp"
#include "collectives/schedule/kinds.hpp"
#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives {

/// The part of this rank in a call, by the properties of its kind.
struct Roles {
  CollectiveKind collective;
  int rank;
  int size;
  int root;

  bool is_root() const noexcept { return rank == root; }
  Sources sources() const noexcept { return row_of(collective).sources; }
  /// Another rank needs this rank's input.
  bool gives() const noexcept {
    if (only_at_root(row_of(collective).out)) return !is_root();
    switch (sources()) {
      case Sources::root: return is_root();
      case Sources::up_to_itself:
      case Sources::before_itself: return rank < size - 1;
      case Sources::all: break;
    }
    return size > 1;
  }
  bool has_result() const noexcept {
    if (only_at_root(row_of(collective).out)) return is_root();
    return sources() != Sources::before_itself || rank > 0;
  }
  bool takes_from(int peer) const noexcept { return peer != rank && has_result() && is_source(peer); }
  /// This rank's input is a part of its own result.
  bool takes_own() const noexcept { return has_result() && is_source(rank); }
  bool takes_from_all() const noexcept { return sources() == Sources::all; }
  /// True if an in-place call overwrites input that other ranks read.
  bool overwrites_input() const noexcept {
    return reduces(collective) || (has_blocks_in(collective) && has_blocks_out(collective));
  }

 private:
  bool is_source(int peer) const noexcept {
    switch (sources()) {
      case Sources::root: return peer == root;
      case Sources::up_to_itself: return peer <= rank;
      case Sources::before_itself: return peer < rank;
      case Sources::all: break;
    }
    return true;
  }
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
        parts_in_(has_blocks_in(call_.collective)),
        parts_out_(has_blocks_out(call_.collective)),
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
  return has_blocks_in(collective) ? static_cast<std::size_t>(team.size()) : 1;
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
