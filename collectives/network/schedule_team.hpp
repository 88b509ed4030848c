// ScheduleTeam: a team's collectives as schedules over put_signal, on any wires.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "collectives/mismatch/history.hpp"
#include "collectives/mismatch/team_failure.hpp"
#include "collectives/network/arena.hpp"
#include "collectives/network/numbering.hpp"
#include "collectives/network/operation.hpp"
#include "collectives/network/plan.hpp"
#include "collectives/select/choice_cache.hpp"

namespace hmc::collectives {

/// A blocking call makes progress on its operation until it is complete. Non-blocking operations progress in every wait
/// of this rank, in tests of their requests, and in the progress thread. Exception: only the caller's thread calls a
/// user function. A failure is permanent: afterwards the ranks may be at different calls, so every later call returns
/// the same status.
///
/// Threads: one, plus the progress thread while `driven_` is true. Then public functions take Background's lock, and
/// private functions require it.
class ScheduleTeam final : public base::Progress,
                           public base::Watch,
                           public progress::TicketSource,
                           public progress::Started {
 public:
  /// `deterministic`: HMC_DETERMINISTIC, for all reductions. `bulk` and `prepare`: see Arena.
  ScheduleTeam(rma::TeamCore& team, const schedule::Shape& shape, const Selector& selector, bool deterministic,
               std::size_t bulk = 0, const std::function<void(std::byte*)>& prepare = nullptr);
  ~ScheduleTeam() override;
  void close();
  /// Waits until all operations in flight are complete.
  base::Status drain() noexcept;

  /// The calls of both engines on this team.
  History& history() noexcept { return history_; }
  /// Called during long waits in any collective of the team. Checks for failures of other ranks and teams, compares
  /// histories, and sends a question to the awaited rank.
  base::Status look(const base::WaitNote& note, std::int64_t now) noexcept override;
  /// Fails the team, and reports the failure to all other ranks.
  void fail(const base::Status& status) noexcept;

  /// Blocking.
  base::Status run(const CollectiveArgs& args) noexcept;

  /// Non-blocking: starts the call and never waits. Ticket 0: the call is already complete. `copies`: host copies, used
  /// in `args` instead of buffers that the host can't access. They already contain the input. The thread that completes
  /// the operation copies the output back.
  base::Status start(const CollectiveArgs& args, std::uint64_t& ticket,
                     std::unique_ptr<rma::HostCopies> copies = nullptr) noexcept;
  /// Starts the call in the order of a stream. Only the stream waits for the result.
  base::Status start_in_stream(const CollectiveArgs& args, std::unique_ptr<StreamPosition> place) noexcept;
  base::Status test(std::uint64_t ticket) noexcept override;
  void expired(std::uint64_t ticket) noexcept override;
  /// Called when a request is destroyed. The collective continues, except after a peer's death or an abort: then the
  /// caller gets that error and frees the buffers.
  void abandon(std::uint64_t ticket) noexcept override;
  // Relaxed: callers only check if the count changes. test() orders the access to the data.
  std::uint64_t moves() const noexcept override { return moves_.load(std::memory_order_relaxed); }
  [[noreturn]] void throw_failure(const base::Status& status, const char* operation) override;
  bool has_unreported_mismatch(int world_rank) noexcept override;
  bool is_closing(int world_rank) noexcept override;
  base::Watch* watch() noexcept override { return this; }
  Request request_of(std::uint64_t ticket, const char* operation) const;

  /// Persistent: prepares the operation once, with all its schedules. It can be started many times, one run at a time.
  base::Status prepare_kept(const CollectiveArgs& args, Operation*& operation,
                            std::unique_ptr<rma::HostCopies> copies = nullptr) noexcept;
  /// Returns ok if the operation is idle. It stays idle until its owner starts it.
  base::Status may_start(const Operation& operation) const noexcept;
  base::Status start_kept(Operation& operation, std::uint64_t& ticket) noexcept;
  void release_kept(Operation& operation) noexcept;

  base::Status failure() const noexcept;
  /// See TeamFailure.
  bool was_told() const noexcept;
  bool failed_before() const noexcept;
  base::Status explain() noexcept;
  /// Valid after explain().
  const TeamFailure& explained() const noexcept { return failure_; }
  /// If rank `owner` has failed in a call, its buffers may be reused: fails the team and returns the failure. Call
  /// after a read from these buffers.
  base::Status check_owner(int owner) noexcept;

  int rank() const noexcept { return rank_; }
  const Arena& arena() const noexcept { return arena_; }
  /// Number of calls that an algorithm has run.
  std::uint64_t taken(const schedule::Algorithm& algorithm) const noexcept;

  std::uint64_t schedules_built() const noexcept;

  /// Called from this rank's waits.
  int progress() noexcept override;
  int step(By who) noexcept override;
  bool goes_on() const noexcept override;
  bool waits_for_stream() const noexcept override;
  void end() noexcept override;

  /// True while non-blocking operations may be in flight. Becomes false when a test, or the begin of a call, finds that
  /// all are complete. While it is true, short calls are slower.
  bool is_shared() const noexcept { return driven_; }
  void tidy_up() noexcept {
    const auto guard = hold();
    tidy();
  }

 private:
  using Visit = progress::Background::Visit;
  static bool is_callers(const Operation& operation) noexcept {
    return operation.blocking() || operation.args().reducer.function != nullptr;
  }
  void count_moves(std::uint64_t moves) noexcept {
    moves_.store(moves_.load(std::memory_order_relaxed) + moves, std::memory_order_relaxed);
  }
  /// Fails the team. `call`: the number of the failed call; 0: the current call.
  const base::Status& give_up(const base::Status& status, std::uint64_t call = 0,
                              const TeamFailure::Alarm& alarm = {}) noexcept;
  /// Takes the lock if the progress thread may access the state too.
  std::unique_lock<std::mutex> hold() const noexcept {
    return driven_ && fabric_.background.allowed() ? std::unique_lock(fabric_.background.lock())
                                                   : std::unique_lock<std::mutex>();
  }
  /// Registers with the waiter and the progress thread before an operation starts. Requires the lock. May throw
  /// bad_alloc.
  void share();
  void unshare() noexcept;
  void tell(const Choice& choice, const schedule::Call& call, std::uint64_t bytes) const;
  base::Status prepare(Operation& operation, const CollectiveArgs& args) noexcept;
  Operation& take_operation();
  base::Status outcome_of(const Operation& operation, std::uint64_t ticket) noexcept;
  base::Status why_not_start(const Operation& operation) const noexcept;
  base::Status begin(Operation& operation, std::uint64_t& ticket) noexcept;
  base::Status start(const CollectiveArgs& args, std::uint64_t& ticket, std::unique_ptr<rma::HostCopies> copies,
                     std::unique_ptr<StreamPosition> place) noexcept;
  void retire(Operation& operation) noexcept;
  void let_go(Operation& operation) noexcept;
  void tidy() noexcept;
  base::Status begin_blocking(const CollectiveArgs& args) noexcept;
  base::Status wait_for(Operation& operation) noexcept;
  base::Status advance(Operation& operation) noexcept;
  base::Status await_turn(Operation& operation) noexcept;
  base::Status run_guard(const Turn& turn, bool nudges) noexcept;
  bool finished_here(std::uint64_t number) const noexcept;
  bool is_of_one(const CollectiveArgs& args) const noexcept;
  void reduce_alone(const CollectiveArgs& args) noexcept;
  void begin_piece(Operation& operation) noexcept;
  void enter(Operation& operation, Signature signature) noexcept;
  int awaited_by(const Operation& operation) const noexcept;
  Signature signature_at(std::uint64_t call) const noexcept;
  std::uint64_t call_in_question() const noexcept;
  FailureReport report_on(std::uint64_t call) const noexcept;
  bool hear_alarm() noexcept;
  void heard(const TeamFailure::Alarm& alarm) noexcept;
  /// The state of a long wait and of its questions. One for the current blocking call, one for non-blocking calls.
  struct Asker {
    std::int64_t looked_at = 0;
    int peer = -1;
    std::uint64_t question = 0;
    std::int64_t next = 0;      // time of the next question
    std::int64_t interval = 0;  // before it
  };
  void look_after(Asker& asker, int peer, std::uint64_t question, std::int64_t now) noexcept;
  void look_after_started(std::int64_t now) noexcept;
  void hear_questions() noexcept;
  std::uint64_t question_of(std::uint64_t call, std::uint64_t history) const noexcept;
  /// State of the check whether the awaited rank has failed in another team; see watch.cpp.
  struct Elsewhere {
    std::int64_t looked_at = 0;
    int world_rank = -1;
    std::uint64_t call = 0;    // the waiting call, if it needs all ranks; 0: none
    std::uint64_t theirs = 0;  // number of calls that rank has made
    std::int64_t since = 0;
  };
  int waits_in_vain_for(int awaited, std::uint64_t call, std::int64_t now) noexcept;
  int who_gave_up_elsewhere(int awaited, std::uint64_t call) noexcept;
  bool is_in_no_call(int world_rank) const noexcept;
  bool closes_runtime(int world_rank) const noexcept;
  const base::ActivityLine* line_of(int world_rank) const noexcept;
  void ask(Asker& asker, int peer, std::uint64_t question, std::int64_t now) noexcept;
  static constexpr const char* gave_up = "a rank of the team has given up";

  rma::TeamCore& team_;
  rma::Fabric& fabric_;
  int rank_;
  int size_;
  schedule::Shape shape_;
  bool deterministic_;
  Arena arena_;
  ChoiceCache choices_;
  Plans plans_;
  Numbering numbers_;

  // guards: see Numbering
  std::uint64_t guards_done_ = 0;
  std::uint64_t guard_entered_ = 0;
  unsigned guard_round_ = 0;

  std::vector<Operation*> active_;       // in the order of their starts
  std::atomic<std::uint64_t> moves_{0};  // one writer at a time
  Operation blocking_;
  std::vector<std::unique_ptr<Operation>> operations_;  // non-blocking ones, by the low bits of their tickets
  std::vector<Operation*> free_;
  const Operation* uneven_ = nullptr;  // the operation whose mismatch a test has just reported
  bool driven_ = false;                // registered with the waiter and the background thread; written by the owner
  int source_index_ = 0;
  std::vector<std::uint64_t> taken_;

  bool closes_ = false;  // all ranks have agreed to close; a rank that completes the close frees its arena
  History history_;
  TeamFailure failure_;

  // for long waits
  unsigned idle_ = 0;
  Asker blocking_asker_;
  Asker started_asker_;
  Elsewhere elsewhere_;
};

}  // namespace hmc::collectives
