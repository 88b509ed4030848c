// FailureReport: the record with which a rank makes its failure known.
#pragma once

#include <cstdint>

#include <hmc/error.hpp>

#include "collectives/args/signature.hpp"

namespace hmc::collectives {

/// The calls around the call in question, and the cause of the failure. Plain data, written once, in the rank's own
/// part of the team's arena. Ranks of the node read it there after `valid`; other ranks get it in summaries.
struct FailureReport {
  static constexpr int told = 48;
  /// Number of reported calls before the one in question. A rank that waits for no peer may be ahead of others by the
  /// boards' turns plus the arena's areas.
  static constexpr std::uint64_t before = 43;

  std::uint64_t valid = 0;  ///< 1: the other fields are written. Stored last, with release
  std::uint64_t code = 0;
  std::uint64_t peer = 0;               ///< world rank that was awaited, or that sent a mismatched message
  std::uint64_t call = 0;               ///< in question: the call that failed, or the call of the alarm
  std::uint64_t calls = 0;              ///< number of calls made, at most `call`
  std::uint64_t first = 1;              ///< number of the first reported call
  std::uint64_t signatures[told] = {};  ///< 0: not reported, or not called
};

}  // namespace hmc::collectives
