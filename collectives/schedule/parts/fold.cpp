#include "collectives/schedule/parts/fold.hpp"

#include "collectives/schedule/parts/bruck.hpp"

namespace hmc::collectives::schedule {

Contributions exchange_contributions(Builder& b, const std::function<std::uint64_t(int)>& begin,
                                     const std::function<std::uint64_t(int)>& bytes_of) {
  const std::uint64_t bytes = bytes_of(b.rank), stride = align_to_line(bytes);
  b.allocate_scratch(static_cast<std::uint64_t>(b.size) * stride);
  const auto me = static_cast<std::uint64_t>(b.rank);
  for (int i = 1; i < b.size; ++i) {
    const int to = (b.rank + i) % b.size;
    b.send(input(begin(to)), to, me * align_to_line(bytes_of(to)), bytes_of(to), static_cast<std::uint32_t>(b.rank));
  }
  b.copy(input(begin(b.rank)), scratch(me * stride), bytes);
  for (int i = 1; i < b.size; ++i) {
    const int from = (b.rank - i + b.size) % b.size;
    b.receive(from, static_cast<std::uint32_t>(from), bytes);
  }
  return {scratch(), stride};
}

Operand gather_vectors(Builder& b) {
  const std::uint64_t bytes = vector_bytes(b.call);
  const Blocks natural(b.size, b.call), rotated(b.size, b.call, b.rank);
  const Group group = whole_team(b, b.allocate_scratch(natural.total()));
  GroupBuilder x(b, group);
  const Operand packed = allgather_bruck_in(x, input(), natural);
  const Operand all = scratch(b.allocate_scratch(static_cast<std::uint64_t>(b.size) * bytes));
  unpack_blocks(b, rotated, packed, all);
  return all;
}

ScratchSize gathered_vectors_size(const Shape& shape, const Call& call) {
  return {align_to_line(team_bytes(shape, call)) + team_bytes(shape, call), slot_number(rounds_of(shape.size))};
}

void cost_of_gathered_fold(CriticalPath& path, const Call& call) {
  const double all = path.size * cost_bytes(call);
  path.copy(cost_bytes(call));
  cost_of_allgather_bruck(path, cost_bytes(call));
  path.copy(all);
  path.reduce(all);
}

}  // namespace hmc::collectives::schedule
