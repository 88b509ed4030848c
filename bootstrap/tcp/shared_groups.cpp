#include "bootstrap/tcp/shared_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hmc::bootstrap {

namespace {

/// The wanted rank or the lowest free one; -1: it is in use, or all are.
template <typename Ranks> std::int64_t free_rank(const Ranks& ranks, std::int64_t size, std::int64_t wanted) {
  if (wanted >= 0) return ranks.contains(wanted) ? -1 : wanted;
  for (std::int64_t rank = 0; rank < size; ++rank)
    if (!ranks.contains(rank)) return rank;
  return -1;
}

std::string refusal_of(const StoreCall& call) {
  if (call.key.size() > store_longest_key) return fmt::format("a name has at most {} bytes", store_longest_key);
  if (call.number < 1 || call.number > store_most_members)
    return fmt::format("{} ranks: 1 to {} are allowed", call.number, store_most_members);
  if (call.other >= call.number) return fmt::format("rank {} of {}", call.other, call.number);
  return {};
}

std::string in_use_text(std::int64_t wanted, std::int64_t size) {
  return wanted >= 0 ? fmt::format("rank {} is in use", wanted) : fmt::format("all {} ranks are in use", size);
}

}  // namespace

// ---- SharedRanks

bool SharedRanks::handle(StoreOwner from, const StoreCall& call) {
  if (call.op < StoreOp::acquire_rank || call.op > StoreOp::exit || call.op == StoreOp::barrier ||
      call.op == StoreOp::allgather)
    return false;
  const auto entry = prefixes_.try_emplace(call.key).first;
  Prefix& prefix = entry->second;
  switch (call.op) {
    case StoreOp::acquire_rank: acquire_rank(from, call, prefix); break;
    case StoreOp::release_rank: sink_.ok(from, call.id, release(from, prefix) ? 1 : 0); break;
    case StoreOp::watch_ranks:
      sink_.ok(from, call.id);
      for (const auto& [rank, owner] : prefix.ranks)
        sink_.event(from, {static_cast<std::uint64_t>(call.number), StoreEvent::Kind::rank, rank, true, 0, {}});
      prefix.rank_watches.push_back({from, static_cast<std::uint64_t>(call.number)});
      break;
    case StoreOp::acquire_number: acquire_number(from, call, prefix); break;
    case StoreOp::release_number: release_number(from, call, prefix); break;
    case StoreOp::watch_exit:
      sink_.ok(from, call.id);
      prefix.exit_watches.push_back({from, static_cast<std::uint64_t>(call.number)});
      if (prefix.has_exited)
        sink_.event(from, {prefix.exit_watches.back().number, StoreEvent::Kind::exit, prefix.status, true, 0, {}});
      break;
    default:  // exit
      sink_.ok(from, call.id);
      if (std::exchange(prefix.has_exited, true)) break;
      prefix.status = call.number;
      for (const Watch& each : prefix.exit_watches)
        sink_.event(each.owner, {each.number, StoreEvent::Kind::exit, prefix.status, true, 0, {}});
  }
  if (prefix.is_unused()) prefixes_.erase(entry);
  return true;
}

void SharedRanks::acquire_rank(StoreOwner from, const StoreCall& call, Prefix& prefix) {
  if (const std::string why = refusal_of(call); !why.empty())
    return sink_.fail(from, call.id, Code::invalid_argument, why);
  const auto mine =
      std::find_if(prefix.ranks.begin(), prefix.ranks.end(), [&](const auto& each) { return each.second == from; });
  if (mine != prefix.ranks.end()) return sink_.ok(from, call.id, mine->first);
  const std::int64_t rank = free_rank(prefix.ranks, call.number, call.other);
  if (rank < 0) return sink_.fail(from, call.id, Code::unavailable, in_use_text(call.other, call.number));
  prefix.ranks[rank] = from;
  sink_.ok(from, call.id, rank);
  notify(prefix, rank, true);
}

bool SharedRanks::release(StoreOwner owner, Prefix& prefix) {
  const auto mine =
      std::find_if(prefix.ranks.begin(), prefix.ranks.end(), [&](const auto& each) { return each.second == owner; });
  if (mine == prefix.ranks.end()) return false;
  const std::int64_t rank = mine->first;
  prefix.ranks.erase(mine);
  notify(prefix, rank, false);
  return true;
}

void SharedRanks::notify(const Prefix& prefix, std::int64_t rank, bool alive) {
  for (const Watch& each : prefix.rank_watches)
    sink_.event(each.owner, {each.number, StoreEvent::Kind::rank, rank, alive, 0, {}});
}

void SharedRanks::acquire_number(StoreOwner from, const StoreCall& call, Prefix& prefix) {
  if (call.number < 1 || call.number > store_most_numbers)
    return sink_.fail(from, call.id, Code::invalid_argument,
                      fmt::format("the limit {} isn't in 1..{}", call.number, store_most_numbers));
  for (std::int64_t number = 0; number < call.number; ++number) {
    if (prefix.numbers[static_cast<std::size_t>(number)]) continue;
    prefix.numbers.set(static_cast<std::size_t>(number));
    return sink_.ok(from, call.id, number);
  }
  sink_.fail(from, call.id, Code::unavailable, fmt::format("all numbers below {} are in use", call.number));
}

