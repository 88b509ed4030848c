// Bunches: reduce any team size to a power for algorithms that require one. Neighbours form a bunch, whose first
// member takes part for all its members.
#pragma once

#include <algorithm>

#include "collectives/schedule/group.hpp"

namespace hmc::collectives::schedule {

/// The largest power of `base` that is at most `size`.
inline int power_within(int size, int base) {
  int power = 1;
  while (power <= size / base) power *= base;
  return power;
}

/// `size` members in `many` bunches of neighbours, whose sizes differ by at most one. Order is kept: the members of
/// bunch i come before those of bunch i+1.
struct Bunches {
  int size, many;

  int first(int bunch) const { return bunch * (size / many) + std::min(bunch, size % many); }
  int of(int number) const {
    const int each = size / many, large = size % many;
    return number < large * (each + 1) ? number / (each + 1) : large + (number - large * (each + 1)) / each;
  }
  int largest() const { return (size + many - 1) / many; }
};

/// Slots and scratch of gather_bunch and leave_bunch, from the part's offset 0.
inline std::uint32_t bunch_slots(const Bunches& bunches) { return static_cast<std::uint32_t>(bunches.largest()); }
inline std::uint64_t bunch_scratch(const Bunches& bunches, std::uint64_t bytes) {
  const auto most = static_cast<std::uint64_t>(bunches.largest());
  return std::max<std::uint64_t>(most > 1 ? most - 1 : 0, most > 1 ? 1 : 0) * line_up(bytes);
}

/// The first member reduces the contributions of the others, which send theirs. Returns the place of the sum.
inline Place gather_bunch(Exchange& x, const Bunches& bunches, Place from, std::uint64_t bytes) {
  const int bunch = bunches.of(x.group.me), first = bunches.first(bunch), end = bunches.first(bunch + 1);
  if (x.group.me != first) {
    const auto index = static_cast<std::uint32_t>(x.group.me - first - 1);
    x.send(from, first, index * line_up(bytes), bytes, index);
    return from;
  }
  Place sum = from;
  for (int other = first + 1; other < end; ++other) {
    const auto index = static_cast<std::uint32_t>(other - first - 1);
    x.receive(other, index, bytes);
    const Place theirs = x.mine(index * line_up(bytes));
    if (other == first + 1) {
      x.b.reduce_before(sum, theirs, bytes);
      sum = theirs;
    } else {
      x.b.reduce(theirs, sum, bytes);
    }
  }
  return sum;
}

/// The first member sends the result to the others. Returns its place on this rank.
inline Place leave_bunch(Exchange& x, const Bunches& bunches, Place result, std::uint64_t bytes) {
  const int bunch = bunches.of(x.group.me), first = bunches.first(bunch), end = bunches.first(bunch + 1);
  const std::uint32_t slot = bunch_slots(bunches) - 1;
  if (x.group.me == first) {
    for (int other = first + 1; other < end; ++other) x.send(result, other, 0, bytes, slot);
    return result;
  }
  x.receive(first, slot, bytes);
  return x.mine(0);
}

}  // namespace hmc::collectives::schedule
