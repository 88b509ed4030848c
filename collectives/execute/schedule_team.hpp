// ScheduleTeam: a team's collectives as schedules over put_signal, on any wires.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "collectives/execute/arena.hpp"
#include "collectives/execute/history.hpp"
#include "collectives/execute/numbering.hpp"
#include "collectives/execute/operation.hpp"
#include "collectives/execute/plan.hpp"
#include "collectives/select/choices.hpp"

namespace hmc::collectives {

/// What is known of a rank's part in a call that failed.
struct PeerReport {
  enum class Part {
    called,     ///< as the signature says
    absent,     ///< it hasn't come so far
    otherwise,  ///< something else, as a message of it has shown, and answers nothing
    silent,     ///< it answers nothing
  };
  Part part = Part::silent;
  Signature signature;
  friend bool operator==(const PeerReport&, const PeerReport&) = default;
};

/// Blocking calls drive their operation until it is over. Non-blocking ones are driven from every wait of this
/// rank, whenever somebody asks for them, and by the Runtime's background thread, except those with a function of the
/// user's, which is called by the caller's thread alone. Failures stick: after one, the team's ranks may be at
/// different calls, so every later call gives the same status.
///
/// One thread at a time; and that background thread while `driven_`: then what is public takes Background's lock, and
/// what is private has it.
class ScheduleTeam final : public base::Progress,
                           public base::Watch,
                           public window::TicketSource,
                           public window::Started {
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
  /// Ends the team, and tells all others.
  void fail(const base::Status& status) noexcept;

  /// Blocking.
  base::Status run(const CollectiveArgs& args) noexcept;

  /// Non-blocking: begins it, and never waits. 0 is a ticket that is done. `copies`: what `given` names instead of
  /// buffers that the host can't reach; taken already, and finished by whatever thread sees the end.
  base::Status start(const CollectiveArgs& args, std::uint64_t& ticket,
                     std::unique_ptr<window::HostCopies> copies = nullptr) noexcept;
  /// In the order of a stream; only that looks at it later.
  base::Status start_in_stream(const CollectiveArgs& args, std::unique_ptr<StreamPlace> place) noexcept;
  base::Status test(std::uint64_t ticket) noexcept override;
  void expired(std::uint64_t ticket) noexcept override;
  /// A collective goes on; but not after a death or an abort, since its caller is told of that and frees the buffers.
  void abandon(std::uint64_t ticket) noexcept override;
  // Relaxed: a count whose change is looked for; what has been moved is seen by test().
  std::uint64_t moves() const noexcept override { return moves_.load(std::memory_order_relaxed); }
  [[noreturn]] void throw_failure(const base::Status& status, const char* operation) override;
  bool has_unheard_mismatch(int world_rank) noexcept override;
  bool is_closing(int world_rank) noexcept override;
  base::Watch* watch() noexcept override { return this; }
  Request request_of(std::uint64_t ticket, const char* operation) const;

  /// Persistent: prepared once, with all its schedules; then started as often as wanted, one run at a time.
  base::Status prepare_kept(const CollectiveArgs& args, Operation*& operation,
                            std::unique_ptr<window::HostCopies> copies = nullptr) noexcept;
  /// ok: it is idle, and stays so until its owner starts it.
  base::Status may_start(const Operation& operation) const noexcept;
  base::Status start_kept(Operation& operation, std::uint64_t& ticket) noexcept;
  void release_kept(Operation& operation) noexcept;

  base::Status failure() const noexcept;
  /// Another rank has said so first.
  bool was_told() const noexcept;
  /// The team has failed, and not of this rank's latest call but of an earlier one; valid after explain().
  bool failed_before() const noexcept;
  /// After a failure: hears what the others were in, for as long as a moment, and settles what it was.
  base::Status explain() noexcept;
  /// Who called what, in the call that failed; valid after explain().
  PeerReport peer_report_of(int rank) const noexcept;

  int rank() const noexcept { return rank_; }
  /// How many calls an algorithm has carried out.
  std::uint64_t taken(const schedule::Algorithm& algorithm) const noexcept;

  std::uint64_t schedules_built() const noexcept;

  /// From this rank's waits.
  int progress() noexcept override;
  int step(By who) noexcept override;
  bool goes_on() const noexcept override;
  bool waits_for_stream() const noexcept override;
  void end() noexcept override;

  /// Something was started, and nobody has asked for it or begun a schedule since it was over. Then quick calls are
  /// slower than they need be.
  bool is_shared() const noexcept { return driven_; }
  void tidy_up() noexcept {
    const auto guard = hold();
    tidy();
  }

 private:
  using Visit = window::Background::Visit;
  static bool is_callers(const Operation& operation) noexcept {
    return operation.blocking() || operation.args().reduction.function != nullptr;
  }
  void count_moves(std::uint64_t moves) noexcept {
    moves_.store(moves_.load(std::memory_order_relaxed) + moves, std::memory_order_relaxed);
  }
  /// `call`: in question; 0: the present one.
  const base::Status& give_up(const base::Status& status, std::uint64_t call = 0) noexcept;
  /// The lock, if the background thread may be in here too.
  std::unique_lock<std::mutex> hold() const noexcept {
    return driven_ && fabric_.background.allowed() ? std::unique_lock(fabric_.background.lock())
                                                   : std::unique_lock<std::mutex>();
  }
  /// With the waiter and the background thread, while something is under way. Under the lock. May throw bad_alloc.
  void share();
  void unshare() noexcept;
  void tell(const Choice& choice, const schedule::Call& call, std::uint64_t bytes) const;
  base::Status prepare(Operation& operation, const CollectiveArgs& args) noexcept;
  Operation& take_operation();
  base::Status outcome_of(const Operation& operation, std::uint64_t ticket) noexcept;
  base::Status why_not_start(const Operation& operation) const noexcept;
  base::Status begin(Operation& operation, std::uint64_t& ticket) noexcept;
  base::Status start(const CollectiveArgs& args, std::uint64_t& ticket, std::unique_ptr<window::HostCopies> copies,
                     std::unique_ptr<StreamPlace> place) noexcept;
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
  bool hear_alarm() noexcept;
  /// One that waits for long, and what it has asked so far: the present blocking call, or what is started.
  struct Asker {
    std::int64_t looked_at = 0;
    int peer = -1;
    std::uint64_t question = 0;
    std::int64_t since = 0;
    bool has_asked = false;
  };
  void look_after(Asker& asker, int peer, std::uint64_t question, std::int64_t now) noexcept;
  void look_after_started(std::int64_t now) noexcept;
  void hear_questions() noexcept;
  /// Whom a wait is for may have given up in another team: see watch.cpp.
  struct Elsewhere {
    std::int64_t looked_at = 0;
    int world_rank = -1;
    std::uint64_t call = 0;    // that waits and needs all ranks; 0: none
    std::uint64_t theirs = 0;  // how many that rank has made
    std::int64_t since = 0;
  };
  int waits_in_vain_for(int awaited, std::uint64_t call, std::int64_t now) noexcept;
  int who_gave_up_elsewhere(int awaited, std::uint64_t call) noexcept;
  bool is_in_no_call(int world_rank) const noexcept;
  bool closes_runtime(int world_rank) const noexcept;
  const base::ActivityLine* line_of(int world_rank) const noexcept;
  void ask(Asker& asker, int peer, std::uint64_t question, std::int64_t now) noexcept;
  void write_report(std::uint64_t call) noexcept;
  void send_report() noexcept;
  base::Status hear_others() noexcept;
  void read_ledgers() noexcept;
  /// What a rank tells, or what its ledger does; null if neither.
  const Report* report_of(int rank) const noexcept;
  base::Status settle() noexcept;

  static constexpr const char* gave_up = "a rank of the team has given up";

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

  std::vector<Operation*> active_;       // in the order in which they were started
  std::atomic<std::uint64_t> moves_{0};  // one writer at a time
  Operation blocking_;
  std::vector<std::unique_ptr<Operation>> operations_;  // non-blocking ones, by the low bits of their tickets
  std::vector<Operation*> free_;
  const Operation* uneven_ = nullptr;  // what a ticket has just been told of
  bool driven_ = false;                // by the waiter, and by the background thread; the owner's
  int source_index_ = 0;
  std::vector<std::uint64_t> taken_;

  base::Status failure_;
  int told_by_ = -1;  // the rank that told this one of the failure
  bool explained_ = false;
  bool closes_ = false;         // its ranks have agreed on that, and each that is through gives up its arena
  std::uint64_t conflict_ = 0;  // the call that wasn't the same
  History history_;
  Report report_;
  std::vector<Report> read_;  // by rank, those of ranks that tell nothing

  // of long waits
  unsigned idle_ = 0;
  Asker blocking_asker_;
  Asker started_asker_;
  Elsewhere elsewhere_;
};

}  // namespace hmc::collectives
