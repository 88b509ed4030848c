// Rabenseifner and Swing: in each round a rank exchanges half of its range with a partner and reduces the other half,
// until it has the sum of its slice. Then the rounds run backwards with copies: to all ranks (allreduce) or to the root
// (reduce). 2 log2 N rounds; each rank sends about two vectors.
//
// Rabenseifner's partner in round s differs in bit s. Combined ranges of ranks are neighbours, so order is kept.
// Swing's partner is at distance 1, -1, 3, -5, 11, ... (forwards for even ranks, backwards for odd ones). On rings and
// tori this is about half as far. Swing is for commutative operations only. Any team size: see Bunches.
//
// The received range becomes its new sum, so no buffer in flight is written.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/algorithms/pairs.hpp"
#include "collectives/schedule/algorithms/parts.hpp"

namespace hmc::collectives::schedule {
namespace {

/// The partner of a rank and the half that the rank keeps. In round s, partners have kept the same halves so far.
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

/// After round s a rank can still reach the even ranks that are congruent to it modulo 2^(s+2), and the odd ranks
/// swing_distance(s+1) after those. So the next bit of that residue selects the half.
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

/// The division of the vector among the members of a group, and the scratch areas for received messages.
struct Layout {
  Layout(int size, std::uint64_t count, std::uint32_t element)
      : bunches{size, power_within(size, 2)},
        rounds(rounds_of(bunches.many)),
        bytes(count * element),
        slices(count, bunches.many, element) {
    std::uint64_t at = bunch_scratch(bunches, bytes);
    for (int round = 0; round < rounds; ++round) {
      areas[round] = at;
      at += line_up(static_cast<std::uint64_t>(bunches.many >> (round + 1)) * slices.largest());
    }
    whole = at;
  }
  /// Includes one more slot, for the message to the root in reduce.
  ScratchSize scratch_size() const {
    return {whole + bytes, bunch_slots(bunches) + static_cast<std::uint32_t>(2 * rounds + 1)};
  }

  Bunches bunches;
  int rounds;
  std::uint64_t bytes;
  Slices slices;
  std::uint64_t areas[32] = {};  ///< offset of each round's received message
  std::uint64_t whole = 0;       ///< offset of the area for the second phase, in which each slice has its own place
};

/// Reduces the elements at `from` among a group, with the result at `to`.
class Halving {
 public:
  Halving(Exchange& exchange, const Partners& partners, Place from, Place to, std::uint64_t count)
      : x(exchange),
        b(exchange.b),
        partners_(partners),
        from_(from),
        to_(to),
        layout_(exchange.group.size, count, exchange.b.call.element_bytes),
        me_(layout_.bunches.of(exchange.group.me)) {}

  void allreduce() {
    const Place sum = add_up();
    if (is_first()) share(sum);
    const Place result = leave_bunch(x, layout_.bunches, to_, layout_.bytes);
    if (!is_first()) b.settle_in_place();
    b.copy(result, to_, layout_.bytes);
  }

  void reduce(int root) {
    const Place sum = add_up();
    const int home = first_of(layout_.bunches.of(root));
    if (is_first()) collect(sum, layout_.bunches.of(root));
    const Place whole = x.mine(layout_.whole);
    if (home != root) {
      if (x.group.me == home) x.send(whole, root, layout_.whole, layout_.bytes, slot(2 * layout_.rounds));
      if (x.group.me == root) x.receive(home, slot(2 * layout_.rounds), layout_.bytes);
    }
    if (x.group.me != root) return;
    b.settle_in_place();
    b.copy(whole, to_, layout_.bytes);
    b.scale(to_, layout_.bytes);
  }

 private:
  int first_of(int bunch) const { return layout_.bunches.first(bunch); }
  bool is_first() const { return x.group.me == first_of(me_); }
  std::uint32_t slot(int index) const { return bunch_slots(layout_.bunches) + static_cast<std::uint32_t>(index); }
  int peer(int round) const { return first_of(partners_.partner(me_, round, layout_.bunches.many)); }
  bool keeps_upper(int round) const { return partners_.keeps_upper(me_, round, layout_.rounds); }
  std::uint64_t begin(Range range) const { return layout_.slices.begin(range.begin); }
  std::uint64_t bytes(Range range) const { return layout_.slices.bytes(range.begin, range.end); }

