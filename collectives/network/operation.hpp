// Operation: a collective in flight, from its first piece to its last.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/args/collective_args.hpp"
#include "collectives/args/counts_match.hpp"
#include "collectives/network/numbering.hpp"
#include "collectives/network/plan.hpp"
#include "collectives/network/runner.hpp"
#include "runtime/base/status.hpp"
#include "runtime/device/host_copies.hpp"

namespace hmc::collectives {

/// The collective begins when the stream has reached this position. The stream continues when the collective is
/// complete or abandoned. Callers hold Background's lock.
class StreamPosition {
 public:
  virtual ~StreamPosition() = default;
  /// in_progress until the stream has reached the position. Never waits.
  virtual base::Status reached() noexcept = 0;
  virtual void continue_stream() noexcept = 0;
};

/// A call that doesn't fit an area is split into pieces. Each piece has its own number; pieces run in order. A vector
/// is split into ranges. If every rank has a block, a piece is a part of each block (a v-form with displacements). One
/// thread.
///
/// The first piece of a non-blocking alltoallv is an allreduce that compares all counts and `largest`. If counts don't
/// match, two more pieces report the pairs to all ranks, and no data moves. If `largest` is wrong, no data moves
/// either. An operation uses all its reserved turns, if necessary by pieces without steps, because every rank must run
/// the same guards. If the ranks have reserved different numbers of turns, the team fails.
class Operation {
 public:
  explicit Operation(const Arena& arena) : runner_(arena) {}

  /// Stores the call. Copies the counts and displacements of a v-form, so that the caller may free them. May throw
  /// bad_alloc.
  void take(const CollectiveArgs& args, const schedule::Algorithm& algorithm, std::uint64_t longest, int size);
  /// Builds plans for all pieces and keeps them, for a persistent call.
  void keep_plans(Plans& plans);

  const CollectiveArgs& args() const noexcept { return args_; }
  const schedule::Algorithm& algorithm() const noexcept { return *algorithm_; }
  /// Number of turns that one run uses.
  std::uint64_t turns() const noexcept { return compares_ ? 1 + std::max(pieces_, reporting_pieces) : pieces_; }

  // ---- one run through all pieces
  void start(bool blocking) noexcept;
  bool blocking() const noexcept { return blocking_; }
  Turn turn;          ///< of the current piece
  Numbering numbers;  ///< non-blocking: the state of numbering at the start, for the turns reserved for this call
  base::Status outcome;
  std::uint64_t call_number = 0;  ///< in the team's History
  std::uint64_t history = 0;      ///< the history's word up to it

  // ---- non-blocking only
  std::uint64_t ticket = 0;  ///< of the current run
  bool under_way = false;
  bool is_under_way() const noexcept { return under_way; }
  bool is_kept = false;                     ///< persistent: owned by a Plan, not reused after completion
  std::uint64_t plan_number = 0;            ///< of a Plan: counts the team's plans from 1; 0: not persistent
  std::uint64_t count_mismatch_ticket = 0;  ///< of the run whose counts didn't match
  CountMismatch count_mismatch;             ///< mismatched pairs of all ranks
  std::uint64_t wrong_largest_ticket = 0;   ///< of the run whose `largest` was wrong
  const StartedCounts& counts() const noexcept { return counts_; }  ///< of all ranks, after the first piece
  /// The ranks have reserved different numbers of turns, so the team fails.
  bool has_different_turns() const noexcept { return compares_ && counts_.least_turns != counts_.most_turns; }
  const CountMismatch& my_count_mismatch() const noexcept { return mine_; }
  std::unique_ptr<device::HostCopies> copies;  ///< the buffers in args(), if the host can't access the caller's
  std::unique_ptr<StreamPosition> place;       ///< position in a device stream, if the call is ordered by one
  std::uint64_t lost_ticket = 0;               ///< of the run whose output couldn't be copied to the caller's buffer
  base::Status lost;                           ///< the cause

  /// True while the operation waits for its stream. A stream must be polled: it sends no notification.
  bool waits_for_stream() const noexcept { return place != nullptr && !stream_reached_; }
  base::Status poll_stream() noexcept {
    const base::Status status = place->reached();
    stream_reached_ = status.ok();
    return status;
  }

  bool running() const noexcept { return running_; }
  /// Loads the steps of the current piece. Requires that the guards of its turn are complete. May throw bad_alloc.
  base::Status load(Plans& plans);
  base::Status advance() noexcept { return runner_.advance(); }
  /// True if there is another piece.
  bool next_piece() noexcept {
    running_ = false;
    runner_.drop_plan();
    return ++piece_ < turns();
  }
  void drop_plan() noexcept { runner_.drop_plan(); }
  void abandon() noexcept {
    runner_.abandon();
    if (place != nullptr) place->continue_stream();
  }
  std::uint64_t steps_taken() const noexcept { return runner_.steps_taken() + piece_; }
  int awaited() const noexcept { return running_ ? runner_.awaited() : -1; }
  /// True if its completion on one rank proves that all ranks have started it.
  bool synchronises() const noexcept;

 private:
  schedule::Call piece_call(std::uint64_t first);
  std::shared_ptr<const Plan> plan_of_piece(std::uint64_t piece, Plans& plans);
  base::Status load_comparison(Plans& plans);
  void cut_counts(std::uint64_t first, std::uint64_t count);
  void stage_input();

  CollectiveArgs args_;
  const schedule::Algorithm* algorithm_ = nullptr;
  int size_ = 1;
  std::uint64_t total_ = 0;   // elements of the vector, or of the largest block
  std::uint64_t length_ = 0;  // of a piece
  std::uint64_t pieces_ = 1;
  std::uint64_t piece_ = 0;  // index among turns()
  bool blocking_ = true;
  bool running_ = false;
  bool stages_ = false;
  bool stream_reached_ = false;
  static constexpr const char* largest_differs = "the ranks passed different values of `largest` to an alltoallv";
  static constexpr std::uint64_t reporting_pieces = 2;
  bool compares_ = false;      // in this run
  bool counts_match_ = false;  // set if an earlier run of the same plan found matching counts and a right `largest`
  StartedCounts counts_;
  std::vector<std::uint64_t> sent_counts_;
  CountMismatch mine_;
  std::vector<std::byte> staged_;  // in-place alltoall: a copy of the input, which the output would overwrite
  Runner runner_;
  struct Kept {
    std::uint64_t first_piece;  // the first of the pieces that use this plan, up to the next entry's
    std::shared_ptr<const Plan> plan;
  };
  std::vector<Kept> kept_;
  struct Blocks {
    std::vector<std::uint64_t> counts, displacements;
  };
  Blocks whole_, whole_received_;  // copies of the caller's
  Blocks part_, part_received_;    // of the current piece
};

/// The call of a piece that compares the counts of an alltoallv (piece 0) or reports mismatched counts (pieces 1 and
/// 2).
struct Comparison {
  schedule::Call call;
  const schedule::Algorithm* algorithm = nullptr;
};
Comparison comparison(std::uint64_t piece, std::uint64_t scratch_bytes) noexcept;

/// Number of elements of the whole vector or of the largest block. This extent is split into pieces.
std::uint64_t extent_of(const schedule::Call& call) noexcept;

}  // namespace hmc::collectives
