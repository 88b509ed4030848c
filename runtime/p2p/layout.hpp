// Layout: one rank's memory for messages, a part of the world's window. The memory is allocated at its first use.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "runtime/base/status.hpp"

namespace hmc::p2p {

/// The receiver's memory per message in addition to its bytes. Messages of 0 bytes must be bounded too.
inline constexpr std::uint64_t message_cost = 64;

/// A word that this rank and a peer access.
inline std::atomic_ref<std::uint64_t> word(std::byte* at) noexcept {
  return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(at));
}

/// Offsets in a rank's part. The same on every rank: they depend on the job's size only.
///  - a word per sender, which the sender sets before its first message. So unused rings stay untouched.
///  - a line per peer, which that peer writes: see PairLine
///  - slots for large messages from other nodes, with a signal word per slot
///  - a ring per sender
class Layout {
 public:
  static constexpr std::size_t line_bytes = 64;
  static constexpr int slots = 4;
  static constexpr std::size_t slot_bytes = std::size_t{256} << 10;

  /// `one_node`: true if all ranks are on one node. Otherwise an RDMA device pins the memory, so rings are smaller.
  Layout(int size, bool one_node) noexcept : ranks_(static_cast<std::uint64_t>(size)) {
    constexpr std::uint64_t kib = 1024;
    const std::uint64_t budget = (one_node ? 8192 : 1024) * kib / ranks_;
    // Ranks that share a core move a ring's bytes per context switch.
    ring_bytes_ = std::bit_floor(std::clamp(budget, 4 * kib, (one_node ? 256 : 64) * kib));
  }

  std::size_t ring_bytes() const noexcept { return ring_bytes_; }
  std::uint64_t announcement(int sender) const noexcept { return static_cast<std::uint64_t>(sender) * 8; }
  std::uint64_t line(int peer) const noexcept { return lines_at() + static_cast<std::uint64_t>(peer) * line_bytes; }
  std::uint64_t slot_signal(int slot) const noexcept { return signals_at() + static_cast<std::uint64_t>(slot) * 64; }
  std::uint64_t slot(int slot) const noexcept { return slots_at() + static_cast<std::uint64_t>(slot) * slot_bytes; }
  std::uint64_t ring(int sender) const noexcept {
    return slots_at() + slots * slot_bytes + static_cast<std::uint64_t>(sender) * ring_bytes_;
  }
  std::uint64_t bytes() const noexcept { return ring(0) + ranks_ * ring_bytes_; }

 private:
  static constexpr std::uint64_t page = 4096;
  std::uint64_t lines_at() const noexcept { return (ranks_ * 8 + 63) / 64 * 64; }
  std::uint64_t signals_at() const noexcept { return lines_at() + ranks_ * line_bytes; }
  std::uint64_t slots_at() const noexcept { return (signals_at() + slots * 64 + page - 1) / page * page; }

  std::uint64_t ranks_;
  std::uint64_t ring_bytes_;
};

/// The words that one peer writes in this rank's part.
struct PairLine {
  std::uint64_t consumed;  ///< bytes of this rank's ring at the peer that the peer has consumed; written last
  std::uint64_t matched;   ///< cost of this rank's eager messages that the peer's receives have matched
  std::uint64_t revoked;   ///< not 0: a send of the peer has failed, and its buffer may have changed; see Revocation
};
static_assert(sizeof(PairLine) <= Layout::line_bytes);

/// The value of PairLine::revoked: a timeout of the send, or the failure of the job that has ended it.
struct Revocation {
  static std::uint64_t word_of(const base::Status& failure) noexcept {
    if (failure.code != Code::peer_failed && failure.code != Code::aborted) return timed_out;
    return std::uint64_t{static_cast<std::uint32_t>(failure.peer + 1)} << 32 | static_cast<std::uint64_t>(failure.code)
                                                                                   << 1;
  }
  /// `sender`: of the revoked send.
  static base::Status status_of(std::uint64_t word, int sender) noexcept {
    if (word == 0) return {};
    if (word == timed_out)
      return base::Status::failure(Code::error, "an earlier send of the rank has timed out", sender);
    return base::Status::failure(static_cast<Code>(static_cast<std::uint32_t>(word) >> 1),
                                 "another rank has reported its failure", static_cast<int>(word >> 32) - 1);
  }
  static constexpr std::uint64_t timed_out = 1;
};

}  // namespace hmc::p2p
