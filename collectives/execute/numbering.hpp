// Numbering: which number a call has, and when the area of that number is free.
#pragma once

#include <algorithm>
#include <cstdint>

#include "collectives/execute/arena.hpp"

namespace hmc::collectives {

/// The place of one call (or of one piece of a large one) in the team's sequence.
struct Turn {
  std::uint64_t number = 0;
  std::uint64_t stamp = 0;   ///< what its messages' signals carry
  std::uint64_t guard = 0;   ///< guards up to this one must be through before the call's first step
  bool runs_guard = false;   ///< this call runs that guard
  std::uint64_t before = 0;  ///< and may enter it when this rank has finished all calls up to this number
};

/// Why an area may be used again.
///
/// Call n uses area n % areas, which call n - areas used before. It may touch a peer's area (a put) once every
/// rank has *finished* n - areas: a rank that has finished a call has waited for all that was sent to it, and
/// all its puts have read their sources; so nothing of the old call can arrive there or be read there any more.
///
/// `finished` is a number F such that every rank has finished all calls up to F when any rank gets to the
/// present point of the sequence. There are two ways to know:
///  - A blocking call s in which every rank depends on every other (`synchronises`) is over here: so every rank
///    has started s, hence has returned from every blocking call before it. F becomes s - 1, or ends before the
///    first non-blocking call, of which starting s says nothing.
///  - Otherwise, when n - areas > F (or will be for a later piece of the same call), call n begins with a guard: a
///    dissemination barrier in slots of its own, which a rank enters only when it has finished the calls up to
///    `before` (>= n - areas). Who is through it knows that all have entered it, so F = before.
/// Both depend on the sequence of calls alone, never on timing, so all ranks place the same guards at the same
/// calls. Guards have numbers of their own and a rank goes through them in order: a slot of a guard always
/// comes from the same sender, with rising numbers, and a later number says that an earlier guard was passed.
///
/// A stamp is the number above a tag that is made of the signatures of all calls so far (History). So ranks that have
/// called different things learn of it with the first message between them, at the latest in the call after; and those
/// between whom no message is waited for, in the next guard, whose words carry the tag too.
class Numbering {
 public:
  /// The next call's turn; `history`: the word up to it. `pieces`: it is the first of so many of a call that doesn't
  /// synchronise. The guard that one of these would need goes before all of them: in between it would hold up ranks
  /// that only give until the others have taken.
  Turn next(std::uint64_t history, bool blocking, std::uint64_t pieces = 1) noexcept {
    Turn turn;
    turn.number = ++last_;
    turn.stamp = Arena::stamp(turn.number, history);
    set_blocking(last_, blocking);
    if (last_ + std::min<std::uint64_t>(pieces, Arena::areas) - 1 > finished_ + Arena::areas) {
      // Blocking calls before this one are over here by the time that it starts; of others, leave half the areas
      // time to run on.
      finished_ = std::max(blocking_up_to(last_ - 1), last_ - std::min<std::uint64_t>(last_, Arena::areas / 2));
      ++guards_;
      turn.runs_guard = true;
      turn.before = finished_;
    }
    turn.guard = guards_;
    return turn;
  }
  /// Call `number`, blocking and of every rank with every other, is over here.
  void synchronised(std::uint64_t number) noexcept { finished_ = std::max(finished_, blocking_up_to(number - 1)); }

  std::uint64_t last() const noexcept { return last_; }

 private:
  static constexpr std::uint64_t bit(std::uint64_t number) noexcept { return std::uint64_t{1} << number % 64; }
  void set_blocking(std::uint64_t number, bool blocking) noexcept {
    blocking_ = blocking ? blocking_ | bit(number) : blocking_ & ~bit(number);
  }
  /// The last number up to `limit` such that all after `finished_` are blocking. At most `areas` are looked at.
  std::uint64_t blocking_up_to(std::uint64_t limit) const noexcept {
    std::uint64_t number = finished_;
    while (number < limit && (blocking_ & bit(number + 1)) != 0) ++number;
    return number;
  }

  std::uint64_t last_ = 0;
  std::uint64_t finished_ = 0;
  std::uint64_t guards_ = 0;
  std::uint64_t blocking_ = 0;  // a bit per number, of the last 64
};

}  // namespace hmc::collectives
