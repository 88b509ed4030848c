#include "bootstrap/tcp/shared_rounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include <hmc/store.hpp>

namespace hmc::bootstrap {

namespace {

const char* text_of(StoreOp op) noexcept { return op == StoreOp::barrier ? "barrier" : "allgather"; }

}  // namespace

bool SharedRounds::handle(StoreOwner from, const StoreCall& call) {
  if (call.op != StoreOp::barrier && call.op != StoreOp::allgather) return false;
  const auto refuse = [&](Code code, const std::string& text) {
    sink_.fail(from, call.id, code, text);
    return true;
  };
  if (call.key.size() > store_longest_key)
    return refuse(Code::invalid_argument, fmt::format("a name has at most {} bytes", store_longest_key));
  if (call.number < 1 || call.number > store_most_members || call.other < 0 || call.other >= call.number)
    return refuse(Code::invalid_argument, fmt::format("rank {} of {} callers; at most {} are allowed", call.other,
                                                      call.number, store_most_members));
  const auto round = rounds_.try_emplace(call.key, Round{call.op, call.number, {}, 0}).first;
  if (round->second.op != call.op || round->second.size != call.number)
    return refuse(Code::mismatch,
                  fmt::format("others call {} with {} ranks, this one {} with {}", text_of(round->second.op),
                              round->second.size, text_of(call.op), call.number));
  if (round->second.by_rank.contains(call.other))
    return refuse(Code::mismatch, fmt::format("rank {} is in this call already", call.other));
  if (call.value.size() > store_largest_gather - round->second.bytes) {
    fail(round, Code::invalid_argument, fmt::format("an allgather has at most {} bytes", store_largest_gather));
    return refuse(Code::invalid_argument, fmt::format("an allgather has at most {} bytes", store_largest_gather));
  }
  round->second.bytes += call.value.size();
  round->second.by_rank[call.other] = {from, call.id, call.value};
  names_[{from, call.id}] = call.key;
  if (static_cast<std::int64_t>(round->second.by_rank.size()) == call.number) complete(round);
  return true;
}

void SharedRounds::complete(Rounds::iterator round) {
  const Round done = std::move(round->second);
  rounds_.erase(round);
  base::Bytes all;
  if (done.op == StoreOp::allgather) {
    StoreParts parts;
    for (const auto& [rank, each] : done.by_rank) parts.by_rank.push_back(each.bytes);
    all = encode(parts);
  }
  if (all.size() > most_at_once / done.by_rank.size()) {
    const auto result = std::make_shared<const base::Bytes>(std::move(all));
    for (const auto& [rank, each] : done.by_rank) {
      names_.erase({each.owner, each.id});
      owed_.push_back({each.owner, each.id, result});
    }
    return;
  }
  for (const auto& [rank, each] : done.by_rank) {
    names_.erase({each.owner, each.id});
    sink_.ok(each.owner, each.id, 0, all);
  }
}

void SharedRounds::deliver() {
  const Owed first = std::move(owed_.front());
  owed_.pop_front();
  sink_.ok(first.owner, first.id, 0, *first.result);
}

void SharedRounds::fail(Rounds::iterator round, Code code, const std::string& text) {
  const Round failed = std::move(round->second);
  rounds_.erase(round);
  for (const auto& [rank, each] : failed.by_rank) {
    names_.erase({each.owner, each.id});
    sink_.fail(each.owner, each.id, code, text);
  }
}

bool SharedRounds::cancel(StoreOwner owner, std::uint64_t id) {
  const auto name = names_.find({owner, id});
  if (name == names_.end()) return false;
  const auto round = rounds_.find(name->second);
  names_.erase(name);
  std::string missing;
  constexpr int most = 16;
  int count = 0;
  for (std::int64_t rank = 0; rank < round->second.size; ++rank)
    if (!round->second.by_rank.contains(rank) && ++count <= most)
      missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
  if (count > most) missing += fmt::format(" and {} more", count - most);
  for (auto each = round->second.by_rank.begin(); each != round->second.by_rank.end(); ++each) {
    if (each->second.owner != owner || each->second.id != id) continue;
    round->second.bytes -= each->second.bytes.size();
    round->second.by_rank.erase(each);
    break;
  }
  sink_.fail(owner, id, Code::timeout,
             fmt::format("missing in the {}: rank{} {}", text_of(round->second.op), count == 1 ? "" : "s", missing));
  if (round->second.by_rank.empty()) rounds_.erase(round);
  return true;
}

void SharedRounds::forget(StoreOwner owner) {
  std::erase_if(owed_, [&](const Owed& each) { return each.owner == owner; });
  std::set<std::string> joined;
  for (auto each = names_.lower_bound({owner, 0}); each != names_.end() && each->first.first == owner; ++each)
    joined.insert(each->second);
  for (const std::string& name : joined) {
    const auto round = rounds_.find(name);
    const auto gone = std::find_if(round->second.by_rank.begin(), round->second.by_rank.end(),
                                   [&](const auto& each) { return each.second.owner == owner; });
    fail(round, Code::peer_failed,
         fmt::format("rank {} has ended during the {}", gone->first, text_of(round->second.op)));
  }
}

}  // namespace hmc::bootstrap
