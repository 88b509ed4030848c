// Report: what a rank tells all others when it gives up.
#pragma once

#include <cstdint>

#include <hmc/error.hpp>

#include "collectives/args/signature.hpp"

namespace hmc::collectives {

/// What the rank called around the call in question, and why it gives up. Written once, at the failure, and then put
/// as plain data with `given` as its signal.
struct Report {
  static constexpr int told = 48;
  /// Of those, calls before the one in question: a rank that has waited for nobody may be the boards' turns ahead of
  /// others, and the arena's areas besides.
  static constexpr std::uint64_t before = 43;

  std::uint64_t args = 0;  ///< 1: the rest is there
  std::uint64_t code = 0;
  std::uint64_t peer = 0;   ///< whom it waited for, or whose message was wrong
  std::uint64_t call = 0;   ///< in question: what it was in when it gave up, or what it was told
  std::uint64_t first = 1;  ///< the number of the first that is told
  std::uint64_t signatures[told] = {};

  /// None: not told, or not called.
  Signature signature_of(std::uint64_t number) const noexcept {
    return number >= first && number - first < told ? Signature(signatures[number - first]) : Signature();
  }
  /// The first call that both tell of and that isn't the same; 0 if there is none.
  static std::uint64_t conflict(const Report& a, const Report& b) noexcept {
    for (std::uint64_t i = 0; i < told; ++i) {
      const Signature one = a.signature_of(a.first + i), other = b.signature_of(a.first + i);
      if (one.kind() != Kind::none && other.kind() != Kind::none && !(one == other)) return a.first + i;
    }
    return 0;
  }
};

}  // namespace hmc::collectives
