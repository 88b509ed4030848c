#include "collectives/team/derive.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/network/schedule_team.hpp"
#include "collectives/team/team_exchange.hpp"
#include "runtime/base/fields.hpp"
#include "runtime/rma/operation_scope.hpp"

namespace hmc::collectives {

using rma::TeamCore;

namespace {

enum class How : std::uint8_t { split, subset, duplicate, node_team, leaders };
const char* name_of(How how) noexcept {
  constexpr const char* names[] = {"split", "subset", "duplicate", "node_team", "leaders"};
  const auto index = static_cast<std::size_t>(how);
  return index < std::size(names) ? names[index] : "unknown";
}

/// One rank's arguments. Every form of team creation is a split by colour and key.
struct Wish {
  How how = How::split;
  std::int32_t colour = -1;
  std::int32_t key = 0;
  std::uint64_t list = 0;  ///< of a subset: a hash of the ranks
  std::string fault;       ///< why this rank's arguments are invalid; empty if they are valid
  static constexpr auto fields = std::tuple(&Wish::how, &Wish::colour, &Wish::key, &Wish::list, &Wish::fault);
};

Wish decode(base::ByteView bytes, int world) {
  auto wish = base::decode<Wish>(bytes);
  if (!wish) throw Error(Code::refused, "split", fmt::format("world rank {} sent a malformed wish", world));
  return *std::move(wish);
}

[[noreturn]] void refuse(TeamObject& parent, const Wish& mine, Code code, int guilty, std::string text) {
  ErrorDetail detail;
  detail.code = code;
  detail.operation = name_of(mine.how);
  detail.rank = parent.fabric().rank;
  detail.peer = parent.world_rank(guilty);
  detail.message = std::move(text);
  throw Error(std::move(detail));
}

/// Every rank checks the same arguments, so all throw the same error.
void require_agreement(TeamObject& parent, const std::vector<Wish>& wishes) {
  const Wish& mine = wishes[static_cast<std::size_t>(parent.rank())];
  const Wish& first = wishes.front();
  const int first_world = parent.world_rank(0);
  for (std::size_t i = 0; i < wishes.size(); ++i) {
    const Wish& wish = wishes[i];
    const int rank = static_cast<int>(i);
    const int world = parent.world_rank(rank);
    if (wish.how != first.how)
      refuse(parent, mine, Code::mismatch, rank,
             fmt::format("world rank {} called {}, world rank {} called {}", first_world, name_of(first.how), world,
                         name_of(wish.how)));
    if (!wish.fault.empty())
      refuse(parent, mine, Code::invalid_argument, rank, fmt::format("world rank {}: {}", world, wish.fault));
    if (wish.list != first.list)
      refuse(parent, mine, Code::mismatch, rank,
             fmt::format("world ranks {} and {} gave different lists of ranks", first_world, world));
  }
}

/// Ranks of the parent that join this rank's team, in the team's order.
std::vector<int> group_of(const std::vector<Wish>& wishes, int rank) {
  const auto wish_of = [&](int of) -> const Wish& { return wishes[static_cast<std::size_t>(of)]; };
  std::vector<int> group;
  if (wish_of(rank).colour < 0) return group;
  for (int each = 0; each < static_cast<int>(wishes.size()); ++each)
    if (wish_of(each).colour == wish_of(rank).colour) group.push_back(each);
  std::stable_sort(group.begin(), group.end(), [&](int a, int b) { return wish_of(a).key < wish_of(b).key; });
  return group;
}

/// Rounds of Core::create for the arena: sizes, descriptions, agreement.
constexpr int arena_rounds = 3;

std::shared_ptr<TeamObject> make(TeamObject& parent, const Wish& mine) {
  TeamExchange exchange(parent, parent.schedules());
  rma::Fabric& fabric = parent.fabric();
  const rma::OperationScope user(fabric, name_of(mine.how), base::SetupCall::team);
  const std::vector<base::Bytes> answers = rma::allgather_for(fabric, exchange, base::encode(mine), fabric.deadline());
  std::vector<Wish> wishes;
  for (std::size_t rank = 0; rank < answers.size(); ++rank)
    wishes.push_back(decode(answers[rank], parent.world_rank(static_cast<int>(rank))));
  require_agreement(parent, wishes);

  const std::vector<int> group = group_of(wishes, parent.rank());
  const auto me = static_cast<int>(std::find(group.begin(), group.end(), parent.rank()) - group.begin());
  const auto rounds = std::make_shared<GroupExchange>(exchange, group, me, arena_rounds);
  if (group.empty()) {
    rounds->finish(fabric.deadline());
    return nullptr;
  }
  std::vector<int> members;
  for (const int rank : group) members.push_back(parent.world_rank(rank));
  const auto team = base::make_owned<TeamObject>(parent.shared_fabric(), std::move(members), me);
  team->use_exchange(rounds);
  try {
    team->create_engines(parent.settings());
  } catch (...) {
    try {
      rounds->finish(fabric.deadline());
    } catch (const Error&) {
      // The parent has failed. The exception in flight names the cause.
    }
    throw;
  }
  return team;
}

std::uint64_t hash_of(std::span<const int> ranks) noexcept {
  std::uint64_t hash = 0x9e3779b97f4a7c15U + ranks.size();
  for (const int rank : ranks) {
    hash = (hash ^ static_cast<std::uint32_t>(rank)) * 0xd1342543de82ef95U;
    hash ^= hash >> 29;
  }
  return hash;
}

std::string fault_of(std::span<const int> ranks, int size) {
  std::vector<bool> seen(static_cast<std::size_t>(size));
  for (const int rank : ranks) {
    if (rank < 0 || rank >= size) return fmt::format("there is no rank {} in a team of {}", rank, size);
    if (seen[static_cast<std::size_t>(rank)]) return fmt::format("rank {} stands in the list twice", rank);
    seen[static_cast<std::size_t>(rank)] = true;
  }
  return {};
}

int node_of(const TeamCore& team, int rank) { return team.fabric().peer(team.world_rank(rank)).node; }

}  // namespace

std::shared_ptr<TeamObject> split(TeamObject& parent, int colour, int key) {
  return make(parent, {How::split, colour, key, 0, {}});
}

std::shared_ptr<TeamObject> subset(TeamObject& parent, std::span<const int> ranks) {
  const auto place = std::find(ranks.begin(), ranks.end(), parent.rank());
  return make(parent, {How::subset, place == ranks.end() ? -1 : 0, static_cast<std::int32_t>(place - ranks.begin()),
                       hash_of(ranks), fault_of(ranks, parent.size())});
}

std::shared_ptr<TeamObject> duplicate(TeamObject& parent) {
  return make(parent, {How::duplicate, 0, parent.rank(), 0, {}});
}

std::shared_ptr<TeamObject> node_team(TeamObject& parent) {
  return make(parent, {How::node_team, node_of(parent, parent.rank()), parent.rank(), 0, {}});
}

std::shared_ptr<TeamObject> leaders(TeamObject& parent) {
  int first = 0;
  while (node_of(parent, first) != node_of(parent, parent.rank())) ++first;
  return make(parent, {How::leaders, first == parent.rank() ? 0 : -1, parent.rank(), 0, {}});
}

void close(TeamObject& team) {
  rma::Fabric& fabric = team.fabric();
  const rma::OperationScope user(fabric, "Team::close", base::SetupCall::team_close);
  ScheduleTeam& schedules = team.schedules();
  if (const base::Status status = schedules.drain(); !status.ok()) schedules.throw_error(status, "Team::close");
  base::ByteWriter mine;
  mine.number(static_cast<std::int32_t>(team.open_windows));
  TeamExchange exchange(team, schedules);
  const auto answers = rma::allgather_for(fabric, exchange, mine.view(), fabric.deadline());
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    base::ByteReader in(answers[rank]);
    const auto open = in.number<std::int32_t>();
    if (open == 0 && in.complete()) continue;
    throw Error(
        Code::invalid_argument, "Team::close",
        fmt::format("world rank {} has {} windows of the team open", team.world_rank(static_cast<int>(rank)), open),
        "close a team's windows before the team");
  }
  (void)team.close_engines();  // not the world, so the result is always empty
  team.closed = true;
}

}  // namespace hmc::collectives
