// Collectives in flight: the place where a reader of Team::iallreduce, plan_allreduce and Plan starts. They always run
// by a schedule. Device buffers are staged through host memory.
#include <hmc/team.hpp>

#include <utility>

#include "collectives/args/check.hpp"
#include "collectives/dispatch/staging.hpp"

namespace hmc {

using base::Status;
using collectives::CollectiveArgs;
using collectives::Copies;
using collectives::Form;
using collectives::ScheduleTeam;
using collectives::TeamObject;

Request Team::start(const Collective& call) {
  const char* const name = name_of(call, Form::start);
  TeamObject& team = collectives::open(object_, name);
  CollectiveArgs args = collectives::check(team, call, name, Form::start);
  Copies copies;
  if (device::need_host_copies(args.input, args.output)) [[unlikely]] {
    or_fail_all(team, [&] { copies = replace_buffers(team, args); });
    take(team, *copies, name);
  }
  ScheduleTeam& schedules = team.schedules();
  std::uint64_t ticket = 0;
  if (const Status status = schedules.start(args, ticket, std::move(copies)); !status.ok())
    schedules.throw_error(status, name, args.bytes());
  return schedules.request_of(ticket, name);
}

Plan Team::plan(const Collective& call) {
  const char* const name = name_of(call, Form::plan);
  TeamObject& team = collectives::open(object_, name);
  CollectiveArgs args = collectives::check(team, call, name, Form::plan);
  Copies copies;
  if (device::need_host_copies(args.input, args.output)) [[unlikely]]
    copies = replace_buffers(team, args);
  ScheduleTeam& schedules = team.schedules();
  collectives::Operation* operation = nullptr;
  if (const Status status = schedules.prepare_kept(args, operation, std::move(copies)); !status.ok())
    schedules.throw_error(status, name, args.bytes());
  return {object_, operation, name};
}

void Plan::start() {
  if (operation_ == nullptr) throw Error(Code::invalid_argument, "Plan::start", "an empty plan");
  TeamObject& team = collectives::open(team_, name_);
  ScheduleTeam& schedules = team.schedules();
  const auto require = [&](const Status& status) {
    if (!status.ok()) schedules.throw_error(status, name_, operation_->args().bytes());
  };
  if (operation_->copies != nullptr) [[unlikely]] {
    // The progress thread may still complete the last run. Copy the input only after that.
    require(schedules.may_start(*operation_));
    take(team, *operation_->copies, name_);
  }
  std::uint64_t ticket = 0;
  require(schedules.start_kept(*operation_, ticket));
  request_ = schedules.request_of(ticket, name_);
}

Plan::Plan(Plan&& other) noexcept
    : team_(std::move(other.team_)),
      operation_(std::exchange(other.operation_, nullptr)),
      name_(other.name_),
      request_(std::exchange(other.request_, Request())) {}

Plan& Plan::operator=(Plan&& other) noexcept {
  if (this == &other) return *this;
  release();
  team_ = std::move(other.team_);
  operation_ = std::exchange(other.operation_, nullptr);
  name_ = other.name_;
  request_ = std::exchange(other.request_, Request());
  return *this;
}

Plan::~Plan() { release(); }

void Plan::release() noexcept {
  if (operation_ != nullptr && !team_->fabric().is_forked()) team_->schedules().release_kept(*operation_);
  operation_ = nullptr;
  static_cast<void>(request_.release());  // the run goes on
}

}  // namespace hmc
