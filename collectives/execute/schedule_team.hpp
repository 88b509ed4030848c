// ScheduleTeam: a team's collectives as schedules over put_signal, on any wires.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "collectives/execute/arena.hpp"
#include "collectives/execute/numbering.hpp"
#include "collectives/execute/operation.hpp"
#include "collectives/execute/plan.hpp"
#include "collectives/select/choices.hpp"

namespace hmc::collectives {

/// Blocking calls drive their operation until it is over. Non-blocking ones are driven from every wait of this
/// rank, and whenever somebody asks for them. Failures stick: after one, the team's ranks may be at different
/// calls, so every later call gives the same status. One thread at a time.
class ScheduleTeam final : public base::Progress, public window::TicketSource {
 public:
  ScheduleTeam(window::TeamCore& team, const schedule::Shape& shape, const Selector& selector);
  ~ScheduleTeam() override;
  void close();
  /// Until what is under way is over.
  base::Status drain() noexcept;

  /// A collective of this team is carried out otherwise. So ranks of which one calls that and another a schedule
  /// learn of it with the next schedule's first message.
  void note(Signature signature) noexcept {
    numbers_.note(signature);
    report_.remember(++calls_, signature);
  }
  /// Such a call has met its deadline: mismatch if the reports say so, else `status`.
  base::Status explain_other(const base::Status& status) noexcept;

  /// Blocking.
  base::Status run(const Given& given) noexcept;

  /// Non-blocking: begins it, and never waits. 0 is a ticket that is done.
  base::Status start(const Given& given, std::uint64_t& ticket) noexcept;
  base::Status test(std::uint64_t ticket) noexcept override;
  void expired(std::uint64_t ticket) noexcept override;
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

  int progress() noexcept override;

 private:
  void tell(const Choice& choice, const schedule::Call& call, std::uint64_t bytes) const;
  base::Status prepare(Operation& operation, const Given& given) noexcept;
  Operation& take_operation();
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
  const base::Status& fail(const base::Status& status) noexcept;
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
  bool driven_ = false;  // by the waiter
  int source_index_ = 0;
  std::vector<std::uint64_t> taken_;

  base::Status failure_;
  bool explained_ = false;
  std::uint64_t conflict_ = 0;  // the call that wasn't the same
  std::uint64_t calls_ = 0;     // all, by schedules and otherwise
  Report report_;
};

}  // namespace hmc::collectives
