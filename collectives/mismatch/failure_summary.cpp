#include "collectives/mismatch/failure_summary.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace hmc::collectives {

namespace {

/// Merges a sorted list into another and keeps the lowest entries. False if it dropped entries.
bool unite(std::uint32_t* list, std::uint32_t& count, std::size_t most, std::span<const std::uint32_t> other) noexcept {
  bool fits = true;
  for (const std::uint32_t entry : other) {
    std::uint32_t* const end = list + count;
    std::uint32_t* const place = std::lower_bound(list, end, entry);
    if (place != end && *place == entry) continue;
    if (count == most) {
      fits = false;
      if (place == end) continue;
      std::move_backward(place, end - 1, end);
    } else {
      std::move_backward(place, end, end + 1);
      ++count;
    }
    *place = entry;
  }
  return fits;
}

}  // namespace

FailureSummary::FailureSummary(int rank, const FailureReport& report, bool was_read) noexcept
    : group_count_(1), first_(report.first) {
  std::ranges::copy(report.signatures, signatures_);
  groups_[0].calls = report.calls;
  groups_[0].count = 1;
  groups_[0].ranks[0] = static_cast<std::uint32_t>(rank);
  const auto code = static_cast<Code>(report.code);
  if (was_read || code == Code::timeout) return;
  if (code != Code::mismatch) {
    cause_ = rank + 1;
    cause_code_ = report.code;
    return;
  }
  witness_ = rank + 1;
  witness_call_ = report.call;
  if (static_cast<std::int64_t>(report.peer) < 0) return;
  accused_count_ = 1;
  accused_[0] = static_cast<std::uint32_t>(report.peer);
}

bool FailureSummary::Group::lists(int rank) const noexcept {
  return std::binary_search(ranks, ranks + count, static_cast<std::uint32_t>(rank));
}

void FailureSummary::Group::add(const Group& other) noexcept {
  const bool fits = unite(ranks, count, most_ranks, {other.ranks, other.count});
  has_more |= other.has_more | (fits ? 0U : 1U);
}

void FailureSummary::add(const Group& group) noexcept {
  Group* const end = groups_ + group_count_;
  Group* place = std::find_if(
      groups_, end, [&](const Group& each) { return each.calls == group.calls && each.signature == group.signature; });
  if (place != end) return place->add(group);
  if (group_count_ < most_groups) {
    *place = group;
    ++group_count_;
    return;
  }
  drops_groups_ = 1;  // keeps the groups of the lowest ranks
  place = std::max_element(groups_, end, [](const Group& a, const Group& b) { return a.ranks[0] < b.ranks[0]; });
  if (group.ranks[0] < place->ranks[0]) *place = group;
}

void FailureSummary::resolve(std::uint64_t call) noexcept {
  if (conflict_ == call) return;
  const std::uint64_t signature = signature_at(call);  // of all ranks that have made the call
  const std::uint32_t count = std::exchange(group_count_, 0);
  conflict_ = call;
  for (std::uint32_t i = 0; i < count; ++i) {
    Group group = groups_[i];  // add() writes no group after this one
    const bool has_called = group.calls >= call;
    if (has_called) group.calls = call;
    group.signature = has_called ? signature : 0;
    add(group);
  }
}

void FailureSummary::merge(const FailureSummary& other) noexcept {
  std::uint64_t earliest = conflict_;
  if (other.conflict_ != 0 && (earliest == 0 || other.conflict_ < earliest)) earliest = other.conflict_;
  const std::uint64_t begin = std::max(first_, other.first_);
  for (std::uint64_t call = begin; call - begin < FailureReport::most_calls && (earliest == 0 || call < earliest);
       ++call) {
    const std::uint64_t ours = signature_at(call), theirs = other.signature_at(call);
    if (ours != 0 && theirs != 0 && ours != theirs) earliest = call;
  }
  FailureSummary added = other;
  if (earliest != 0) {
    resolve(earliest);
    added.resolve(earliest);
  }
  for (std::uint32_t i = 0; i < added.group_count_; ++i) add(added.groups_[i]);
  drops_groups_ |= added.drops_groups_;

  // The later window contains the conflict: no rank is further ahead of another than FailureReport::before.
  std::uint64_t signatures[FailureReport::most_calls];
  for (std::uint64_t i = 0; i < FailureReport::most_calls; ++i) {
    const std::uint64_t ours = signature_at(begin + i);
    signatures[i] = ours != 0 ? ours : other.signature_at(begin + i);
  }
  std::ranges::copy(signatures, signatures_);
  first_ = begin;

  if (other.witness_ != 0 && (witness_ == 0 || other.witness_ < witness_)) {
    witness_ = other.witness_;
    witness_call_ = other.witness_call_;
  }
  if (other.cause_ != 0 && (cause_ == 0 || other.cause_ < cause_)) {
    cause_ = other.cause_;
    cause_code_ = other.cause_code_;
  }
  (void)unite(accused_, accused_count_, most_accused, {other.accused_, other.accused_count_});
}

int FailureSummary::differing_from(Signature mine) const noexcept {
  int lowest = -1;
  for (const Group& group : std::span(groups_, group_count_)) {
    if (group.signature == 0 || group.signature == mine.word()) continue;
    const auto first = static_cast<int>(group.ranks[0]);
    if (lowest < 0 || first < lowest) lowest = first;
  }
  return lowest;
}

PeerReport FailureSummary::part_of(int rank, int world_rank, bool has_reported) const noexcept {
  const std::span groups(groups_, group_count_);
  bool is_absent = false;
  for (const Group& group : groups) {
    if (!group.lists(rank)) continue;
    if (group.signature != 0) return {PeerReport::Part::called, Signature(group.signature)};
    is_absent = is_absent || has_reported || group.calls < conflict_;
  }
  if (is_absent) return {PeerReport::Part::absent, {}};
  const auto is_listed = std::ranges::any_of(groups, [&](const Group& group) { return group.lists(rank); });
  if (has_reported && !is_listed) {
    const auto has_more = [](const Group& group) { return group.has_more != 0; };
    const auto longer = std::ranges::find_if(groups, has_more);
    if (drops_groups_ != 0 || std::ranges::count_if(groups, has_more) != 1) return {PeerReport::Part::unlisted, {}};
    return longer->signature != 0 ? PeerReport{PeerReport::Part::called, Signature(longer->signature)}
                                  : PeerReport{PeerReport::Part::absent, {}};
  }
  const bool is_accused =
      std::binary_search(accused_, accused_ + accused_count_, static_cast<std::uint32_t>(world_rank));
  return {is_accused ? PeerReport::Part::otherwise : PeerReport::Part::silent, {}};
}

bool FailureSummary::is_sound(int team_size) const noexcept {
  const auto size = static_cast<std::uint32_t>(team_size);
  if (group_count_ > most_groups || accused_count_ > most_accused || gap_count > most_gaps) return false;
  if (from >= size || covered > size || witness_ < 0 || witness_ > team_size || cause_ < 0 || cause_ > team_size)
    return false;
  return std::ranges::all_of(std::span(groups_, group_count_), [&](const Group& group) {
    return group.count >= 1 && group.count <= most_ranks && std::is_sorted(group.ranks, group.ranks + group.count) &&
           group.ranks[group.count - 1] < size;
  });
}

}  // namespace hmc::collectives
