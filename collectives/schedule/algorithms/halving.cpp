// Rabenseifner, and Swing: halve the vector with a partner and add, until each rank has the sum of its slice; then
// the same way back with copies (allreduce), or towards the root (reduce). log2 N rounds, each byte twice.
//
// Rabenseifner's partner in round s differs in bit s: ranges of ranks stay neighbours, so order is kept. Swing's
// partner is at distance 1, -1, 3, -5, 11, ... (ranks with even numbers forwards, odd ones backwards), which on rings
// and tori is about half as far; commutative operations only. Any size: neighbours bunch up first.
//
// What arrives becomes the new sum of its range, so what is under way is never written.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/algorithms/pairs.hpp"
#include "collectives/schedule/algorithms/parts.hpp"

namespace hmc::collectives::schedule {
namespace {

/// Who halves with whom, and who keeps which half: in round s partners have kept the same halves so far.
struct Partners {
  int (*partner)(int number, int round, int size);
  bool (*keeps_upper)(int number, int round, int rounds);
};

constexpr Partners neighbours{[](int number, int round, int) { return number ^ (1 << round); },
                              [](int number, int round, int) { return (number >> round & 1) != 0; }};

/// 1, -1, 3, -5, 11, -21, ...
constexpr std::int64_t swing_distance(int round) {
  const std::int64_t power = std::int64_t{2} << round;
  return (1 - (round % 2 == 0 ? -power : power)) / 3;
}

/// Whom a rank can still reach after round s: even ranks congruent to it modulo 2^(s+2), and odd ones that are
/// swing_distance(s+1) further on. So the next bit of that residue says which of the two halves it's in.
constexpr Partners swing{
    [](int number, int round, int size) {
      const std::int64_t distance = swing_distance(round);
      return static_cast<int>(((number % 2 == 0 ? number + distance : number - distance) % size + size) % size);
    },
    [](int number, int round, int rounds) {
      if (round == rounds - 1) return number % 2 != 0;
      const std::int64_t even = number % 2 == 0 ? number : number - swing_distance(round + 1);
      return (even >> (round + 1) & 1) != 0;
    }};

/// A range of slices.
struct Range {
  int begin, end;
  Range half(bool upper) const {
    const int middle = (begin + end) / 2;
    return upper ? Range{middle, end} : Range{begin, middle};
  }
};

class Halving {
 public:
  Halving(Builder& builder, const Partners& partners)
      : b(builder),
        partners_(partners),
        bunches_{b.size, power_within(b.size, 2)},
        rounds_(rounds_of(bunches_.many)),
        bytes_(b.call.count * b.call.element_bytes),
        slices_(b.call.count, bunches_.many, b.call.element_bytes) {
    std::uint64_t at = bunch_scratch(bunches_, bytes_);
    for (int round = 0; round < rounds_; ++round) {
      areas_.push_back(at);
      at += line_up(static_cast<std::uint64_t>(bunches_.many >> (round + 1)) * slices_.largest());
    }
    whole_ = at;
    group_ = whole_team(b, b.take_scratch(at + bytes_));
  }

  void allreduce() {
    Exchange x(b, group_);
    const Place sum = add_up(x);
    if (is_first()) share(x, sum);
    const Place result = leave_bunch(x, bunches_, output(), bytes_);
    if (!is_first()) b.settle_in_place();
    b.copy(result, output(), bytes_);
    b.finish();
  }

  void reduce() {
    Exchange x(b, group_);
    const Place sum = add_up(x);
    const int home = bunches_.first(bunches_.of(b.call.root));
    if (is_first()) collect(x, sum);
    if (home != b.call.root) {
      if (b.rank == home) x.send(x.mine(whole_), b.call.root, whole_, bytes_, slot(2 * rounds_));
      if (b.rank == b.call.root) x.receive(home, slot(2 * rounds_), bytes_);
    }
    if (b.rank == b.call.root) {
      b.settle_in_place();
      b.copy(x.mine(whole_), output(), bytes_);
      b.scale(output(), bytes_);
    }
    b.finish();
  }

