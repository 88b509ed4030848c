// Allreduce by recursive multiplying: in round j the members whose numbers differ only in digit j (base `radix`)
// exchange their sums. Radix 2 is recursive doubling. log_radix N rounds of the whole vector, for short vectors.
//
// Any team size: see Bunches. Order is kept, because a round combines neighbouring ranges of ranks. The received
// vector becomes the new sum. So no buffer in flight is written, and no round needs a settle.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/algorithms/pairs.hpp"
#include "collectives/schedule/algorithms/parts.hpp"

namespace hmc::collectives::schedule {
namespace {

int rounds_to(int size, int radix) {
  int rounds = 0;
  for (int power = 1; power <= size / radix; power *= radix) ++rounds;
  return rounds;
}

/// Combines the sums of one round. Every member starts from digit 0: another order or grouping would round differently
/// on each rank.
Place join(Builder& b, Place mine, int digit, int radix, const std::function<Place(int)>& arrived,
           std::uint64_t bytes) {
  const Place sum = arrived(digit > 0 ? 0 : 1);
  if (digit == 0) b.reduce_before(mine, sum, bytes);
  for (int d = digit > 0 ? 1 : 2; d < radix; ++d) b.reduce(d == digit ? mine : arrived(d), sum, bytes);
  return sum;
}

void allreduce_by(int radix, const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const std::uint64_t bytes = call.count * call.element_bytes;
  const Group group = whole_team(b, b.take_scratch(allreduce_needs(b.size, bytes, radix).scratch));
  Exchange x(b, group);
  Place result = allreduce_part(x, input(), bytes, radix);
  b.settle_in_place();
  b.copy(result, output(), bytes);
  b.scale(output(), bytes);
  b.finish();
}

}  // namespace

ScratchSize allreduce_needs(int size, std::uint64_t bytes, int radix) {
  const Bunches bunches{size, power_within(size, radix)};
  const auto arrivals = static_cast<std::uint32_t>(rounds_to(size, radix) * (radix - 1));
  return {bunch_scratch(bunches, bytes) + arrivals * line_up(bytes), bunch_slots(bunches) + arrivals};
}

Place allreduce_part(Exchange& x, Place from, std::uint64_t bytes, int radix) {
  const Bunches bunches{x.group.size, power_within(x.group.size, radix)};
  Place sum = gather_bunch(x, bunches, from, bytes);
  const int bunch = bunches.of(x.group.me);
  const std::uint64_t area = bunch_scratch(bunches, bytes);
  if (x.group.me == bunches.first(bunch)) {
    int round = 0;
    for (int power = 1; power < bunches.many; power *= radix, ++round) {
      const int digit = bunch / power % radix;
      // Index of the scratch area in which member digit `mine` receives from member digit `other`.
      const auto place = [&](int mine, int other) { return round * (radix - 1) + (other < mine ? other : other - 1); };
      const auto arrived = [&](int other) {
        return x.mine(area + static_cast<std::uint64_t>(place(digit, other)) * line_up(bytes));
      };
      const auto slot = [&](int index) { return bunch_slots(bunches) + static_cast<std::uint32_t>(index); };
      const auto peer = [&](int other) { return bunches.first(bunch + (other - digit) * power); };
      for (int i = 1; i < radix; ++i) {
        const int other = (digit + i) % radix, index = place(other, digit);
        x.send(sum, peer(other), area + static_cast<std::uint64_t>(index) * line_up(bytes), bytes, slot(index));
      }
      for (int i = 1; i < radix; ++i) {
        const int other = (digit - i + radix) % radix;
        x.receive(peer(other), slot(place(digit, other)), bytes);
      }
      sum = join(x.b, sum, digit, radix, arrived, bytes);
    }
  }
  return leave_bunch(x, bunches, sum, bytes);
}

void allreduce_doubling(const Shape& shape, const Call& call, int rank, Schedule& out) {
  allreduce_by(2, shape, call, rank, out);
}

void allreduce_multiplying(const Shape& shape, const Call& call, int rank, Schedule& out) {
  allreduce_by(call.radix > 1 ? call.radix : 4, shape, call, rank, out);
}

}  // namespace hmc::collectives::schedule
