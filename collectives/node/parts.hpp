// Parts: displacements and lengths, in bytes, of a call's blocks in this rank's buffers.
#pragma once

#include <algorithm>
#include <cstddef>

#include "collectives/args/collective_args.hpp"
#include "collectives/node/direct_team.hpp"
#include "collectives/node/roles.hpp"

namespace hmc::collectives {

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
    const bool all_to_all = call_.collective == schedule::Collective::alltoall;
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

}  // namespace hmc::collectives
