#include "collectives/counts_match.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "runtime/window/team_core.hpp"

namespace hmc::collectives {

namespace {

/// Neighbouring pairs and counts must give words that have nothing to do with each other.
std::uint64_t hash_of(std::uint64_t from, std::uint64_t to, std::uint64_t count) noexcept {
  std::uint64_t hash = (from << 32 | to) * 0x9e3779b97f4a7c15U;
  hash = (hash ^ hash >> 29 ^ count) * 0xbf58476d1ce4e5b9U;
  hash = (hash ^ hash >> 32) * 0x94d049bb133111ebU;
  return hash ^ hash >> 29;
}

}  // namespace

CountsOf counts_of(int rank, Team::Counts sent, Team::Counts received) noexcept {
  CountsOf mine;
  const auto me = static_cast<std::uint64_t>(rank);
  for (std::size_t peer = 0; peer < sent.size(); ++peer) {
    mine.largest = std::max<std::uint64_t>(mine.largest, std::max(sent[peer], received[peer]));
    mine.balance += hash_of(me, peer, sent[peer]) - hash_of(peer, me, received[peer]);
  }
  return mine;
}

void combine_counts(void* accumulated, const void* next, std::size_t count, DType, void*) {
  for (std::size_t i = 0; i < count; ++i) {
    CountsOf all, other;
    std::memcpy(&all, static_cast<std::byte*>(accumulated) + i * sizeof all, sizeof all);
    std::memcpy(&other, static_cast<const std::byte*>(next) + i * sizeof other, sizeof other);
    all.largest = std::max(all.largest, other.largest);
    all.balance += other.balance;
    std::memcpy(static_cast<std::byte*>(accumulated) + i * sizeof all, &all, sizeof all);
  }
}

Uneven first_uneven(Team::Counts told, Team::Counts received) noexcept {
  for (std::size_t from = 0; from < told.size(); ++from)
    if (told[from] != received[from]) return {1, from, told[from], received[from]};
  return {};
}

Error uneven_error(const window::TeamCore& team, const char* operation, std::span<const Uneven> all) {
  ErrorDetail detail;
  detail.code = Code::mismatch;
  detail.operation = operation;
  detail.rank = team.fabric().rank;
  const char* const word = team.is_world() ? "rank" : "world rank";
  constexpr int most = 4;
  int pairs = 0;
  for (int to = 0; to < team.size(); ++to) {
    const Uneven& pair = all[static_cast<std::size_t>(to)];
    if (pair.there_is == 0 || ++pairs > most) continue;
    const int from = team.world_rank(static_cast<int>(pair.from));
    const bool is_mine = to == team.rank();
    if (detail.peer < 0 || is_mine) detail.peer = is_mine ? from : team.world_rank(to);
    fmt::format_to(std::back_inserter(detail.message), "{}{} {} sends {} to {} {}, which expects {}",
                   pairs == 1 ? "" : "; ", word, from, pair.sent, word, team.world_rank(to), pair.expected);
  }
  if (pairs > most) fmt::format_to(std::back_inserter(detail.message), "; and {} more", pairs - most);
  detail.hint = "what a rank sends to another is what that one expects from it; nothing was moved";
  return Error(std::move(detail));
}

void throw_uneven(Team& team, Team::Counts sent, Team::Counts received) {
  const auto size = static_cast<std::size_t>(team.size());
  std::vector<std::size_t> told(size);
  team.alltoall(sent.data(), told.data(), sizeof(std::size_t));
  const Uneven mine = first_uneven(told, received);
  std::vector<Uneven> all(size);
  team.allgather(&mine, all.data(), sizeof mine);
  throw uneven_error(*team.core(), "alltoallv", all);
}

}  // namespace hmc::collectives
