// RoundTeam: a team of which some pair needs a wire. Everything is rounds of put_signal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/signature.hpp"
#include "runtime/base/status.hpp"
#include "runtime/window/core.hpp"

namespace hmc::collectives {

/// In a round every rank puts one message (maybe empty) and a signal to every other, and waits for all
/// of theirs. Each rank has two slots per peer, used in turn: a slot of round t may be written again in
/// t+2, because who writes then has seen the reader's signal of t+1, sent after it was done with t.
/// Correct for any wires and sizes, and O(N^2) messages: schedules will replace it.
class RoundTeam {
 public:
  explicit RoundTeam(window::TeamCore& team);
  void close();

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  window::Fabric& fabric() const noexcept { return fabric_; }
  std::size_t slot_bytes() const noexcept { return slot_bytes_; }

  base::Status begin(Signature signature) noexcept;
  /// `message_for(peer)` gives what goes to a peer: at most slot_bytes().
  template <typename MessageFor> base::Status round(MessageFor&& message_for) noexcept {
    ++round_;
    for (int i = 1; i < size_; ++i) {
      const int peer = (rank_ + i) % size_;
      if (const base::Status status = send(peer, message_for(peer)); !status.ok()) return fail(status);
    }
    return wait_all();
  }
  /// The present round's message from a peer; valid until I begin the next round.
  const std::byte* received(int peer) const noexcept;

  base::Status fail(const base::Status& status) noexcept;
  const base::Status& failure() const noexcept { return failure_; }
  Signature signature_of(int rank) const noexcept;

  std::vector<std::byte> buffer;  ///< a message's or a result's scratch
  std::vector<const void*> ins;
  std::vector<std::byte> scratch;

 private:
  std::uint64_t slot_offset(int source) const noexcept;
  std::uint64_t signal_offset(int source) const noexcept;
  base::Status send(int peer, std::span<const std::byte> message) noexcept;
  base::Status wait_all() noexcept;

  window::Fabric& fabric_;
  int rank_;
  int size_;
  std::size_t slot_bytes_;
  std::uint64_t round_ = 0;
  Signature signature_;
  base::Status failure_;
  std::shared_ptr<window::Core> arena_;
  std::vector<std::byte> message_;
};

}  // namespace hmc::collectives