 private:
  bool is_first() const { return b.rank == bunches_.first(bunches_.of(b.rank)); }
  std::uint32_t slot(int index) const { return bunch_slots(bunches_) + static_cast<std::uint32_t>(index); }
  int peer(int round) const { return bunches_.first(partners_.partner(bunches_.of(b.rank), round, bunches_.many)); }
  bool keeps_upper(int round) const { return partners_.keeps_upper(bunches_.of(b.rank), round, rounds_); }
  std::uint64_t bytes(Range range) const { return slices_.bytes(range.begin, range.end); }

  /// The ranges that this rank holds before each round, and after the last.
  std::vector<Range> ranges() const {
    std::vector<Range> ranges{{0, bunches_.many}};
    for (int round = 0; round < rounds_; ++round) ranges.push_back(ranges.back().half(keeps_upper(round)));
    return ranges;
  }

  /// Returns where the sum of this rank's slice is.
  Place add_up(Exchange& x) {
    Place sum = gather_bunch(x, bunches_, input(), bytes_);
    if (!is_first()) return sum;
    std::uint64_t base = 0;
    Range mine{0, bunches_.many};
    for (int round = 0; round < rounds_; ++round) {
      const bool upper = keeps_upper(round);
      const Range theirs = mine.half(!upper);
      mine = mine.half(upper);
      const std::uint64_t area = areas_[static_cast<std::size_t>(round)];
      x.send(sum + (slices_.begin(theirs.begin) - base), peer(round), area, bytes(theirs), slot(round));
      x.receive(peer(round), slot(round), bytes(mine));
      const Place kept = sum + (slices_.begin(mine.begin) - base);
      if (upper)
        b.reduce(kept, x.mine(area), bytes(mine));
      else
        b.reduce_before(kept, x.mine(area), bytes(mine));
      sum = x.mine(area);
      base = slices_.begin(mine.begin);
    }
    return sum;
  }

  /// My slice to my output, then twice as much with every round back.
  void share(Exchange& x, Place sum) {
    const std::vector<Range> held = ranges();
    const Range slice = held.back();
    b.settle_in_place();
    b.copy(sum, output(slices_.begin(slice.begin)), bytes(slice));
    b.scale(output(slices_.begin(slice.begin)), bytes(slice));
    for (int round = rounds_ - 1; round >= 0; --round) {
      const Range mine = held[static_cast<std::size_t>(round) + 1];
      const Range theirs = held[static_cast<std::size_t>(round)].half(!keeps_upper(round));
      const std::uint64_t begin = slices_.begin(mine.begin), other = slices_.begin(theirs.begin);
      x.send(output(begin), peer(round), whole_ + begin, bytes(mine), slot(rounds_ + round));
      x.receive(peer(round), slot(rounds_ + round), bytes(theirs));
      b.copy(x.mine(whole_ + other), output(other), bytes(theirs));
    }
  }

  /// The slices come together in the scratch of the root's bunch. Partners by bits only.
  void collect(Exchange& x, Place sum) {
    const std::vector<Range> held = ranges();
    const int home = bunches_.of(b.call.root), me = bunches_.of(b.rank);
    const Range slice = held.back();
    b.copy(sum, x.mine(whole_ + slices_.begin(slice.begin)), bytes(slice));
    for (int round = rounds_ - 1; round >= 0; --round) {
      const Range mine = held[static_cast<std::size_t>(round) + 1];
      const std::uint64_t begin = slices_.begin(mine.begin);
      if (((me ^ home) >> round & 1) != 0) {
        x.send(x.mine(whole_ + begin), peer(round), whole_ + begin, bytes(mine), slot(rounds_ + round));
        return;
      }
      const Range theirs = held[static_cast<std::size_t>(round)].half(!keeps_upper(round));
      x.receive(peer(round), slot(rounds_ + round), bytes(theirs));
    }
  }

  Builder& b;
  const Partners& partners_;
  Bunches bunches_;
  int rounds_;
  std::uint64_t bytes_;
  Slices slices_;
  std::vector<std::uint64_t> areas_;  ///< where each round's message lies
  std::uint64_t whole_ = 0;           ///< where what comes back lies, each slice at its place
  Group group_;
};

}  // namespace

void allreduce_rabenseifner(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  Halving(b, neighbours).allreduce();
}

void allreduce_swing(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  Halving(b, swing).allreduce();
}

void reduce_rabenseifner(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  Halving(b, neighbours).reduce();
}

}  // namespace hmc::collectives::schedule
