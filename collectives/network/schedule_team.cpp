#include "collectives/network/schedule_team.hpp"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/kinds.hpp"
#include "runtime/rma/begin.hpp"

namespace hmc::collectives {

using base::Status;
using schedule::Algorithm;
using schedule::Call;

ScheduleTeam::ScheduleTeam(rma::TeamCore& team, const schedule::Shape& shape, const Selector& selector,
                           bool deterministic, const CreateMemory& create, std::size_t bulk, const PreparePart& prepare)
    : StartedOperations(team.fabric().waiter, team.fabric().tickets, team.fabric().background),
      team_(team),
      fabric_(team.fabric()),
      rank_(team.rank()),
      size_(team.size()),
      shape_(shape),
      deterministic_(deterministic),
      arena_(team, bulk, prepare, create),
      choices_(selector, shape, arena_.room()),
      plans_(arena_.room(), shape, rank_, !team.all_direct()),
      blocking_(arena_),
      failure_(team, arena_.window(), arena_.failures(), history_) {
  history_.show_in(&arena_.ledger());
  history_.count_in(fabric_.waiter.page().activity(fabric_.waiter.local_index()).calls);
  active_.reserve(16);
  taken_.resize(schedule::algorithms().size());
  enlist();
}

ScheduleTeam::~ScheduleTeam() {
  const auto guard = hold();
  // Abandon the operations while the sources of their puts still exist: the arena, host copies, the caller's buffers.
  for (Operation* const operation : active_) operation->abandon();
  retire();
}

Status ScheduleTeam::drain() noexcept {
  const auto oldest = [this]() noexcept {
    const auto guard = hold();
    return active_.empty() ? nullptr : active_.front();
  };
  while (Operation* const operation = oldest())
    if (const Status status = wait_for(*operation); !status.ok()) return status;
  return {};
}

void ScheduleTeam::close() {
  {
    const auto guard = hold();
    unshare();
    closes_ = true;
    failure_.stop_reading();
    history_.show_in(nullptr);
  }
  arena_.close();
}

/// Selects the algorithm and the length of a piece.
Status ScheduleTeam::choose(Operation& operation, const CollectiveArgs& args) noexcept {
  try {
    CollectiveArgs resolved = args;
    Call& call = resolved.call;
    call.deterministic = call.deterministic || (deterministic_ && reduces(call.collective));
    const std::uint64_t extent = extent_of(call);
    const std::uint64_t bytes = extent * call.element_bytes;
    const bool is_users = !resolved.signature.is_setup();
    const ChoiceCache::CachedChoice answer = choices_.get(call, bytes, is_users);
    const Choice& way = answer.choice;
    if (way.algorithm == nullptr || (way.longest == 0 && extent > 0))
      return Status::failure(Code::unsupported, "there is no algorithm for this call");
    // Rank 0 logs it once per kind of call and size class.
    if (answer.is_new && rank_ == 0 && fabric_.log.wants(base::LogLevel::info)) [[unlikely]]
      fabric_.log.info("{}{} from {} bytes on, {} ranks: {} by {}, {:.1f} us predicted", name_of(call.collective),
                       call.irregular() ? "v" : "", Selector::class_begin(bytes), size_, way.algorithm->name,
                       name_of(way.source), way.predicted_ns / 1000);
    call.segment_bytes = way.segment_bytes;
    operation.take(resolved, *way.algorithm, way.longest, size_);
    if (is_users) ++taken_[static_cast<std::size_t>(way.algorithm - schedule::algorithms().data())];
    return {};
  } catch (const std::bad_alloc&) {
    return Status::failure(Code::out_of_memory, "no memory for a schedule");
  }
}

// ---- calls

Status ScheduleTeam::run(const CollectiveArgs& args) noexcept {
  std::optional<Waiting> waiting;
  if (is_shared()) waiting.emplace(fabric_.background, Entry::blocks);
  {
    const auto guard = hold();
    if (!failure_.ok()) [[unlikely]]
      return failure_.status();
    if (const Status status = choose(blocking_, args); !status.ok())  // only out_of_memory can differ between ranks
      return status.code == Code::out_of_memory ? fail_locked(status) : status;
    unshare_if_idle();
    blocking_.start(true);
    record_call(blocking_, args.signature);
    blocking_.turn = numbers_.next(blocking_.history, true, blocking_.synchronises() ? 1 : blocking_.turns());
    blocking_.outcome = Status::in_progress();
    active_.push_back(&blocking_);
  }
  const Status status = wait_for(blocking_);  // steps it, and the operations in flight
  const auto guard = hold();
  std::erase(active_, &blocking_);
  return status;
}

Status ScheduleTeam::wait_for(Operation& operation) noexcept {
  const base::Activity activity = activity_of(operation.args().signature);
  const auto note = [&]() noexcept {
    const auto guard = hold();
    return base::WaitNote{activity, arena_.world(awaited_by(operation)), operation.turn.number, &waits_,
                          operation.args().bytes()};
  };
  std::uint64_t before = moves();
  Status status;
  const auto moved = [&]() noexcept {
    const auto guard = hold();
    step(By::owner);
    status = failure_.ok() ? operation.outcome : failure_.status();
    return status.code != Code::in_progress || moves() != before;
  };
  for (;;) {
    before = moves();
    if (!moved()) {
      // The timeout applies to each wait. A large call may take longer if it makes progress.
      const Status waited = fabric_.waiter.until(note(), moved, fabric_.timeout);
      if (!waited.ok()) {
        const int peer = note().peer;
        const auto guard = hold();
        return fail_locked(waited.peer >= 0 ? waited : Status::failure(waited.code, waited.what, peer));
      }
    }
    if (status.code != Code::in_progress) return status;
  }
}

Status ScheduleTeam::start(const CollectiveArgs& args, std::uint64_t& ticket,
                           std::unique_ptr<device::HostCopies> copies, std::unique_ptr<StreamPosition> place) noexcept {
  const Visit visit(fabric_.background, true, Entry::starts);
  if (!failure_.ok()) [[unlikely]]
    return failure_.status();
  try {
    make_room();  // from here on the operation progresses in waits and in the progress thread
    Operation& operation = take(arena_);
    operation.plan_number = 0;
    if (const Status status = choose(operation, args); !status.ok()) {
      give_back(operation);
      unshare_if_idle();
      return status;
    }
    operation.copies = std::move(copies);
    operation.place = std::move(place);
    begin(operation, ticket);
    return {};
  } catch (const std::bad_alloc&) {
    unshare_if_idle();
    return Status::failure(Code::out_of_memory, "no memory for an operation");
  }
}

/// Starts an operation. Requires an earlier make_room(), so that no step can fail. Reserves all turns of the operation,
/// so that turns are in call order on every rank; see Numbering.
void ScheduleTeam::begin(Operation& operation, std::uint64_t& ticket) noexcept {
  record_call(operation, operation.args().signature);
  operation.start(false);
  operation.numbers = numbers_;
  for (std::uint64_t i = 0; i < operation.turns(); ++i) static_cast<void>(numbers_.next(operation.history, false));
  operation.turn = operation.numbers.next(operation.history, false);
  operation.outcome = Status::in_progress();
  operation.under_way = true;
  ticket = operation.ticket;
  active_.push_back(&operation);
  step(By::owner);
}

/// Called before a non-blocking operation starts: leaves room for it and for a blocking one. May throw bad_alloc.
void ScheduleTeam::make_room() {
  share();
  if (active_.size() + 2 > active_.capacity()) active_.reserve(2 * active_.capacity());
}

Request ScheduleTeam::request_of(std::uint64_t ticket, const char* operation) const {
  return Request::from_raw({arena_.shared_window().get(), ticket, operation, source_index(), -1});
}

Status ScheduleTeam::prepare_kept(const CollectiveArgs& args, Operation*& operation,
                                  std::unique_ptr<device::HostCopies> copies) noexcept {
  const auto guard = hold();
  if (!failure_.ok()) return failure_.status();
  try {
    Operation& taken = take(arena_);
    Status status = choose(taken, args);
    if (!status.ok()) {
      give_back(taken);
      return status;
    }
    taken.keep_plans(plans_);
    taken.is_kept = true;
    taken.plan_number = ++created_plans_;
    taken.copies = std::move(copies);
    operation = &taken;
    return {};
  } catch (const std::bad_alloc&) {
    return Status::failure(Code::out_of_memory, "no memory for a plan");
  }
}

/// Requires the lock.
Status ScheduleTeam::check_idle(const Operation& operation) const noexcept {
  if (!failure_.ok()) return failure_.status();
  if (operation.under_way) return Status::failure(Code::invalid_argument, "the plan's last run isn't over");
  return {};
}

Status ScheduleTeam::may_start(const Operation& operation) const noexcept {
  const auto guard = hold();
  return check_idle(operation);
}

Status ScheduleTeam::start_kept(Operation& operation, std::uint64_t& ticket) noexcept {
  const Visit visit(fabric_.background, true, Entry::starts);
  if (const Status status = check_idle(operation); !status.ok()) return status;
  try {
    make_room();
  } catch (const std::bad_alloc&) {
    unshare_if_idle();
    return Status::failure(Code::out_of_memory, "no memory for a plan's run");
  }
  renew(operation);
  begin(operation, ticket);
  return {};
}

void ScheduleTeam::release_kept(Operation& operation) noexcept {
  const auto guard = hold();
  operation.is_kept = false;
  if (!operation.under_way) free_operation(operation);
}

void ScheduleTeam::record_call(Operation& operation, Signature signature) noexcept {
  history_.make_room(active_.size());
  if (operation.plan_number != 0) {
    history_.add_plan(Signature::plan_start(operation.plan_number, signature), signature);
  } else {
    history_.add(signature);
  }
  operation.call_number = history_.calls();
  operation.history = history_.word();
}

std::uint64_t ScheduleTeam::add_to_shared_history(Signature signature) noexcept {
  const auto guard = hold();
  unshare_if_idle();  // started calls may be complete, and their requests destroyed
  history_.add(signature);
  return history_.word();
}

std::uint64_t ScheduleTeam::taken(const Algorithm& algorithm) const noexcept {
  return taken_[static_cast<std::size_t>(&algorithm - schedule::algorithms().data())];
}

// ---- steps

int ScheduleTeam::step(By who) noexcept {
  if (!failure_.ok()) [[unlikely]] {
    failure_.relay();
    return 0;
  }
  if (check_alarm()) [[unlikely]]
    return 1;
  if (is_shared() && has_job_failed()) [[unlikely]]
    return 1;
  const std::uint64_t before = moves();
  bool stream_is_behind = false;
  for (std::size_t i = 0; i < active_.size(); ++i) {
    Operation& operation = *active_[i];
    if (operation.outcome.code != Code::in_progress) continue;
    if (who == By::thread && is_callers(operation)) continue;
    if (stream_is_behind && operation.waits_for_stream()) continue;
    const std::uint64_t steps = operation.steps_taken();
    const Status status = step(operation);
    count_moves(operation.steps_taken() - steps);
    if (status.code == Code::in_progress) {
      stream_is_behind = stream_is_behind || operation.waits_for_stream();
      continue;
    }
    count_moves();
    operation.outcome = status;
    operation.drop_plan();
    if (!status.ok()) {
      if (operation.has_different_turns()) different_largest_ = operation.counts();
      fail_locked(status, operation.call_number);
      break;
    }
    if (!operation.blocking()) {
      finish_operation(operation);
      --i;
    }
  }
  constexpr unsigned idle_rounds = 64;  // the owner reads the clock once per this many rounds without progress
  if (moves() == before && is_shared() && (who == By::thread || ++idle_ % idle_rounds == 0))
    waits_.check_started(base::now_ns());
  return static_cast<int>(moves() - before);
}

/// One operation, as far as it goes without waiting: its stream, its turn, the steps of each piece, its end.
Status ScheduleTeam::step(Operation& operation) noexcept {
  if (operation.waits_for_stream())
    if (const Status status = operation.poll_stream(); !status.ok()) return status;
  for (;;) {
    if (!operation.running()) {
      if (const Status status = await_turn(operation); !status.ok()) return status;
      try {
        if (const Status status = operation.load(plans_); !status.ok()) return status;
      } catch (const std::bad_alloc&) {
        return Status::failure(Code::out_of_memory, "no memory for a schedule");
      }
    }
    if (const Status status = operation.advance(); !status.ok()) return status;
    if (operation.blocking() && operation.synchronises()) numbers_.synchronised(operation.turn.number);
    if (!operation.next_piece()) break;
    operation.turn = operation.blocking() ? numbers_.next(operation.history, true)
                                          : operation.numbers.next(operation.history, false);
  }
  if (changes_single_contribution(operation.args())) [[unlikely]] {
    const CollectiveArgs& args = operation.args();
    const void* const in = args.output;
    args.reducer.kernel(&args.output, 1, &in, 1, args.call.irregular() ? args.call.counts[0] : args.call.count);
  }
  return {};
}

/// Ok when the guards before the operation's first step are complete. A guard's signals wake the peers' progress
/// threads unless the call is blocking, because the peers may be computing. A guard's word consists of its number
/// (upper bits) and the tag of its call. So ranks that wait for no message (each the root of its own broadcast) detect
/// their mismatch here.
Status ScheduleTeam::await_turn(Operation& operation) noexcept {
  const Turn& turn = operation.turn;
  if (guards_done_ >= turn.guard) return {};
  // A call in flight hasn't finished its current number; it has finished all numbers before.
  const auto has_finished_all = [&] {
    return std::ranges::none_of(active_, [&](const Operation* each) {
      return each->outcome.code == Code::in_progress && each->turn.number <= turn.before;
    });
  };
  if (!turn.runs_guard || guards_done_ + 1 < turn.guard || !has_finished_all()) return Status::in_progress();

  const std::uint64_t guard = turn.guard, word = guard << Arena::tag_bits | Arena::tag_of(turn.stamp);
  const auto signal = [&](int distance) noexcept {
    const int peer = (rank_ + distance) % size_;
    std::uint64_t ticket = 0;  // a signal without bytes has no source to wait for
    const Status status =
        rma::begin_put_signal(arena_.window(), peer, 0, nullptr, 0, Arena::guard_offset(guard_round_), word, ticket);
    if (!operation.blocking()) rma::nudge(arena_.window(), peer);
    return status;
  };
  if (guard_entered_ < guard) {
    guard_entered_ = guard;
    guard_round_ = 0;
    if (size_ > 1) {
      if (const Status status = signal(1); !status.ok()) return status;
    }
  }
  for (int distance = 1 << guard_round_; distance < size_; distance *= 2) {
    const std::uint64_t seen = arena_.word(Arena::guard_offset(guard_round_));
    if (seen >> Arena::tag_bits < guard) return Status::in_progress();
    if (seen >> Arena::tag_bits == guard && seen != word)
      return Status::failure(Code::mismatch, "ranks called different collectives",
                             arena_.world((rank_ + size_ - distance) % size_));
    ++guard_round_;
    count_moves();
    if (distance * 2 >= size_) break;
    if (const Status status = signal(distance * 2); !status.ok()) return status;
  }
  guards_done_ = guard;
  count_moves();
  return {};
}

/// True if this rank's result has a single contribution, and the operator changes it. Schedules only copy a single
/// contribution; land and lor change it.
bool ScheduleTeam::changes_single_contribution(const CollectiveArgs& args) const noexcept {
  if ((args.call.op != Op::land && args.call.op != Op::lor) || args.reducer.kernel == nullptr) return false;
  return reduces(args.call.collective) && contributions(args.call.collective, rank_, size_) == 1;
}

void ScheduleTeam::finish_operation(Operation& operation) noexcept {
  if (operation.copies != nullptr) [[unlikely]] {
    operation.lost = operation.copies->finish();
    if (!operation.lost.ok()) operation.lost_ticket = operation.ticket;
  }
  if (operation.place != nullptr) [[unlikely]] {
    operation.place->continue_stream();
    operation.place.reset();
  }
  operation.under_way = false;
  std::erase(active_, &operation);
  if (!operation.is_kept) free_operation(operation);
}

/// An operation whose output couldn't be copied keeps that status for its ticket, which may be tested at any time. So
/// it isn't reused.
void ScheduleTeam::free_operation(Operation& operation) noexcept {
  operation.copies.reset();
  if (operation.lost.ok()) give_back(operation);
}

bool ScheduleTeam::goes_on() const noexcept {
  if (!failure_.ok()) return failure_.is_relaying();
  return std::ranges::any_of(active_, [](const Operation* operation) {
    return operation->outcome.code == Code::in_progress && !is_callers(*operation);
  });
}

/// Streams execute the calls in order. While a call is in flight, its stream can reach the position of the next call,
/// but no later one. So only the first two calls need polling.
bool ScheduleTeam::waits_for_stream() const noexcept {
  if (!failure_.ok()) return false;
  int in_reach = 2;
  for (const Operation* const operation : active_) {
    if (operation->place == nullptr || operation->outcome.code != Code::in_progress) continue;
    if (operation->waits_for_stream()) return true;
    if (--in_reach == 0) return false;
  }
  return false;
}

/// Returns the awaited team rank; -1: none. Before its first step, an operation may wait in a guard.
int ScheduleTeam::awaited_by(const Operation& operation) const noexcept {
  if (operation.running()) return operation.awaited();
  return guard_entered_ > guards_done_ ? (rank_ + size_ - (1 << guard_round_) % size_) % size_ : -1;
}

}  // namespace hmc::collectives
