// ScheduleTeam: non-blocking and persistent operations.
#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "collectives/network/schedule_team.hpp"

namespace hmc::collectives {

using base::Status;

/// Starts an operation. Requires an earlier make_room(), so that no step can fail. Reserves all turns of the operation,
/// so that turns are in call order on every rank; see Numbering.
Status ScheduleTeam::begin(Operation& operation, std::uint64_t& ticket) noexcept {
  record_call(operation, operation.args().signature);
  operation.start(false);
  operation.numbers = numbers_;
  for (std::uint64_t i = 0; i < operation.turns(); ++i) static_cast<void>(numbers_.next(operation.history, false));
  operation.turn = operation.numbers.next(operation.history, false);
  operation.under_way = true;
  ticket = operation.ticket;
  active_.push_back(&operation);
  operation.outcome = Status::in_progress();
  step(By::owner);
  return {};
}

Status ScheduleTeam::start(const CollectiveArgs& args, std::uint64_t& ticket,
                           std::unique_ptr<device::HostCopies> copies, std::unique_ptr<StreamPosition> place) noexcept {
  const Visit visit(fabric_.background, true, Entry::starts);
  if (!failure_.ok()) [[unlikely]]
    return failure_.status();
  try {
    make_room();
    Operation& operation = take(arena_);
    operation.plan_number = 0;
    if (const Status status = prepare(operation, args); !status.ok()) {
      give_back(operation);
      unshare_if_idle();
      return status;
    }
    operation.copies = std::move(copies);
    operation.place = std::move(place);
    return begin(operation, ticket);
  } catch (const std::bad_alloc&) {
    return Status::failure(Code::out_of_memory, "no memory for an operation");
  }
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

/// Three failures affect only one call, and the team stays usable: mismatched counts of an alltoallv, a wrong `largest`
/// of one, and an output that couldn't be copied to this rank's device. Called outside of the waiter's loop over its
/// progress sources.
Status ScheduleTeam::outcome_of(Operation& operation, std::uint64_t ticket) noexcept {
  count_mismatch_ = operation.count_mismatch_ticket == ticket ? &operation : nullptr;
  wrong_largest_ = operation.wrong_largest_ticket == ticket ? &operation : nullptr;
  if (count_mismatch_ != nullptr) return Status::failure(Code::mismatch, "counts don't match");
  if (wrong_largest_ != nullptr) return Status::failure(Code::invalid_argument, "`largest` is wrong");
  return operation.lost_ticket == ticket ? operation.lost : Status{};
}

void ScheduleTeam::expired(std::uint64_t ticket) noexcept {
  const auto guard = hold();
  const Operation& operation = operation_of(ticket);
  fail_locked(Status::failure(Code::timeout, "the deadline passed", arena_.world(awaited_by(operation))),
              operation.call_number);
}

Status ScheduleTeam::abort_dropped(const Operation& operation, const char* call) noexcept {
  try {
    const std::string team = team_.is_world() ? "the world" : fmt::format("a team, as its rank {}", rank_);
    return rma::abort_dropped(fabric_,
                              fmt::format("{} on {} of {} ranks", operation.args().signature.text(), team, size_));
  } catch (const std::exception&) {  // no memory for the text
    return rma::abort_dropped(fabric_, call);
  }
}

void ScheduleTeam::throw_failure(const Status& status, const char* operation) {
  if (const Operation* const met = std::exchange(count_mismatch_, nullptr))
    throw count_mismatch_error(team_, operation, met->count_mismatch, met->my_count_mismatch());
  if (const Operation* const met = std::exchange(wrong_largest_, nullptr))
    throw wrong_largest_error(team_, operation, met->counts());
  throw_error(status, operation);
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
    Status status = prepare(taken, args);
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
    return Status::failure(Code::out_of_memory, "no memory for a plan's run");
  }
  renew(operation);
  return begin(operation, ticket);
}

void ScheduleTeam::release_kept(Operation& operation) noexcept {
  const auto guard = hold();
  operation.is_kept = false;
  if (!operation.under_way) free_operation(operation);
}

}  // namespace hmc::collectives
