// Broadcast down a binomial tree: ceil(log2 N) hops, each of the whole message.
//
// Ranks are numbered from the root. A rank's parent is itself without its lowest bit; its children are
// itself with a bit below that one. The largest subtree is served first. A rank receives into its scratch and
// hands on from there, so that the copy to its output runs while its children's messages are under way.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/builder.hpp"

namespace hmc::collectives::schedule {

void broadcast_binomial(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  const std::uint64_t bytes = call.count * call.element_bytes;
  const int relative = (rank - call.root + b.size) % b.size;
  const auto rank_of = [&](int number) { return (number + call.root) % b.size; };
  Place message = input();
  int bit = 1;
  while (bit < b.size && (relative & bit) == 0) bit *= 2;
  if (relative != 0) {
    message = scratch(b.take_scratch(bytes));
    b.wait(rank_of(relative - bit), 0);
  }
  for (bit /= 2; bit > 0; bit /= 2)
    if (relative + bit < b.size) b.put(message, rank_of(relative + bit), 0, bytes, 0);
  b.copy(message, output(), bytes);
  b.finish();
}

}  // namespace hmc::collectives::schedule
