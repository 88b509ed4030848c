#include "collectives/state/state.hpp"

#include <utility>
#include <vector>

#include "collectives/execute/team_exchange.hpp"
#include "collectives/state/attach.hpp"
#include "collectives/state/calls_on_streams.hpp"
#include "runtime/window/operation_scope.hpp"

namespace hmc::collectives {

namespace {

/// Ranks per node, where nodes are runs of equal length (the last may be shorter); else every rank counts as a
/// node of its own, which is right and takes no advantage.
schedule::Shape shape_of(const window::TeamCore& team) {
  const auto node_of = [&](int rank) { return team.fabric().node_of[static_cast<std::size_t>(team.world_rank(rank))]; };
  const int size = team.size();
  int run = 1;
  while (run < size && node_of(run) == node_of(0)) ++run;
  std::vector<bool> seen(team.fabric().node_of.size());
  for (int rank = 0; rank < size; ++rank) {
    const auto node = static_cast<std::size_t>(node_of(rank));
    const bool begins = rank % run == 0;
    if (begins ? seen[node] : node_of(rank - 1) != node_of(rank)) return {size, 1};
    seen[node] = true;
  }
  return {size, run};
}

}  // namespace

// all_direct: a wire serves a pair both ways, and whether a peer is on my node is the same seen from it; so one look at
// my own paths would miss pairs that don't include me: with several nodes each rank has a peer that it can't reach
// directly, hence all see the same answer.
State::State(window::TeamCore& team, const Settings& settings)
    : team_(team),
      selector_(settings.algorithms, read_overrides(settings.rows, settings.rows_file), settings.parameters),
      settings_(settings),
      log_(team.fabric().log) {
  const bool direct = team.all_direct();
  shape_ = direct ? schedule::Shape{team.size(), team.size()} : shape_of(team);
  schedules_ = std::make_unique<ScheduleTeam>(team, shape_, selector_);
  if (!team.is_world()) team.use_exchange(std::make_shared<TeamExchange>(team, *schedules_));
  if (direct) {
    direct_ = std::make_unique<DirectTeam>(team, settings.private_buffers);
    direct_->join(*schedules_);
  }
  // What ends the world's calls mustn't reach a rank that is still in Runtime::init: all of that is by the control
  // plane.
  if (team.is_world()) team.use_exchange(std::make_shared<TeamExchange>(team, *schedules_));
}

void State::tell_direct(schedule::Collective collective) const noexcept {
  if (schedules_->rank() == 0) log_.info("{}, {} ranks: direct, by load and store", name_of(collective), shape_.size);
}

State::~State() {
  if (team_.is_world()) team_.use_exchange(nullptr);
}

std::exception_ptr State::close() {
  std::exception_ptr unheard;
  bool have_met = false;
  if (team_.is_world()) {
    unheard = window::meet_to_close(team_.fabric(), team_.exchange());
    have_met = schedules_->failure().ok();
    if (!have_met) team_.use_exchange(nullptr);
  }
  if (const auto last = std::move(streams)) {  // goes with its words, whatever it throws
    try {
      last->close();
    } catch (const Error&) {
      if (!team_.is_world()) throw;  // nobody has closed: all may call again
      if (unheard == nullptr) unheard = std::current_exception();
    }
  }
  if (have_met) {
    direct_.reset();  // nobody reads or writes another's part of it any more, so it goes without another round
  } else if (direct_) {
    window::close_step(unheard, [&] { direct_->close(); });
  }
  // The last of the world's windows is what its schedules go through.
  if (team_.is_world()) team_.use_exchange(nullptr);
  window::close_step(unheard, [&] { schedules_->close(); });
  return unheard;
}

void attach(window::TeamCore& team, const Settings& settings) {
  team.collectives = std::make_unique<State>(team, settings);
}

}  // namespace hmc::collectives
