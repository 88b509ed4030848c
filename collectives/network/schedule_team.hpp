// ScheduleTeam: a team's collectives as schedules over put_signal, on any wires.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "collectives/mismatch/history.hpp"
#include "collectives/mismatch/team_failure.hpp"
#include "collectives/network/arena.hpp"
#include "collectives/network/long_waits.hpp"
#include "collectives/network/numbering.hpp"
#include "collectives/network/operation.hpp"
#include "collectives/network/plan.hpp"
#include "collectives/select/selector.hpp"
#include "runtime/progress/started_operations.hpp"

namespace hmc::collectives {

/// A blocking call makes progress on its operation until it is complete. Progress of non-blocking operations, and
/// threads: see StartedOperations. Exception: only the caller's thread calls a user function. A failure is permanent:
/// afterwards the ranks may be at different calls, so every later call returns the same status.
class ScheduleTeam final : public progress::StartedOperations<Operation> {
 public:
  /// `deterministic`: HMC_DETERMINISTIC, for all reductions. `create`, `bulk` and `prepare`: see Arena.
  ScheduleTeam(rma::TeamCore& team, const schedule::Shape& shape, const Selector& selector, bool deterministic,
               const CreateMemory& create, std::size_t bulk = 0, const PreparePart& prepare = nullptr);
  ~ScheduleTeam() override;
  void close();
  /// Waits until all operations in flight are complete.
  base::Status drain() noexcept;

  /// The calls of both engines on this team.
  History& history() noexcept { return history_; }
  /// Fails the team, and reports the failure to all other ranks.
  void fail(const base::Status& status) noexcept;

  /// Blocking.
  base::Status run(const CollectiveArgs& args) noexcept;

  /// Non-blocking: starts the call and never waits. Ticket 0: the call is already complete. `copies`: host copies, used
  /// in `args` instead of buffers that the host can't access. They already contain the input. The thread that completes
  /// the operation copies the output back.
  /// `place`: starts the call in the order of a stream.
  base::Status start(const CollectiveArgs& args, std::uint64_t& ticket,
                     std::unique_ptr<device::HostCopies> copies = nullptr,
                     std::unique_ptr<StreamPosition> place = nullptr) noexcept;
  void expired(std::uint64_t ticket) noexcept override;
  [[noreturn]] void throw_failure(const base::Status& status, const char* operation) override;
  /// Throws the error of a failed call. If the awaited rank failed in another team, throws that team's error.
  [[noreturn]] void throw_error(const base::Status& status, const char* operation, std::size_t bytes = 0);
  bool has_unreported_mismatch(int world_rank) noexcept override;
  bool is_closing(int world_rank) noexcept override;
  base::Watch* watch() noexcept override { return &waits_; }
  Request request_of(std::uint64_t ticket, const char* operation) const;

  /// Persistent: prepares the operation once, with all its schedules. It can be started many times, one run at a time.
  base::Status prepare_kept(const CollectiveArgs& args, Operation*& operation,
                            std::unique_ptr<device::HostCopies> copies = nullptr) noexcept;
  /// Returns ok if the operation is idle. It stays idle until its owner starts it.
  base::Status may_start(const Operation& operation) const noexcept;
  base::Status start_kept(Operation& operation, std::uint64_t& ticket) noexcept;
  void release_kept(Operation& operation) noexcept;

  base::Status failure() const noexcept;
  /// See TeamFailure.
  bool received_alarm() const noexcept;
  bool failed_before() const noexcept;
  base::Status explain() noexcept;
  /// If rank `owner` has failed in a call, its buffers may be reused: fails the team and returns the failure. Call
  /// after a read from these buffers.
  base::Status check_owner(int owner) noexcept;

  int rank() const noexcept { return rank_; }
  const Arena& arena() const noexcept { return arena_; }
  /// Number of calls that an algorithm has run.
  std::uint64_t taken(const schedule::Algorithm& algorithm) const noexcept;

  int step(By who) noexcept override;
  bool goes_on() const noexcept override;
  bool waits_for_stream() const noexcept override;
  void end() noexcept override;

  /// Records a call of the node engine. Returns the history's word that includes it. While non-blocking operations may
  /// be in flight, this is slower.
  std::uint64_t add_to_history(Signature signature) noexcept {
    if (is_shared()) [[unlikely]]
      return add_to_shared_history(signature);
    history_.add(signature);
    return history_.word();
  }

 private:
  friend class LongWaits;
  static bool is_callers(const Operation& operation) noexcept {
    return operation.blocking() || operation.args().reducer.function != nullptr;
  }
  const base::Status& failed_by() const noexcept override { return failure_.status(); }
  void fail_all(const base::Status& status) noexcept override { fail_locked(status); }
  bool is_idle() const noexcept override { return active_.empty(); }
  base::Status outcome_of(Operation& operation, std::uint64_t ticket) noexcept override;
  base::Status abort_dropped(const Operation& operation, const char* call) noexcept override;
  [[gnu::cold]] std::uint64_t add_to_shared_history(Signature signature) noexcept;
  /// Fails the team. `call`: the number of the failed call; 0: the current call.
  const base::Status& fail_locked(const base::Status& status, std::uint64_t call = 0,
                                  const TeamFailure::Alarm& alarm = {}) noexcept;
  void make_room();
  base::Status choose(Operation& operation, const CollectiveArgs& args) noexcept;
  base::Status check_idle(const Operation& operation) const noexcept;
  void begin(Operation& operation, std::uint64_t& ticket) noexcept;
  void finish_operation(Operation& operation) noexcept;
  void free_operation(Operation& operation) noexcept;
  base::Status wait_for(Operation& operation) noexcept;
  base::Status step(Operation& operation) noexcept;
  base::Status await_turn(Operation& operation) noexcept;
  bool changes_single_contribution(const CollectiveArgs& args) const noexcept;
  void record_call(Operation& operation, Signature signature) noexcept;
  int awaited_by(const Operation& operation) const noexcept;
  std::uint64_t oldest_call() const noexcept;
  FailureReport report_on(std::uint64_t call) const noexcept;
  bool check_alarm() noexcept;
  void fail_by_alarm(const TeamFailure::Alarm& alarm) noexcept;
  static constexpr const char* rank_failed = "a rank of the team has given up";

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

  std::vector<Operation*> active_;  // in the order of their starts
  Operation blocking_;
  std::uint64_t created_plans_ = 0;
  const Operation* count_mismatch_ = nullptr;       // the operation whose mismatch a test has just reported
  const Operation* wrong_largest_ = nullptr;        // likewise, of a `largest`
  std::optional<StartedCounts> different_largest_;  // the cause of the team's failure
  std::vector<std::uint64_t> taken_;

  bool closes_ = false;  // all ranks have agreed to close; a rank that completes the close frees its arena
  History history_;
  TeamFailure failure_;

  unsigned idle_ = 0;
  LongWaits waits_{*this};
};

}  // namespace hmc::collectives
