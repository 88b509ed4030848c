// Numbering: assigns numbers to calls, and determines when the area of a number is free.
#pragma once

#include <algorithm>
#include <cstdint>

#include "collectives/network/arena.hpp"

namespace hmc::collectives {

/// The position of one call (or of one piece of a large call) in the team's sequence.
struct Turn {
  std::uint64_t number = 0;
  std::uint64_t stamp = 0;   ///< signal value of the call's messages
  std::uint64_t guard = 0;   ///< guards up to this one must be complete before the call's first step
  bool runs_guard = false;   ///< this call runs that guard
  std::uint64_t before = 0;  ///< the rank may enter that guard when it has finished all calls up to this number
};

/// Why an area may be reused: call n uses area n % areas, as call n - areas did. Call n may put into a peer's area
/// after every rank has *finished* call n - areas. A rank that has finished a call has received all messages of that
/// call, all its puts have read their sources, and all its gets are done. So no message of the old call can arrive or
/// be read later, and no rank reads the old call's scratch.
///
/// `finished_` is a number F: when a rank is at the present point of the sequence, every rank has finished all calls up
/// to F. Two events raise F:
/// - A blocking call s in which every rank depends on every other (`synchronises`) is complete on this rank. Then every
///   rank has started s, hence has returned from every blocking call before s. F becomes s - 1. If there are
///   non-blocking calls between F and s, F stops before the first of them, because it may still be in flight.
/// - Otherwise, when n - areas > F (or will be for a later piece of the same call), call n begins with a guard: a
///   dissemination barrier in separate slots. A rank enters it only when it has finished the calls up to `before`
///   (>= n - areas). A rank that completes the guard has proof that all ranks have entered it, so F = before.
///
/// Both events depend only on the sequence of calls, not on timing. So all ranks run the same guards at the same calls.
/// Guards have their own numbers, and a rank completes them in order. So the messages in a guard's slot come from one
/// sender with increasing numbers, and a larger number implies that the sender has completed the earlier guards.
///
/// A stamp consists of the number (upper bits) and a tag, a hash of the signatures of all calls so far (History). Ranks
/// that made different calls detect the mismatch with the first message between them, at the latest in the next call.
/// Ranks that exchange no messages detect it in the next guard, whose words also contain the tag.
class Numbering {
 public:
  /// Returns the turn of the next call. `history`: the history word including this call. `pieces`: the number of
  /// pieces, for the first piece of a call that doesn't synchronise. If any of these pieces needs a guard, the guard
  /// runs before the first piece. Between pieces, a guard would make ranks that only send wait for the receivers.
  Turn next(std::uint64_t history, bool blocking, std::uint64_t pieces = 1) noexcept {
    Turn turn;
    turn.number = ++last_;
    turn.stamp = Arena::stamp(turn.number, history);
    set_blocking(last_, blocking);
    if (last_ + std::min<std::uint64_t>(pieces, Arena::areas) - 1 > finished_ + Arena::areas) {
      // Blocking calls before this one are complete on this rank when it starts. The last areas / 2 non-blocking calls
      // may still be in flight.
      finished_ = std::max(blocking_up_to(last_ - 1), last_ - std::min<std::uint64_t>(last_, Arena::areas / 2));
      ++guards_;
      turn.runs_guard = true;
      turn.before = finished_;
    }
    turn.guard = guards_;
    return turn;
  }
  /// Call `number` is complete on this rank. Requires that it is blocking and synchronises.
  void synchronised(std::uint64_t number) noexcept { finished_ = std::max(finished_, blocking_up_to(number - 1)); }

  std::uint64_t last() const noexcept { return last_; }

 private:
  static constexpr std::uint64_t bit(std::uint64_t number) noexcept { return std::uint64_t{1} << number % 64; }
  void set_blocking(std::uint64_t number, bool blocking) noexcept {
    blocking_ = blocking ? blocking_ | bit(number) : blocking_ & ~bit(number);
  }
  /// The last number up to `limit` such that all after `finished_` are blocking. Checks at most `areas` numbers.
  std::uint64_t blocking_up_to(std::uint64_t limit) const noexcept {
    std::uint64_t number = finished_;
    while (number < limit && (blocking_ & bit(number + 1)) != 0) ++number;
    return number;
  }

  std::uint64_t last_ = 0;
  std::uint64_t finished_ = 0;
  std::uint64_t guards_ = 0;
  std::uint64_t blocking_ = 0;  // one bit per number, for the last 64
};

}  // namespace hmc::collectives
