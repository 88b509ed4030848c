#include "verify/storage.hpp"

#include <algorithm>

namespace hmc::verify {

std::size_t Values::Hash::operator()(const ValueEntry& entry) const {
  std::size_t hash = entry.is_scaled ? 1 : 0;
  for (const RankRun run : entry.runs)
    hash = (hash ^ (static_cast<std::size_t>(run.first) << 32 | run.end)) * 0x9e3779b97f4a7c15U;
  return hash ^ hash >> 29;
}

Values::Values(bool ordered) : ordered_(ordered) { entries_.resize(all_blocks + 1); }

Value Values::number_of(ValueEntry entry) {
  const auto [at, is_new] = numbers_.try_emplace(std::move(entry), static_cast<Value>(entries_.size()));
  if (is_new) entries_.push_back(at->first);
  return at->second;
}

Value Values::run(std::uint32_t first, std::uint32_t end) { return number_of({{{first, end}}, false}); }

Value Values::scaled(Value value) {
  if (is_special(value) || entries_[value].is_scaled) return wrong;
  ValueEntry entry = entries_[value];
  entry.is_scaled = true;
  return number_of(std::move(entry));
}

bool Values::is_single(Value value) const {
  if (is_special(value)) return false;
  const auto& runs = entries_[value].runs;
  return runs.size() == 1 && runs[0].end == runs[0].first + 1;
}

Value Values::combine(Value left, Value right) {
  const std::uint64_t key = static_cast<std::uint64_t>(left) << 32 | right;
  const auto [at, is_new] = combined_.try_emplace(key, wrong);
  if (is_new) at->second = combine_new(left, right);
  return at->second;
}

Value Values::combine_new(Value left, Value right) {
  if (is_special(left) || is_special(right)) return wrong;
  if (entries_[left].is_scaled || entries_[right].is_scaled) return wrong;
  std::vector<RankRun> runs = entries_[left].runs;
  runs.insert(runs.end(), entries_[right].runs.begin(), entries_[right].runs.end());
  if (!ordered_) std::sort(runs.begin(), runs.end(), [](RankRun a, RankRun b) { return a.first < b.first; });
  ValueEntry entry;
  for (const RankRun run : runs) {
    const bool joins = !entry.runs.empty() && entry.runs.back().end == run.first;
    if (!ordered_ && !entry.runs.empty() && run.first < entry.runs.back().end) return wrong;
    if (joins)
      entry.runs.back().end = run.end;
    else
      entry.runs.push_back(run);
  }
  return number_of(std::move(entry));
}

std::string Values::text(Value value) const {
  constexpr const char* special[] = {"nothing", "the caller's old bytes", "a wrong combination", "a block"};
  if (is_special(value)) return special[value];
  std::string text;
  for (const RankRun run : entries_[value].runs) {
    if (!text.empty()) text += ordered_ ? " then " : " and ";
    text += std::to_string(run.first);
    if (run.end > run.first + 1) text += ".." + std::to_string(run.end - 1);
  }
  return (entries_[value].is_scaled ? "the average of " : "the contributions of ") + text;
}

Storage::Storage(std::uint64_t size, Value value) : size_(size) {
  if (size > 0) fragments_.push_back({0, 0, value, {}});
}

std::size_t Storage::find(std::uint64_t offset) const {
  const auto after = std::upper_bound(fragments_.begin(), fragments_.end(), offset,
                                      [](std::uint64_t at, const Fragment& fragment) { return at < fragment.begin; });
  return static_cast<std::size_t>(after - fragments_.begin()) - 1;
}

void Storage::read(std::uint64_t begin, std::uint64_t bytes, ValueRuns& out) const {
  out.clear();
  const std::uint64_t end = begin + bytes;
  for (std::size_t i = bytes > 0 ? find(begin) : fragments_.size(); i < fragments_.size(); ++i) {
    const Fragment& fragment = fragments_[i];
    if (fragment.begin >= end) break;
    const std::uint64_t from = std::max(begin, fragment.begin);
    out.push_back({std::min(end, end_of(i)) - from, fragment.position + (from - fragment.begin), fragment.value});
  }
}

LastAccess Storage::touched(std::uint64_t begin, std::uint64_t bytes) const {
  LastAccess latest;
  for (std::size_t i = bytes > 0 ? find(begin) : fragments_.size(); i < fragments_.size(); ++i) {
    const Fragment& fragment = fragments_[i];
    if (fragment.begin >= begin + bytes) break;
    latest.locally = std::max(latest.locally, fragment.touched.locally);
    latest.arrives = std::max(latest.arrives, fragment.touched.arrives);
  }
  return latest;
}

std::size_t Storage::split(std::uint64_t offset) {
  if (offset == size_) return fragments_.size();
  const std::size_t at = find(offset);
  if (fragments_[at].begin == offset) return at;
  Fragment second = fragments_[at];
  second.position += offset - second.begin;
  second.begin = offset;
  fragments_.insert(fragments_.begin() + static_cast<std::ptrdiff_t>(at) + 1, second);
  return at + 1;
}

void Storage::write(std::uint64_t begin, const ValueRuns& pieces) {
  std::uint64_t bytes = 0;
  for (const ValueRun& piece : pieces) bytes += piece.bytes;
  if (bytes == 0) return;
  const LastAccess before = touched(begin, bytes);
  split(begin);
  const std::size_t last = split(begin + bytes);
  const std::size_t first = find(begin);
  std::vector<Fragment> made;
  std::uint64_t at = begin;
  for (const ValueRun& piece : pieces) {
    made.push_back({at, piece.position, piece.value, before});
    at += piece.bytes;
  }
  const auto old = fragments_.begin() + static_cast<std::ptrdiff_t>(first);
  const std::size_t common = std::min(made.size(), last - first);
  std::copy_n(made.begin(), common, old);
  if (made.size() < last - first)
    fragments_.erase(old + static_cast<std::ptrdiff_t>(common), old + static_cast<std::ptrdiff_t>(last - first));
  else
    fragments_.insert(old + static_cast<std::ptrdiff_t>(common), made.begin() + static_cast<std::ptrdiff_t>(common),
                      made.end());
  merge(first, first + made.size());
}

void Storage::touch(std::uint64_t begin, std::uint64_t bytes, LastAccess by) {
  if (bytes == 0) return;
  split(begin);
  const std::size_t last = split(begin + bytes);
  const std::size_t first = find(begin);
  for (std::size_t i = first; i < last; ++i) {
    fragments_[i].touched.locally = std::max(fragments_[i].touched.locally, by.locally);
    fragments_[i].touched.arrives = std::max(fragments_[i].touched.arrives, by.arrives);
  }
  merge(first, last);
}

/// Joins adjacent fragments that continue each other, from the one before `first` to the one at `last`.
void Storage::merge(std::size_t first, std::size_t last) {
  std::size_t kept = first > 0 ? first - 1 : 0;
  last = std::min(last, fragments_.size() - 1);
  for (std::size_t i = kept + 1; i <= last; ++i) {
    const Fragment &left = fragments_[kept], &right = fragments_[i];
    const bool follows = left.value == right.value && left.touched.locally == right.touched.locally &&
                         left.touched.arrives == right.touched.arrives &&
                         left.position + (right.begin - left.begin) == right.position;
    if (!follows) fragments_[++kept] = right;
  }
  if (kept < last)
    fragments_.erase(fragments_.begin() + static_cast<std::ptrdiff_t>(kept) + 1,
                     fragments_.begin() + static_cast<std::ptrdiff_t>(last) + 1);
}

}  // namespace hmc::verify
