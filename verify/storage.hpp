// The buffers of the ranks as intervals of values: Values, the contributions in a byte; Storage, one buffer of one
// rank.
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

/// `bytes` bytes of a value, starting at its byte `position`.
struct ValueRun {
  std::uint64_t bytes = 0;
  std::uint64_t position = 0;
  Value value = undefined;
};
using ValueRuns = std::vector<ValueRun>;

/// The accesses that must happen before a remote write to these bytes.
struct LastAccess {
  std::uint32_t locally = 0;  ///< the owner's steps up to the last that read or wrote it
  std::uint32_t arrives = 0;  ///< the owner's steps up to the wait for the last message into it
};

class Storage {
 public:
  explicit Storage(std::uint64_t size = 0, Value value = undefined);

  std::uint64_t size() const { return size_; }
  void read(std::uint64_t begin, std::uint64_t bytes, ValueRuns& out) const;
  /// The latest of all bytes in the range.
  LastAccess touched(std::uint64_t begin, std::uint64_t bytes) const;
  void write(std::uint64_t begin, const ValueRuns& pieces);
  void touch(std::uint64_t begin, std::uint64_t bytes, LastAccess by);

 private:
  struct Fragment {
    std::uint64_t begin = 0;
    std::uint64_t position = 0;
    Value value = undefined;
    LastAccess touched;
  };

  std::size_t find(std::uint64_t offset) const;
  std::uint64_t end_of(std::size_t index) const {
    return index + 1 < fragments_.size() ? fragments_[index + 1].begin : size_;
  }
  /// The fragment that begins at offset; creates it by a split if necessary.
  std::size_t split(std::uint64_t offset);
  void merge(std::size_t first, std::size_t last);

  std::uint64_t size_;
  std::vector<Fragment> fragments_;
};

}  // namespace hmc::verify
