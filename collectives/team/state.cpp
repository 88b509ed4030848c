#include "collectives/team/state.hpp"

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
State::State(rma::TeamCore& team, const Settings& settings, const CreateMemory& create)
    : team_(team),
      selector_(settings.algorithms, read_overrides(settings.rows, settings.rows_file), settings.parameters),
      settings_(settings),
      log_(team.fabric().log) {
  const bool direct = team.all_direct();
  shape_ = direct ? schedule::Shape{team.size(), team.size(), true} : shape_of(team);
  if (direct) {
    direct_ = std::make_unique<DirectTeam>(team, settings.private_buffers);
    schedules_ = std::make_unique<ScheduleTeam>(team, shape_, selector_, settings.deterministic, create,
                                                DirectTeam::staging_at_start,
                                                [this](std::byte* part) { direct_->prepare(part); });
    direct_->join(*schedules_);
  } else {
    schedules_ = std::make_unique<ScheduleTeam>(team, shape_, selector_, settings.deterministic, create);
  }
  // The id of the team's first window, on which its ranks have agreed.
  team.agreed_id = static_cast<std::uint32_t>(schedules_->arena().window().id());
  // Earlier exchanges use the parent's schedules or the control plane: a failure of a collective of the world must not
  // reach a rank that is still in Runtime::init.
  team.use_exchange(std::make_shared<TeamExchange>(team, *schedules_));
}

bool State::wants_schedule(const schedule::Call& call) const noexcept {
  const bool sizes_differ = call.collective == schedule::Collective::alltoall && call.irregular();
  if (sizes_differ) return selector_.may_want_schedule(shape_, call.collective);
  return selector_.wants_schedule(shape_, call.collective, extent_of(call) * call.element_bytes);
}

void State::log_first_direct(schedule::Collective collective) const noexcept {
  if (schedules_->rank() == 0) log_.info("{}, {} ranks: direct, by load and store", name_of(collective), shape_.size);
}

State::~State() {
  if (team_.is_world()) team_.use_exchange(nullptr);
}

std::exception_ptr State::close() {
  std::exception_ptr unheard;
  bool have_met = false;
  if (team_.is_world()) {
    unheard = rma::barrier_before_close(team_.fabric(), team_.exchange());
    have_met = schedules_->failure().ok();
    if (have_met && unheard == nullptr && team_.messages != nullptr) team_.messages->report_unreceived();
    if (!have_met) team_.use_exchange(nullptr);
  }
  if (const auto last = std::move(streams)) {  // destroyed with its words on return, also after an exception
    try {
      last->close();
    } catch (const Error&) {
      if (!team_.is_world()) throw;  // no rank has closed it: all ranks may call again
      if (unheard == nullptr) unheard = std::current_exception();
    }
  }
  if (have_met) {
    direct_.reset();  // no rank accesses another's part any more, so no further synchronization is needed
  } else if (direct_) {
    rma::close_step(unheard, [&] { direct_->close(); });
  }
  // The world's schedules use the last window to be closed.
  if (team_.is_world()) team_.use_exchange(nullptr);
  rma::close_step(unheard, [&] { schedules_->close(); });
  return unheard;
}

void OpenTeam::refuse(const std::shared_ptr<rma::TeamCore>& team, const char* operation) {
  if (team == nullptr) throw Error(Code::closed, operation, "the team is empty: this rank isn't a member");
  if (team->fabric().is_forked() || !team->closed) rma::throw_closed_runtime(team->fabric(), operation);
  throw Error(Code::closed, operation, "the team is closed");
}

void attach(rma::TeamCore& team, const Settings& settings, const CreateMemory& create) {
  team.collectives = std::make_unique<State>(team, settings, create);
}

}  // namespace hmc::collectives
