// Arena: a team's registered memory, the target of its schedules' puts.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "collectives/mismatch/failure_area.hpp"
#include "collectives/select/selector.hpp"
#include "runtime/rma/window_core.hpp"

namespace hmc::collectives {

/// Writes this rank's part of a window before any peer reads it.
using PreparePart = std::function<void(std::byte*)>;
/// Collective. Creates a lazy window whose parts start with a team's arena.
using CreateMemory = std::function<std::shared_ptr<rma::WindowCore>(std::size_t bytes, const PreparePart& prepare)>;

/// The start of each rank's part of a lazy window: the team's own, or the world's. It holds, in this order:
/// - the first page, which is all that short calls on a node use: the alarm word, a slot per round of a guard, the
///   rank's ledger, and the start of the node engine's board;
/// - the rest of the board; the rest of the FailureArea;
/// - areas: each has 64-bit signal slots, and scratch. Call number n uses area n % areas;
/// - bulk memory of the node engine.
///
/// Numbering assigns the area of a call and determines when that area is free. A signal slot holds a stamp, whose upper
/// bits are the call's number. Numbers only increase, so slots are never cleared.
class Arena {
 public:
  static constexpr int areas = 8;

  /// `bulk`: bytes for the node engine. `create`: null: the window holds nothing else.
  Arena(rma::TeamCore& team, std::size_t bulk, const PreparePart& prepare, const CreateMemory& create)
      : room_(area_limits(team.size())),
        failures_(ledger_offset, board_offset + board_bytes, team.size(), team.all_direct()),
        first_area_(base::round_up(failures_.end(), base::page_size())),
        area_bytes_(std::uint64_t{room_.slots} * 8 + room_.scratch_bytes),
        bulk_at_(base::round_up(first_area_ + areas * area_bytes_, base::page_size())),
        window_(create ? create(bulk_at_ + bulk, prepare)
                       : rma::create_window(team, bulk_at_ + bulk, rma::WindowCore::Role::lazy, prepare)) {}
  void close() { window_->close(); }
  const rma::WindowCore& window() const noexcept { return *window_; }
  const std::shared_ptr<rma::WindowCore>& shared_window() const noexcept { return window_; }

  int size() const noexcept { return static_cast<int>(window_->peers().size()); }
  /// Returns the world rank of a team rank. Statuses and wait notes contain world ranks.
  int world(int rank) const noexcept { return rank < 0 ? -1 : window_->peers()[static_cast<std::size_t>(rank)].world; }

  std::uint64_t scratch_bytes() const noexcept { return room_.scratch_bytes; }
  std::uint32_t slots() const noexcept { return room_.slots; }

  std::uint64_t slot_offset(std::uint64_t number, std::uint32_t slot) const noexcept {
    return area(number) + std::uint64_t{slot} * 8;
  }
  std::uint64_t scratch_offset(std::uint64_t number) const noexcept {
    return area(number) + std::uint64_t{room_.slots} * 8;
  }
  std::byte* scratch(std::uint64_t number) const noexcept { return window_->data() + scratch_offset(number); }

  /// The size of each area.
  const AreaLimits& room() const noexcept { return room_; }

  const FailureArea& failures() const noexcept { return failures_; }
  static std::uint64_t guard_offset(unsigned round) noexcept { return 64 + std::uint64_t{round} * 8; }
  static constexpr std::uint64_t ledger_offset = 64 + 64 * 8;  // after guard slots for up to 2^64 ranks
  static constexpr std::uint64_t board_offset = ledger_offset + sizeof(Ledger);
  static constexpr std::uint64_t board_bytes = 140 << 10;  ///< upper limit; unused bytes take no memory
  std::uint64_t bulk_offset() const noexcept { return bulk_at_; }
  Ledger& ledger() const noexcept { return failures_.ledger(window_->data()); }
  /// Another rank's ledger; null without load/store access to that rank.
  Ledger* ledger_of(int rank) const noexcept { return failures_.ledger_of(*window_, rank); }

  /// Acquire: pairs with put_signal's release. Data put before the signal is visible.
  std::uint64_t word(std::uint64_t offset) const noexcept {
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(window_->data() + offset))
        .load(std::memory_order_acquire);
  }
  std::uint64_t slot(std::uint64_t number, std::uint32_t index) const noexcept {
    return word(slot_offset(number, index));
  }

  static constexpr unsigned tag_bits = 24;
  static constexpr std::uint64_t stamp(std::uint64_t number, std::uint64_t hash) noexcept {
    return number << tag_bits | hash >> (64 - tag_bits);
  }
  static constexpr std::uint64_t tag_of(std::uint64_t stamp) noexcept {
    return stamp & ((std::uint64_t{1} << tag_bits) - 1);
  }

 private:
  std::uint64_t area(std::uint64_t number) const noexcept { return first_area_ + number % areas * area_bytes_; }

  AreaLimits room_;
  FailureArea failures_;
  std::uint64_t first_area_;
  std::uint64_t area_bytes_;
  std::uint64_t bulk_at_;
  std::shared_ptr<rma::WindowCore> window_;
};

}  // namespace hmc::collectives
