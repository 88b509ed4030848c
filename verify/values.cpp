#include "verify/values.hpp"

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

}  // namespace hmc::verify
