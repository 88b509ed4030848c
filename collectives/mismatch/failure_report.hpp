// FailureReport: the record in which a rank publishes its failure.
#pragma once

#include <cstdint>

#include <hmc/error.hpp>

#include "collectives/args/signature.hpp"

namespace hmc::collectives {

/// The cause of the failure, and the last calls up to the failed call and after it. Plain data, written once, in the
/// rank's own part of the team's arena. Ranks of the node read it there if `valid` is 1. Other ranks get it in
/// summaries.
struct FailureReport {
  static constexpr int told = 48;
  /// Number of reported calls before the failed call. A rank that waits for no peer may be ahead of the others by the
  /// number of board slots plus the number of areas.
  static constexpr std::uint64_t before = 43;

  std::uint64_t valid = 0;  ///< 1: the other fields are written. Stored last, with release
  std::uint64_t code = 0;
  std::uint64_t peer = 0;               ///< world rank that was awaited, or that sent a mismatched message
  std::uint64_t call = 0;               ///< number of the call that failed here, or of the alarm's call
  std::uint64_t calls = 0;              ///< number of calls made, at most `call`
  std::uint64_t first = 1;              ///< number of the first reported call
  std::uint64_t signatures[told] = {};  ///< 0: not reported, or not called
};

}  // namespace hmc::collectives
