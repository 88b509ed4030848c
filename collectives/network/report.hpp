// Report: the message with which a rank reports a failure to all others.
#pragma once

#include <cstdint>

#include <hmc/error.hpp>

#include "collectives/args/signature.hpp"

namespace hmc::collectives {

/// The calls around the call in question, and the cause of the failure. Written once, at the failure. Sent as plain
/// data with `args` as its signal.
struct Report {
  static constexpr int told = 48;
  /// Number of reported calls before the one in question. A rank that waits for no peer may be ahead of others by the
  /// boards' turns plus the arena's areas.
  static constexpr std::uint64_t before = 43;

  std::uint64_t args = 0;  ///< 1: the other fields are valid
  std::uint64_t code = 0;
  std::uint64_t peer = 0;   ///< the rank that was awaited, or that sent a mismatched message
  std::uint64_t call = 0;   ///< in question: the call that failed, or the call of the report that it received
  std::uint64_t first = 1;  ///< number of the first reported call
  std::uint64_t signatures[told] = {};

  /// None if not reported, or not called.
  Signature signature_of(std::uint64_t number) const noexcept {
    return number >= first && number - first < told ? Signature(signatures[number - first]) : Signature();
  }
  /// The first call that both reports contain with different signatures; 0 if there is none.
  static std::uint64_t conflict(const Report& a, const Report& b) noexcept {
    for (std::uint64_t i = 0; i < told; ++i) {
      const Signature one = a.signature_of(a.first + i), other = b.signature_of(a.first + i);
      if (one.kind() != Kind::none && other.kind() != Kind::none && !(one == other)) return a.first + i;
    }
    return 0;
  }
};

}  // namespace hmc::collectives
