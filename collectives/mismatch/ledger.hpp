// Ledger: the last calls of a rank, readable by the other ranks of its node.
#pragma once

#include <atomic>
#include <cstdint>

#include "collectives/args/signature.hpp"

namespace hmc::collectives {

/// A rank that waits for no peer in a call, and computes afterwards, answers no questions. Ranks that have failed in
/// such a call read that rank's last calls here, in its part of the team's arena. One writer. All zeros: empty.
class Ledger {
 public:
  static constexpr std::uint64_t kept = 64;

  void add(std::uint64_t call, Signature signature) noexcept {
    // Both releases pair with the acquires in signature_of(). A thread that loads the signature also sees the previous
    // call's number, so it detects a reused entry. A thread that loads the number also sees the signature.
    std::atomic_ref(signatures_[call % kept]).store(signature.word(), std::memory_order_release);
    std::atomic_ref(calls_).store(call, std::memory_order_release);
  }

  /// Returns an empty signature if the call wasn't made or its entry was reused.
  Signature signature_of(std::uint64_t call) noexcept {
    if (call > calls()) return {};
    const Signature signature(std::atomic_ref(signatures_[call % kept]).load(std::memory_order_acquire));
    return call + kept > calls() + 1 ? signature : Signature();  // add() may be reusing the next call's entry
  }
  std::uint64_t calls() noexcept { return std::atomic_ref(calls_).load(std::memory_order_acquire); }

 private:
  alignas(64) std::uint64_t calls_ = 0;
  std::uint64_t signatures_[kept] = {};
};

}  // namespace hmc::collectives
