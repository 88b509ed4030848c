// One call of any collective, in any of its forms, and its proof at the owner of the bytes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "collectives/schedule/schedule.hpp"
#include "collectives/state/state.hpp"
#include "tests/multirank/collectives_support.hpp"

namespace hmc::spmd {

using collectives::schedule::Algorithm;
using collectives::schedule::Collective;

/// What is called, the same on every rank.
struct Every {
  Collective collective = Collective::barrier;
  std::size_t count = 0;  ///< elements of a block, or of the vector
  int root = 0;
  bool irregular = false;  ///< the v-form, with counts that differ by rank (and by pair, in alltoallv)
  bool in_place = false;   ///< chosen by each rank where that is allowed
  bool user = false;       ///< a user's function that doesn't commute
  bool deterministic = false;
  std::uint64_t call = 0;
  std::span<std::uint64_t> window{};  ///< where the input shall lie (and the output, where it is the input)
};

inline Every some(Collective collective, std::size_t count, std::uint64_t call) {
  Every what;
  what.collective = collective;
  what.count = count;
  what.call = call;
  return what;
}

/// Buffers of one such call on this rank; elements are 64-bit words. `begin` fills, `check` verifies.
class EveryCall {
 public:
  EveryCall(int rank, int size, const Every& what);
  void blocking(Team& team);
  Request start(Team& team);
  Plan plan(Team& team);
  /// New data of another call number, in the same buffers.
  void fill(std::uint64_t call);
  std::string check() const;

 private:
  std::size_t count_of(int rank) const;            ///< of a v-form's block
  std::size_t pair_count(int from, int to) const;  ///< of alltoallv
  std::size_t block_at(int from, int to) const;    ///< where `from` keeps what it sends to `to`
  std::uint64_t value(int rank, std::size_t index) const { return Pattern{rank, what_.call}.word(index); }
  std::uint64_t combined(int first, int last, std::size_t index) const;
  std::string expect(std::size_t index, std::uint64_t wanted) const;
  /// Between the blocks of a v-form nothing was written.
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

/// Makes the call and verifies it. `form`, the same on every rank: which root, and whose function; where the input
/// lies, in `window` or not, and whether the call is in place, each rank chooses for itself.
void check_form(Me& me, Every what, int form, std::span<std::uint64_t> window);

/// For as long as it lives, `algorithm` carries out its collective. Made by all ranks alike.
class Forced {
 public:
  Forced(Team& team, Collective collective, const Algorithm* algorithm);
  ~Forced();
  Forced(const Forced&) = delete;
  Forced& operator=(const Forced&) = delete;

 private:
  collectives::Selector& selector_;
  Collective collective_;
};

}  // namespace hmc::spmd
