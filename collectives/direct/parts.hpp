// Parts: where the blocks of a call lie in a rank's buffers, and how long they are. In bytes.
#pragma once

#include <algorithm>
#include <cstddef>

#include "collectives/args/collective_args.hpp"
#include "collectives/direct/direct_team.hpp"
#include "collectives/direct/roles.hpp"

namespace hmc::collectives {

/// A side of a call is a block per rank, or one of this rank's own. Blocks are all of one length, one after the other;
/// those of a v-form as its caller says.
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
  /// The largest; of alltoallv, the largest that this rank has to do with.
  std::size_t block() const noexcept { return block_; }
  /// Of the input, what goes to rank `to`.
  std::size_t in_begin(std::size_t to) const noexcept { return begin(parts_in_, in_begins_, to); }
  std::size_t in_bytes(std::size_t to) const noexcept {
    return irregular_ ? call_.counts[parts_in_ ? to : rank_] * element_ : block_;
  }
  /// Of the output, what comes from rank `from`.
  std::size_t out_begin(std::size_t from) const noexcept { return begin(parts_out_, out_begins_, from); }
  std::size_t out_bytes(std::size_t from) const noexcept {
    return irregular_ ? received_[parts_out_ ? from : rank_] * element_ : block_;
  }
  /// Where the blocks of a side begin, of a v-form that has such.
  const std::size_t* in_begins() const noexcept { return in_begins_; }
  const std::size_t* out_begins() const noexcept { return out_begins_; }
  /// Both sides have their blocks at the same places.
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
      // A caller may say anything of where nothing lies.
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
