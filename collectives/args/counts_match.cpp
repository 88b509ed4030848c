#include "collectives/args/counts_match.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "runtime/rma/team_core.hpp"

namespace hmc::collectives {

namespace {

/// Neighbouring pairs and counts must give unrelated hashes.
std::uint64_t hash_of(std::uint64_t from, std::uint64_t to, std::uint64_t count) noexcept {
  std::uint64_t hash = (from << 32 | to) * 0x9e3779b97f4a7c15U;
  hash = (hash ^ hash >> 29 ^ count) * 0xbf58476d1ce4e5b9U;
  hash = (hash ^ hash >> 32) * 0x94d049bb133111ebU;
  return hash ^ hash >> 29;
}

}  // namespace

CountsOf counts_of(int rank, std::span<const std::size_t> sent, std::span<const std::size_t> received) noexcept {
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

void combine_started_counts(void* accumulated, const void* next, std::size_t count, DType, void*) {
  for (std::size_t i = 0; i < count; ++i) {
    StartedCounts all, other;
    std::memcpy(&all, static_cast<std::byte*>(accumulated) + i * sizeof all, sizeof all);
    std::memcpy(&other, static_cast<const std::byte*>(next) + i * sizeof other, sizeof other);
    combine_counts(&all.counts, &other.counts, 1, DType::located_i64, nullptr);
    all.least_largest = std::min(all.least_largest, other.least_largest);
    all.most_largest = std::max(all.most_largest, other.most_largest);
    all.least_turns = std::min(all.least_turns, other.least_turns);
    all.most_turns = std::max(all.most_turns, other.most_turns);
    std::memcpy(static_cast<std::byte*>(accumulated) + i * sizeof all, &all, sizeof all);
  }
}

Error wrong_largest_error(const rma::TeamCore& team, const char* operation, const StartedCounts& all) {
  const bool differs = all.least_largest != all.most_largest;
  ErrorDetail detail;
  detail.code = differs ? Code::mismatch : Code::invalid_argument;
  detail.operation = operation;
  detail.rank = team.fabric().rank;
  detail.message = differs ? fmt::format("the ranks passed a `largest` of {} to {} to an alltoallv", all.least_largest,
                                         all.most_largest)
                           : fmt::format("all ranks passed a `largest` of {} to an alltoallv", all.most_largest);
  fmt::format_to(std::back_inserter(detail.message), "; the largest count that two ranks exchange is {}",
                 all.counts.largest);
  detail.hint = "pass that count, the same on every rank; nothing was moved";
  return Error(std::move(detail));
}

CountMismatch first_count_mismatch(int rank, std::span<const std::size_t> sent,
                                   std::span<const std::size_t> received) noexcept {
  CountMismatch mine;
  for (std::size_t from = 0; from < sent.size() && mine.receivers == 0; ++from) {
    if (sent[from] == received[from]) continue;
    mine.receivers = 1;
    mine.pairs[0] = {static_cast<std::uint64_t>(rank), from, sent[from], received[from]};
  }
  return mine;
}

namespace {

std::size_t listed_pairs(const CountMismatch& some) noexcept {
  return static_cast<std::size_t>(std::min<std::uint64_t>(some.receivers, CountMismatch::most_pairs));
}

CountMismatch merged(const CountMismatch& one, const CountMismatch& other) noexcept {
  CountMismatch all;
  all.receivers = one.receivers + other.receivers;
  std::size_t i = 0, j = 0;
  for (std::size_t k = 0; k < listed_pairs(all); ++k) {
    const bool first = j == listed_pairs(other) || (i < listed_pairs(one) && one.pairs[i].to < other.pairs[j].to);
    all.pairs[k] = first ? one.pairs[i++] : other.pairs[j++];
  }
  return all;
}

}  // namespace

CountMismatch merged(std::span<const CountMismatch> of_each) noexcept {
  CountMismatch all;
  for (const CountMismatch& each : of_each) all = merged(all, each);
  return all;
}

void combine_count_mismatches(void* accumulated, const void* next, std::size_t count, DType, void*) {
  for (std::size_t i = 0; i < count; ++i) {
    CountMismatch one, other;
    std::memcpy(&one, static_cast<std::byte*>(accumulated) + i * sizeof one, sizeof one);
    std::memcpy(&other, static_cast<const std::byte*>(next) + i * sizeof other, sizeof other);
    one = merged(one, other);
    std::memcpy(static_cast<std::byte*>(accumulated) + i * sizeof one, &one, sizeof one);
  }
}

Error count_mismatch_error(const rma::TeamCore& team, const char* operation, const CountMismatch& all,
                           const CountMismatch& mine) {
  ErrorDetail detail;
  detail.code = Code::mismatch;
  detail.operation = operation;
  detail.rank = team.fabric().rank;
  const char* const word = team.is_world() ? "rank" : "world rank";
  const auto world = [&](std::uint64_t rank) { return team.world_rank(static_cast<int>(rank)); };
  for (std::size_t i = 0; i < listed_pairs(all); ++i) {
    const CountMismatch::Pair& pair = all.pairs[i];
    fmt::format_to(std::back_inserter(detail.message), "{}{} {} sends {} to {} {}, which expects {}",
                   i == 0 ? "" : "; ", word, world(pair.from), pair.sent, word, world(pair.to), pair.expected);
  }
  detail.peer = mine.receivers > 0 ? world(mine.pairs[0].from) : world(all.pairs[0].to);
  if (all.receivers > CountMismatch::most_pairs)
    fmt::format_to(std::back_inserter(detail.message), "; and {} more", all.receivers - CountMismatch::most_pairs);
  detail.hint = "what a rank sends to another is what that one expects from it; nothing was moved";
  return Error(std::move(detail));
}

}  // namespace hmc::collectives
