// Broadcast down a binomial tree: ceil(log2 N) hops, each of the whole message.
//
// Members are numbered from the root. A member's parent has its number without the lowest set bit; its children have
// one additional bit below that bit. A member sends to its largest subtree first. It receives into scratch and
// forwards from there, so the copy to its output overlaps the messages to its children.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/algorithms/parts.hpp"

namespace hmc::collectives::schedule {

Place broadcast_part(Exchange& x, int root, Place from, std::uint64_t bytes) {
  const int size = x.group.size, relative = (x.group.me - root + size) % size;
  const auto number_of = [&](int relative_to_root) { return (relative_to_root + root) % size; };
  Place message = from;
  int bit = 1;
  while (bit < size && (relative & bit) == 0) bit *= 2;
  if (relative != 0) {
    message = x.mine(0);
    x.receive(number_of(relative - bit), 0, bytes);
  }
  for (bit /= 2; bit > 0; bit /= 2)
    if (relative + bit < size) x.send(message, number_of(relative + bit), 0, bytes, 0);
  return message;
}

void broadcast_binomial(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const std::uint64_t bytes = call.count * call.element_bytes;
  const Group group = whole_team(b, rank == call.root ? 0 : b.take_scratch(bytes));
  Exchange x(b, group);
  b.copy(broadcast_part(x, call.root, input(), bytes), output(), bytes);
  b.finish();
}

}  // namespace hmc::collectives::schedule
