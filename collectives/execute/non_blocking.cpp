// Operations that go on while the caller does something else.
#include <algorithm>
#include <new>
#include <utility>

#include "collectives/execute/schedule_team.hpp"
#include "collectives/failure.hpp"

namespace hmc::collectives {

using base::Status;

namespace {

/// A ticket: how often its operation has run, above where it is found.
constexpr unsigned index_bits = 20;

}  // namespace

Operation& ScheduleTeam::take_operation() {
  if (free_.empty()) {
    operations_.push_back(std::make_unique<Operation>(arena_));
    Operation& added = *operations_.back();
    added.ticket = operations_.size();
    free_.reserve(operations_.size());
    active_.reserve(operations_.size() + 1);
    return added;
  }
  Operation& taken = *free_.back();
  free_.pop_back();
  return taken;
}

/// All of its turns are reserved now, so that they stand in the order of the calls on every rank; see Numbering.
Status ScheduleTeam::begin(Operation& operation, std::uint64_t& ticket) noexcept {
  tidy();
  enter(operation, operation.given().signature);
  operation.start(false);
  operation.numbers = numbers_;
  for (std::uint64_t i = 0; i < operation.turns(); ++i) static_cast<void>(numbers_.next(operation.history, false));
  operation.turn = operation.numbers.next(operation.history, false);
  operation.ticket += std::uint64_t{1} << index_bits;
  operation.under_way = true;
  ticket = operation.ticket;
  active_.push_back(&operation);
  begin_piece(operation);
  if (!driven_) fabric_.waiter.add_progress(this);
  driven_ = true;
  progress();
  return {};
}

Status ScheduleTeam::start(const Given& given, std::uint64_t& ticket) noexcept {
  if (!failure_.ok()) [[unlikely]]
    return failure_;
  try {
    Operation& operation = take_operation();
    if (const Status status = prepare(operation, given); !status.ok()) {
      free_.push_back(&operation);
      return status;
    }
    return begin(operation, ticket);
  } catch (const std::bad_alloc&) {
    return Status::failure(Code::out_of_memory, "no memory for an operation");
  }
}

void ScheduleTeam::retire(Operation& operation) noexcept {
  operation.under_way = false;
  std::erase(active_, &operation);
  if (!operation.is_kept) free_.push_back(&operation);
}

/// Outside of the waiter's round through what it drives: when nothing is under way it need not look here.
void ScheduleTeam::tidy() noexcept {
  if (!driven_ || !active_.empty()) return;
  fabric_.waiter.remove_progress(this);
  driven_ = false;
}

Status ScheduleTeam::test(std::uint64_t ticket) noexcept {
  const std::size_t index = (ticket & ((std::uint64_t{1} << index_bits) - 1)) - 1;
  const Operation& operation = *operations_[index];
  const auto over = [&]() noexcept { return operation.ticket != ticket || !operation.under_way; };
  for (int look = 0; look < 2; ++look) {
    if (over()) {
      tidy();
      return outcome_of(operation, ticket);
    }
    if (!failure_.ok()) return failure_;
    progress();
    if (look == 0 && !over())
      for (const auto& wire : fabric_.wires) wire->progress();
  }
  if (over()) return outcome_of(operation, ticket);
  return failure_.ok() ? Status::in_progress() : failure_;
}

/// An alltoallv whose counts didn't match has failed alone: the team goes on.
Status ScheduleTeam::outcome_of(const Operation& operation, std::uint64_t ticket) noexcept {
  uneven_ = operation.uneven_ticket == ticket ? &operation : nullptr;
  return uneven_ == nullptr ? Status{} : Status::failure(Code::mismatch, "counts don't match");
}

void ScheduleTeam::expired(std::uint64_t ticket) noexcept {
  const Operation& operation = *operations_[(ticket & ((std::uint64_t{1} << index_bits) - 1)) - 1];
  fail(Status::failure(Code::timeout, "the deadline passed", arena_.world(awaited_by(operation))),
       operation.call_number);
}

void ScheduleTeam::throw_failure(const Status& status, const char* operation) {
  if (uneven_ != nullptr) throw uneven_error(team_, operation, std::exchange(uneven_, nullptr)->uneven);
  collectives::throw_failure(team_, *this, status, operation, 0);
}

Request ScheduleTeam::request_of(std::uint64_t ticket, const char* operation) const {
  return Request::from_raw({arena_.shared_window().get(), ticket, operation, source_index_, -1});
}

Status ScheduleTeam::prepare_kept(const Given& given, Operation*& operation) noexcept {
  if (!failure_.ok()) return failure_;
  try {
    Operation& taken = take_operation();
    Status status = prepare(taken, given);
    if (!status.ok()) {
      free_.push_back(&taken);
      return status;
    }
    taken.keep_plans(plans_);
    taken.is_kept = true;
    operation = &taken;
    return {};
  } catch (const std::bad_alloc&) {
    return Status::failure(Code::out_of_memory, "no memory for a plan");
  }
}

Status ScheduleTeam::start_kept(Operation& operation, std::uint64_t& ticket) noexcept {
  if (!failure_.ok()) return failure_;
  if (operation.under_way) return Status::failure(Code::invalid_argument, "the plan's last run isn't over");
  return begin(operation, ticket);
}

void ScheduleTeam::release_kept(Operation& operation) noexcept {
  operation.is_kept = false;
  if (!operation.under_way) free_.push_back(&operation);
}

}  // namespace hmc::collectives
