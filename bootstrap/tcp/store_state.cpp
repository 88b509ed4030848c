#include "bootstrap/tcp/store_state.hpp"

#include <fmt/format.h>

#include "bootstrap/common.hpp"

namespace hmc::bootstrap {

RoundFailed StoreRounds::fail(std::uint64_t number, Code code, int peer, std::string text) {
  rounds_.erase(number);
  RoundFailed failed{RoundFailed::Scope::job, number, code, peer, std::move(text)};
  constexpr std::size_t most_remembered = 1024;
  if (failed_.size() >= most_remembered) failed_.erase(failed_.begin());
  failed_[number] = failed;
  return failed;
}

std::optional<RoundFailed> StoreRounds::impossible(std::uint64_t number, const Round& round) {
  if (left_count_ == 0) return std::nullopt;
  for (std::size_t rank = 0; rank < size_; ++rank) {
    if (!left_[rank] || round.by_rank[rank]) continue;
    const int peer = static_cast<int>(rank);
    return fail(number, Code::closed, peer, fmt::format("rank {} has left the job", peer));
  }
  return std::nullopt;
}

StoreRounds::Outcome StoreRounds::contribute(Contribution contribution) {
  const std::uint64_t number = contribution.round;
  if (const auto failed = failed_.find(number); failed != failed_.end()) return failed->second;
  Round& round = rounds_.try_emplace(number, Round{contribution.kind, {}, 0, 0}).first->second;
  round.by_rank.resize(size_);
  for (Contribution::Entry& each : contribution.entries) {
    if (round.kind != contribution.kind) {
      return fail(number, Code::mismatch, each.rank,
                  mismatch_text(name_of(round.kind), name_of(contribution.kind), each.rank));
    }
    auto& place = round.by_rank[static_cast<std::size_t>(each.rank)];
    if (place) continue;
    round.bytes += each.bytes.size();
    place = std::move(each.bytes);
    ++round.arrived;
  }
  if (round.bytes > largest_round_bytes) {
    return fail(number, Code::invalid_argument, -1,
                fmt::format("the ranks' contributions have {} bytes, above the limit", round.bytes));
  }
  if (round.arrived < size_) {
    if (auto failed = impossible(number, round)) return *std::move(failed);
    return std::monostate{};
  }
  Result result{number, {}};
  if (round.kind == RoundKind::allgather) {
    for (auto& bytes : round.by_rank) result.by_rank.push_back(*std::move(bytes));
  }
  rounds_.erase(number);
  return result;
}

std::vector<RoundFailed> StoreRounds::leave(int rank) {
  const auto index = static_cast<std::size_t>(rank);
  if (left_[index]) return {};
  left_[index] = true;
  ++left_count_;
  std::vector<RoundFailed> failures;
  for (auto next = rounds_.begin(); next != rounds_.end();) {
    const auto each = next++;  // fail() erases it
    if (auto failed = impossible(each->first, each->second)) failures.push_back(*std::move(failed));
  }
  return failures;
}

std::vector<std::int32_t> StoreRounds::missing(std::uint64_t number) const {
  std::vector<std::int32_t> ranks;
  const auto found = rounds_.find(number);
  if (found == rounds_.end()) return ranks;
  for (std::size_t rank = 0; rank < size_; ++rank) {
    if (!found->second.by_rank[rank]) ranks.push_back(static_cast<std::int32_t>(rank));
  }
  return ranks;
}

std::vector<Reply> StoreKeys::publish(const Publish& message) {
  constexpr std::size_t most_bytes = 256U << 20;  // of all keys and values
  const auto refuse = [&message](const std::string& why) {
    const base::ByteView text = base::as_bytes(why);
    return std::vector<Reply>{{message.id, message.rank, Code::invalid_argument, {text.begin(), text.end()}}};
  };
  const std::size_t bytes = message.key.size() + message.value.size();
  if (message.key.size() > longest_key_bytes || message.value.size() > longest_value_bytes ||
      bytes > most_bytes - bytes_) {
    return refuse(fmt::format("{} bytes exceed the store's limit", bytes));
  }
  if (!values_.try_emplace(message.key, message.value).second) {
    return refuse(fmt::format("the key '{}' is published already", message.key));
  }
  bytes_ += bytes;
  std::vector<Reply> replies{{message.id, message.rank, Code::success, {}}};
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const auto each = next++;
    if (each->second.key != message.key) continue;
    replies.push_back({each->second.id, each->first, Code::success, message.value});
    waiting_.erase(each);
  }
  return replies;
}

std::vector<Reply> StoreKeys::lookup(const Lookup& message) {
  const auto found = values_.find(message.key);
  if (found != values_.end()) return {{message.id, message.rank, Code::success, found->second}};
  waiting_[message.rank] = {message.id, message.key};
  return {};
}

}  // namespace hmc::bootstrap
