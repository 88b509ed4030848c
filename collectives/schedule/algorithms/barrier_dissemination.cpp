// Barrier by dissemination: in round k each rank signals the rank 2^k after it. ceil(log2 N) rounds for any N.
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/builder.hpp"

namespace hmc::collectives::schedule {

void barrier_dissemination(const Shape& shape, const Call& call, int rank, Schedule& out) {
  Builder b(shape, call, rank, out);
  std::uint32_t round = 0;
  for (int distance = 1; distance < b.size; distance *= 2, ++round) {
    b.signal((rank + distance) % b.size, round);
    b.wait((rank - distance + b.size) % b.size, round);
  }
  b.finish();
}

}  // namespace hmc::collectives::schedule
