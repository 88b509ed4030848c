// ScheduleTeam: a team's collectives as schedules over put_signal, on any wires.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "collectives/execute/arena.hpp"
#include "collectives/execute/history.hpp"
#include "collectives/execute/numbering.hpp"
#include "collectives/execute/operation.hpp"
#include "collectives/execute/plan.hpp"
#include "collectives/select/choices.hpp"

namespace hmc::collectives {

/// Blocking calls drive their operation until it is over. Non-blocking ones are driven from every wait of this
/// rank, and whenever somebody asks for them. Failures stick: after one, the team's ranks may be at different
/// calls, so every later call gives the same status. One thread at a time.
class ScheduleTeam final : public base::Progress, public base::Watch, public window::TicketSource {
 public:
  ScheduleTeam(window::TeamCore& team, const schedule::Shape& shape, const Selector& selector);
  ~ScheduleTeam() override;
  void close();
  /// Until what is under way is over.
  base::Status drain() noexcept;

  /// Of all collectives of this team, however they are carried out.
  History& history() noexcept { return history_; }
  /// For long waits in any of them: hears of failures elsewhere, compares histories, asks whom it waits for.
  base::Status look(const base::WaitNote& note, std::int64_t now) noexcept override;
  /// Ends the team, and tells all others. `call`: in question; 0: the present one.
  const base::Status& fail(const base::Status& status, std::uint64_t call = 0) noexcept;

  /// Blocking.
  base::Status run(const Given& given) noexcept;

  /// Non-blocking: begins it, and never waits. 0 is a ticket that is done.
  base::Status start(const Given& given, std::uint64_t& ticket) noexcept;
  base::Status test(std::uint64_t ticket) noexcept override;
  void expired(std::uint64_t ticket) noexcept override;
  std::uint64_t moves() const noexcept override { return moves_; }
  [[noreturn]] void throw_failure(const base::Status& status, const char* operation) override;
  Request request_of(std::uint64_t ticket, const char* operation) const;

  /// Persistent: prepared once, with all its schedules; then started as often as wanted, one run at a time.
  base::Status prepare_kept(const Given& given, Operation*& operation) noexcept;
  base::Status start_kept(Operation& operation, std::uint64_t& ticket) noexcept;
  void release_kept(Operation& operation) noexcept;

  base::Status failure() const noexcept { return failure_; }
  /// After a failure: hears what the others were in, for as long as a moment, and settles what it was.
  base::Status explain() noexcept;
  /// Who called what, in the call that failed; valid after explain().
  Signature signature_of(int rank) const noexcept;

  int rank() const noexcept { return rank_; }
  /// How many calls an algorithm has carried out.
  std::uint64_t taken(const schedule::Algorithm& algorithm) const noexcept;

  std::uint64_t schedules_built() const noexcept { return plans_.built(); }

  int progress() noexcept override;

 private:
  void tell(const Choice& choice, const schedule::Call& call, std::uint64_t bytes) const;
  base::Status prepare(Operation& operation, const Given& given) noexcept;
  Operation& take_operation();
  base::Status outcome_of(const Operation& operation, std::uint64_t ticket) noexcept;
  base::Status begin(Operation& operation, std::uint64_t& ticket) noexcept;
  void retire(Operation& operation) noexcept;
  void tidy() noexcept;
  base::Status wait_for(Operation& operation) noexcept;
  base::Status advance(Operation& operation) noexcept;
  base::Status await_turn(Operation& operation) noexcept;
  base::Status run_guard(std::uint64_t guard) noexcept;
  bool finished_here(std::uint64_t number) const noexcept;
  void reduce_alone(const Given& given) noexcept;
  void begin_piece(Operation& operation) noexcept;
  void enter(Operation& operation, Signature signature) noexcept;
  int awaited_by(const Operation& operation) const noexcept;
  Signature signature_at(std::uint64_t call) const noexcept;
  std::uint64_t call_in_question() const noexcept;
  bool hear_alarm() noexcept;
  void look_after(int peer, std::uint64_t call, std::uint64_t history, std::int64_t now) noexcept;
  void look_after_started() noexcept;
  void hear_questions() noexcept;
  void ask(int peer, std::uint64_t question, std::int64_t now) noexcept;
  void write_report(std::uint64_t call) noexcept;
  void send_report() noexcept;

  window::TeamCore& team_;
  window::Fabric& fabric_;
  int rank_;
  int size_;
  schedule::Shape shape_;
  Arena arena_;
  Choices choices_;
  Plans plans_;
  Numbering numbers_;

  // guards: see Numbering
  std::uint64_t guards_done_ = 0;
  std::uint64_t guard_entered_ = 0;
  unsigned guard_round_ = 0;

  std::vector<Operation*> active_;  // in the order in which they were started
  std::uint64_t moves_ = 0;
  Operation blocking_;
  std::vector<std::unique_ptr<Operation>> operations_;  // non-blocking ones, by the low bits of their tickets
  std::vector<Operation*> free_;
  const Operation* uneven_ = nullptr;  // what a ticket has just been told of
  bool driven_ = false;                // by the waiter
  int source_index_ = 0;
  std::vector<std::uint64_t> taken_;

  base::Status failure_;
  bool explained_ = false;
  std::uint64_t conflict_ = 0;  // the call that wasn't the same
  History history_;
  Report report_;

  // of long waits
  unsigned idle_ = 0;
  std::int64_t looked_at_ = 0;
  struct Question {
    int peer = -1;
    std::uint64_t stamp = 0;
    std::int64_t since = 0;
    bool is_asked = false;
  };
  Question question_;
};

}  // namespace hmc::collectives
