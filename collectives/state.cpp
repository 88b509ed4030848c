#include "collectives/state.hpp"

#include <algorithm>

#include "collectives/attach.hpp"

namespace hmc::collectives {

namespace {

/// Ranks per node, where nodes are runs of equal length (the last may be shorter); else every rank counts as a
/// node of its own, which is right and takes no advantage.
schedule::Shape shape_of(window::TeamCore& team) {
  window::Fabric& fabric = team.fabric();
  base::ByteWriter mine;
  mine.number(static_cast<std::int32_t>(fabric.node_link->members().front()));
  const auto answers = fabric.exchange->allgather(mine.view(), fabric.deadline());
  std::vector<int> first;  // by rank: of its node
  for (const base::Bytes& answer : answers) {
    base::ByteReader in(answer);
    first.push_back(static_cast<int>(in.number<std::int32_t>()));
    if (!in.complete()) throw Error(Code::refused, "Runtime::init", "a rank sent a malformed node");
  }
  const int size = team.size();
  const auto run = static_cast<int>(std::count(first.begin(), first.end(), 0));
  for (int rank = 0; rank < size; ++rank)
    if (first[static_cast<std::size_t>(rank)] != rank / run * run) return {size, 1};
  return {size, run};
}

bool all_direct(const window::Fabric& fabric) {
  // A wire serves a pair both ways, and whether a peer is on my node is the same seen from it; so one
  // look at my own paths would miss pairs that don't include me: with several nodes each rank has a peer
  // that it can't reach directly, hence all see the same answer.
  return std::all_of(fabric.paths.begin(), fabric.paths.end(), [](const Path& path) { return path.direct; });
}

}  // namespace

State::State(window::TeamCore& team, const Settings& settings)
    : selector_(settings.algorithms), deterministic_(settings.deterministic) {
  const bool direct = all_direct(team.fabric());
  shape_ = direct ? schedule::Shape{team.size(), team.size()} : shape_of(team);
  if (direct) direct_ = std::make_unique<DirectTeam>(team);
  schedules_ = std::make_unique<ScheduleTeam>(team, shape_, selector_);
}

void State::close() {
  if (direct_) direct_->close();
  schedules_->close();
}

void attach(window::TeamCore& team, const Settings& settings) {
  team.collectives = std::make_unique<State>(team, settings);
}

}  // namespace hmc::collectives
