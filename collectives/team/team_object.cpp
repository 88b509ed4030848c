#include "collectives/team/team_object.hpp"

#include <utility>
#include <vector>

#include "collectives/team/team_exchange.hpp"
#include "runtime/rma/operation_scope.hpp"

namespace hmc::collectives {

namespace {

/// Uses the ranks per node if each node holds consecutive ranks and the same number of them (the last may hold fewer).
/// Otherwise treats each rank as its own node, which is correct but slower.
schedule::Shape shape_of(const rma::TeamCore& team) {
  const auto node_of = [&](int rank) { return team.fabric().peer(team.world_rank(rank)).node; };
  const int size = team.size();
  int run = 1;
  while (run < size && node_of(run) == node_of(0)) ++run;
  std::vector<bool> seen(team.fabric().peers.size());
  for (int rank = 0; rank < size; ++rank) {
    const auto node = static_cast<std::size_t>(node_of(rank));
    const bool begins = rank % run == 0;
    if (begins ? seen[node] : node_of(rank - 1) != node_of(rank)) return {size, 1};
    seen[node] = true;
  }
  return {size, run};
}

}  // namespace

// all_direct: each rank checks only its own peers, but all ranks get the same result. Load/store access is symmetric.
// With several nodes, each rank has a peer without load/store access.
void TeamObject::create_engines(const Settings& settings, const CreateMemory& create) {
  settings_ = settings;
  selector_.emplace(settings.algorithms, read_overrides(settings.rows, settings.rows_file), settings.parameters);
  const bool direct = all_direct();
  shape_ = direct ? schedule::Shape{size(), size(), true} : shape_of(*this);
  if (direct) {
    direct_ = std::make_unique<DirectTeam>(*this, settings.private_buffers);
    schedules_ = std::make_unique<ScheduleTeam>(*this, shape_, *selector_, settings.deterministic, create,
                                                DirectTeam::staging_at_start,
                                                [this](std::byte* part) { direct_->prepare(part); });
    direct_->join(*schedules_);
  } else {
    schedules_ = std::make_unique<ScheduleTeam>(*this, shape_, *selector_, settings.deterministic, create);
  }
  // The id of the team's first window, on which its ranks have agreed.
  agreed_id = static_cast<std::uint32_t>(schedules_->arena().window().id());
  // Earlier exchanges use the parent's schedules or the control plane: a failure of a collective of the world must not
  // reach a rank that is still in Runtime::init.
  use_exchange(std::make_shared<TeamExchange>(*this, *schedules_));
}

bool TeamObject::wants_schedule(const schedule::Call& call) const noexcept {
  const bool sizes_differ = call.collective == CollectiveKind::alltoall && call.irregular();
  if (sizes_differ) return selector_->may_want_schedule(shape_, call.collective);
  return selector_->wants_schedule(shape_, call.collective, extent_of(call) * call.element_bytes);
}

void TeamObject::log_first_direct(CollectiveKind collective) const noexcept {
  if (schedules_->rank() == 0)
    fabric().log.info("{}, {} ranks: direct, by load and store", name_of(collective), shape_.size);
}

TeamObject::~TeamObject() {
  if (is_world()) use_exchange(nullptr);
}

std::exception_ptr TeamObject::close_engines() {
  std::exception_ptr unheard;
  bool have_met = false;
  if (is_world()) {
    unheard = rma::barrier_before_close(fabric(), exchange());
    have_met = schedules_->failure().ok();
    if (have_met && unheard == nullptr && messages != nullptr) messages->report_unreceived();
    if (!have_met) use_exchange(nullptr);
  }
  if (const auto last = std::move(streams)) {  // destroyed with its words on return, also after an exception
    try {
      last->close();
    } catch (const Error&) {
      if (!is_world()) throw;  // no rank has closed it: all ranks may call again
      if (unheard == nullptr) unheard = std::current_exception();
    }
  }
  if (have_met) {
    direct_.reset();  // no rank accesses another's part any more, so no further synchronization is needed
  } else if (direct_) {
    rma::close_step(unheard, [&] { direct_->close(); });
  }
  // The world's schedules use the last window to be closed.
  if (is_world()) use_exchange(nullptr);
  rma::close_step(unheard, [&] { schedules_->close(); });
  return unheard;
}

void refuse_closed(const TeamObject* team, const char* operation) {
  if (team == nullptr) throw Error(Code::closed, operation, "the team is empty: this rank isn't a member");
  if (team->fabric().is_forked() || !team->closed) rma::throw_closed_runtime(team->fabric(), operation);
  throw Error(Code::closed, operation, "the team is closed");
}

}  // namespace hmc::collectives
