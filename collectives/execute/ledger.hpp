// Ledger: the calls of a rank, where others of its node can read them.
#pragma once

#include <atomic>
#include <cstdint>

#include "collectives/args/signature.hpp"

namespace hmc::collectives {

/// A rank that has waited for nobody and computes now answers nothing. Its last calls stand here, in its part of the
/// team's arena, for those who have failed in one of them. One writer; zeros are an empty one.
class Ledger {
 public:
  static constexpr std::uint64_t kept = 64;

  void add(std::uint64_t call, Signature signature) noexcept {
    // Release, both: pair with the acquires in signature_of. Who sees the signature sees the number of the call before
    // it, and so that this place was about to be reused; who sees the number sees the signature.
    std::atomic_ref(signatures_[call % kept]).store(signature.word(), std::memory_order_release);
    std::atomic_ref(calls_).store(call, std::memory_order_release);
  }

  /// None: not called, or so long ago that the place is another call's.
  Signature signature_of(std::uint64_t call) noexcept {
    if (call > calls()) return {};
    const Signature signature(std::atomic_ref(signatures_[call % kept]).load(std::memory_order_acquire));
    return call + kept > calls() + 1 ? signature : Signature();  // the next call's place may be half reused
  }
  std::uint64_t calls() noexcept { return std::atomic_ref(calls_).load(std::memory_order_acquire); }

 private:
  alignas(64) std::uint64_t calls_ = 0;
  std::uint64_t signatures_[kept] = {};
};

}  // namespace hmc::collectives