  /// The ranges that this rank holds before each round and after the last one.
  std::vector<Range> ranges() const {
    std::vector<Range> ranges{{0, layout_.bunches.many}};
    for (int round = 0; round < layout_.rounds; ++round) ranges.push_back(ranges.back().half(keeps_upper(round)));
    return ranges;
  }

  /// Returns the place of the sum of this rank's slice.
  Place add_up() {
    Place sum = gather_bunch(x, layout_.bunches, from_, layout_.bytes);
    if (!is_first()) return sum;
    std::uint64_t base = 0;
    Range mine{0, layout_.bunches.many};
    for (int round = 0; round < layout_.rounds; ++round) {
      const bool upper = keeps_upper(round);
      const Range theirs = mine.half(!upper);
      mine = mine.half(upper);
      const std::uint64_t area = layout_.areas[round];
      x.send(sum + (begin(theirs) - base), peer(round), area, bytes(theirs), slot(round));
      x.receive(peer(round), slot(round), bytes(mine));
      const Place kept = sum + (begin(mine) - base);
      if (upper)
        b.reduce(kept, x.mine(area), bytes(mine));
      else
        b.reduce_before(kept, x.mine(area), bytes(mine));
      sum = x.mine(area);
      base = begin(mine);
    }
    return sum;
  }

  /// Copies this rank's slice to its output, then doubles the range in each round.
  void share(Place sum) {
    const std::vector<Range> held = ranges();
    const Range slice = held.back();
    b.settle_in_place();
    b.copy(sum, to_ + begin(slice), bytes(slice));
    b.scale(to_ + begin(slice), bytes(slice));
    for (int round = layout_.rounds - 1; round >= 0; --round) {
      const Range mine = held[static_cast<std::size_t>(round) + 1];
      const Range theirs = held[static_cast<std::size_t>(round)].half(!keeps_upper(round));
      x.send(to_ + begin(mine), peer(round), layout_.whole + begin(mine), bytes(mine), slot(layout_.rounds + round));
      x.receive(peer(round), slot(layout_.rounds + round), bytes(theirs));
      b.copy(x.mine(layout_.whole + begin(theirs)), to_ + begin(theirs), bytes(theirs));
    }
  }

  /// Collects the slices in the scratch of bunch `home`. Only for partners that differ in one bit.
  void collect(Place sum, int home) {
    const std::vector<Range> held = ranges();
    const std::uint64_t whole = layout_.whole;
    b.copy(sum, x.mine(whole + begin(held.back())), bytes(held.back()));
    for (int round = layout_.rounds - 1; round >= 0; --round) {
      const Range mine = held[static_cast<std::size_t>(round) + 1];
      if (((me_ ^ home) >> round & 1) != 0) {
        x.send(x.mine(whole + begin(mine)), peer(round), whole + begin(mine), bytes(mine),
               slot(layout_.rounds + round));
        return;
      }
      const Range theirs = held[static_cast<std::size_t>(round)].half(!keeps_upper(round));
      x.receive(peer(round), slot(layout_.rounds + round), bytes(theirs));
    }
  }

  Exchange& x;
  Builder& b;
  const Partners& partners_;
  Place from_, to_;
  Layout layout_;
  int me_;  ///< this rank's bunch
};

void allreduce_by(const Partners& partners, const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const Group group = whole_team(b, b.take_scratch(halving_needs(b.size, call.count, call.element_bytes).scratch));
  Exchange x(b, group);
  Halving(x, partners, input(), output(), call.count).allreduce();
  b.finish();
}

}  // namespace

ScratchSize halving_needs(int size, std::uint64_t count, std::uint32_t element_bytes) {
  return Layout(size, count, element_bytes).scratch_size();
}

void halving_part(Exchange& x, Place from, Place to, std::uint64_t count) {
  Halving(x, neighbours, from, to, count).allreduce();
}

void allreduce_rabenseifner(const Shape& shape, const Call& call, int rank, Schedule& out) {
  allreduce_by(neighbours, shape, call, rank, out);
}

void allreduce_swing(const Shape& shape, const Call& call, int rank, Schedule& out) {
  allreduce_by(swing, shape, call, rank, out);
}

void reduce_rabenseifner(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const Group group = whole_team(b, b.take_scratch(halving_needs(b.size, call.count, call.element_bytes).scratch));
  Exchange x(b, group);
  Halving(x, neighbours, input(), output(), call.count).reduce(call.root);
  b.finish();
}

}  // namespace hmc::collectives::schedule