void SharedRanks::release_number(StoreOwner from, const StoreCall& call, Prefix& prefix) {
  const auto number = static_cast<std::size_t>(call.number);
  if (number >= store_most_numbers || !prefix.numbers[number])
    return sink_.fail(from, call.id, Code::not_found, fmt::format("the number {} isn't in use", call.number));
  prefix.numbers.reset(number);
  sink_.ok(from, call.id);
}

void SharedRanks::unwatch(StoreOwner owner, std::uint64_t number) {
  const auto is_it = [&](const Watch& each) { return each.owner == owner && each.number == number; };
  for (auto& [name, prefix] : prefixes_) {
    std::erase_if(prefix.rank_watches, is_it);
    std::erase_if(prefix.exit_watches, is_it);
  }
}

void SharedRanks::forget(StoreOwner owner) {
  for (auto each = prefixes_.begin(); each != prefixes_.end();) {
    Prefix& prefix = each->second;
    const auto is_its = [&](const Watch& watch) { return watch.owner == owner; };
    std::erase_if(prefix.rank_watches, is_its);
    std::erase_if(prefix.exit_watches, is_its);
    (void)release(owner, prefix);
    each = prefix.is_unused() ? prefixes_.erase(each) : std::next(each);
  }
}

// ---- SharedGroups

bool SharedGroups::handle(StoreOwner from, const StoreCall& call) {
  if (call.op < StoreOp::enter) return false;
  if (call.op == StoreOp::enter) {
    enter(from, call);
    return true;
  }
  const auto group = groups_.find(call.key);
  if (group == groups_.end()) {
    sink_.fail(from, call.id, Code::not_found, "there is no such group");
    return true;
  }
  auto& members = group->second.members;
  const auto mine =
      std::find_if(members.begin(), members.end(), [&](const auto& each) { return each.second.owner == from; });
  if (mine == members.end()) {
    sink_.fail(from, call.id, Code::not_found, "the caller isn't a member of this group");
    return true;
  }
  if (call.op == StoreOp::commit) commit(from, call, group->second, mine->first);
  if (call.op == StoreOp::post) post(from, call, group->second, mine->first);
  if (call.op == StoreOp::leave) {
    remove(group->second, mine->first, false);
    sink_.ok(from, call.id, static_cast<std::int64_t>(group->second.version));
  }
  return true;
}

void SharedGroups::enter(StoreOwner from, const StoreCall& call) {
  if (const std::string why = refusal_of(call); !why.empty())
    return sink_.fail(from, call.id, Code::invalid_argument, why);
  if (groups_.size() >= most_groups && !groups_.contains(call.key))
    return sink_.fail(from, call.id, Code::out_of_memory, "the store has too many groups");
  Group& group = groups_[call.key];
  if (group.members.empty()) group.size = call.number;
  if (group.size != call.number)
    return sink_.fail(from, call.id, Code::mismatch,
                      fmt::format("the group has {} ranks, not {}", group.size, call.number));
  const bool is_in = std::any_of(group.members.begin(), group.members.end(),
                                 [&](const auto& each) { return each.second.owner == from; });
  if (is_in) return sink_.fail(from, call.id, Code::invalid_argument, "this connection is in the group already");
  const std::int64_t rank = free_rank(group.members, call.number, call.other);
  if (rank < 0) return sink_.fail(from, call.id, Code::unavailable, in_use_text(call.other, call.number));
  GroupView view{group.version, static_cast<std::int32_t>(rank), {}};
  for (const auto& [other, member] : group.members)
    view.members.push_back({static_cast<std::int32_t>(other), member.is_candidate, member.card});
  group.members[rank] = {from, call.id, true, call.value};
  sink_.ok(from, call.id, rank, encode(view));
}

void SharedGroups::commit(StoreOwner from, const StoreCall& call, Group& group, std::int64_t rank) {
  Member& member = group.members.at(rank);
  if (std::exchange(member.is_candidate, false)) {
    ++group.version;
    send(group, {0, StoreEvent::Kind::joined, rank, false, group.version, member.card});
  }
  // After the event, so that the caller has seen its own version when the call returns.
  sink_.ok(from, call.id, static_cast<std::int64_t>(group.version));
}

void SharedGroups::post(StoreOwner from, const StoreCall& call, Group& group, std::int64_t rank) {
  const auto to = group.members.find(call.other);
  if (to == group.members.end())
    return sink_.fail(from, call.id, Code::peer_failed, fmt::format("rank {} isn't in the group", call.other));
  sink_.event(to->second.owner, {to->second.watch, StoreEvent::Kind::post, rank, false, group.version, call.value});
  sink_.ok(from, call.id);
}

/// The version of a candidate's end is unchanged: it was never a member.
void SharedGroups::remove(Group& group, std::int64_t rank, bool died) {
  const auto gone = group.members.find(rank);
  if (!gone->second.is_candidate) ++group.version;
  group.members.erase(gone);
  send(group, {0, StoreEvent::Kind::left, rank, died, group.version, {}});
}

void SharedGroups::send(const Group& group, StoreEvent event) {
  for (const auto& [rank, member] : group.members) {
    event.watch = member.watch;
    sink_.event(member.owner, event);
  }
}

void SharedGroups::forget(StoreOwner owner) {
  for (auto& [name, group] : groups_) {
    const auto mine = std::find_if(group.members.begin(), group.members.end(),
                                   [&](const auto& each) { return each.second.owner == owner; });
    if (mine != group.members.end()) remove(group, mine->first, true);
  }
}

}  // namespace hmc::bootstrap
