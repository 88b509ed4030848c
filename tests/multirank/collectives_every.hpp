// One call of any collective in any form, and its verification at the owner of the bytes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "collectives/schedule/schedule.hpp"
#include "collectives/team/team_object.hpp"
#include "tests/multirank/collectives_support.hpp"

namespace hmc::spmd {

using collectives::schedule::Algorithm;
using hmc::collective_count;
using hmc::CollectiveKind;

/// Describes one call. in_place and window may differ by rank; all else is the same on every rank.
struct Every {
  CollectiveKind collective = CollectiveKind::barrier;
  std::size_t count = 0;  ///< elements of a block, or of the vector
  int root = 0;
  bool irregular = false;  ///< the v-form, with counts that differ by rank (and by pair, in alltoallv)
  bool in_place = false;   ///< where the collective allows it
  bool user = false;       ///< a user's function that doesn't commute
  bool deterministic = false;
  std::uint64_t call = 0;
  std::span<std::uint64_t> window{};  ///< memory for the input, and for the output of a call in place; empty: private
                                      ///< memory
};

inline Every some(CollectiveKind collective, std::size_t count, std::uint64_t call) {
  Every what;
  what.collective = collective;
  what.count = count;
  what.call = call;
  return what;
}

/// Buffers of one such call on this rank. Elements are 64-bit words.
class EveryCall {
 public:
  EveryCall(int rank, int size, const Every& what);
  void blocking(Team& team);
  Request start(Team& team);
  Plan plan(Team& team);
  /// Fills the same buffers with the data of another call number.
  void fill(std::uint64_t call);
  std::string check() const;

 private:
  std::size_t count_of(int rank) const;            ///< of a v-form's block
  std::size_t pair_count(int from, int to) const;  ///< of alltoallv
  std::size_t block_at(int from, int to) const;    ///< offset in `from`'s send buffer of its block for `to`
  std::uint64_t value(int rank, std::size_t index) const { return Pattern{rank, what_.call}.word(index); }
  std::uint64_t combined(int first, int last, std::size_t index) const;
  std::string expect(std::size_t index, std::uint64_t wanted) const;
  /// Checks that the gaps between the blocks of a v-form are unchanged.
  std::string check_gaps(const std::vector<std::size_t>& counts, const std::vector<std::size_t>& displacements) const;
  std::string check_vector(std::size_t count, const std::function<std::uint64_t(std::size_t)>& wanted) const;
  void lay_out();
  Reduction how() const;
  std::uint64_t* in() const { return in_; }
  std::uint64_t* out() const { return out_; }

  int rank_;
  int size_;
  Every what_;
  std::vector<std::size_t> counts_, displacements_, receive_counts_, receive_displacements_;
  std::size_t in_count_ = 0, out_count_ = 0;
  std::vector<std::uint64_t> in_memory_, out_memory_;
  std::uint64_t* in_ = nullptr;
  std::uint64_t* out_ = nullptr;
};

/// Makes the call and verifies it. `form` is the same on every rank and selects the root and the function. Each rank
/// chooses for itself whether its input is in `window` and whether the call is in place.
void check_form(TestRank& me, Every what, int form, std::span<std::uint64_t> window);

/// Forces `algorithm` for its collective during its lifetime. All ranks construct it alike.
class Forced {
 public:
  Forced(Team& team, CollectiveKind collective, const Algorithm* algorithm);
  ~Forced();
  Forced(const Forced&) = delete;
  Forced& operator=(const Forced&) = delete;

 private:
  collectives::Selector& selector_;
  CollectiveKind collective_;
};

}  // namespace hmc::spmd
