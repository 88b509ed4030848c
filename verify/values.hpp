// The symbolic value of a byte: the ranks that contribute to it, and their order.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace hmc::verify {

/// The number of a value in its table.
using Value = std::uint32_t;
inline constexpr Value undefined = 0;   ///< not written
inline constexpr Value callers = 1;     ///< the caller's previous contents
inline constexpr Value wrong = 2;       ///< contains a contribution twice, or is an average of averages
inline constexpr Value all_blocks = 3;  ///< the concatenated blocks of all ranks; the position identifies the block

/// Numbers each distinct value once. A value is a list of runs of ranks: in the order of combination if order matters,
/// else sorted. One table per case; not thread-safe.
class Values {
 public:
  explicit Values(bool ordered);

  Value contribution(std::uint32_t rank) { return run(rank, rank + 1); }
  /// Ranks first..end-1 in order.
  Value run(std::uint32_t first, std::uint32_t end);
  Value combine(Value left, Value right);
  /// Divided by the team's size.
  Value scaled(Value value);
  bool is_single(Value value) const;
  bool is_scaled(Value value) const { return entries_[value].is_scaled; }
  /// In the order of combination.
  template <typename F> void for_each_rank(Value value, const F& f) const {
    for (const RankRun run : entries_[value].runs)
      for (std::uint32_t rank = run.first; rank < run.end; ++rank) f(rank);
  }
  std::string text(Value value) const;

 private:
  struct RankRun {
    std::uint32_t first, end;
    friend bool operator==(RankRun, RankRun) = default;
  };
  struct ValueEntry {
    std::vector<RankRun> runs;
    bool is_scaled = false;
    friend bool operator==(const ValueEntry&, const ValueEntry&) = default;
  };
  struct Hash {
    std::size_t operator()(const ValueEntry& entry) const;
  };

  Value number_of(ValueEntry entry);
  Value combine_new(Value left, Value right);
  bool is_special(Value value) const { return value <= all_blocks; }

  bool ordered_;
  std::vector<ValueEntry> entries_;
  std::unordered_map<ValueEntry, Value, Hash> numbers_;
  std::unordered_map<std::uint64_t, Value> combined_;
};

}  // namespace hmc::verify
