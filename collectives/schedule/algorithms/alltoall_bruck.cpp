// Alltoall by Bruck: a block for the rank at distance d takes a hop of 2^k in round k if bit k of d is set. The blocks
// of a round travel in one message. ceil(log2 N) messages of about half of all blocks, for short blocks.
#include <cmath>
#include <vector>

#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/builder.hpp"
#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/parts/blocks.hpp"

namespace hmc::collectives::schedule {
namespace {

struct AlltoallBruck {
  static void build(Builder& b) {
    const std::uint64_t bytes = vector_bytes(b.call);
    const auto offset_of = [&](int other) { return static_cast<std::uint64_t>((other + 2 * b.size) % b.size) * bytes; };
    // held[d]: the block with distance d on this rank. Only the bits of d from this round on still need a hop.
    std::vector<Operand> held;
    for (int distance = 0; distance < b.size; ++distance) held.push_back(input(offset_of(b.rank + distance)));
    std::uint32_t round = 0;
    for (int hop = 1; hop < b.size; hop *= 2, ++round) {
      std::vector<std::size_t> sent;
      for (int distance = hop; distance < b.size; ++distance)
        if ((distance & hop) != 0) sent.push_back(static_cast<std::size_t>(distance));
      const std::uint64_t all = sent.size() * bytes;
      const Operand packed = scratch(b.allocate_scratch(all)), received = scratch(b.allocate_scratch(all));
      for (std::size_t i = 0; i < sent.size(); ++i) b.copy(held[sent[i]], packed + i * bytes, bytes);
      b.send(packed, (b.rank + hop) % b.size, received.offset, all, round);
      b.receive((b.rank - hop + b.size) % b.size, round, all);
      for (std::size_t i = 0; i < sent.size(); ++i) held[sent[i]] = received + i * bytes;
    }
    // In place, this rank's own block needs no copy, and all other blocks are already packed.
    for (int distance = 0; distance < b.size; ++distance)
      b.copy(held[static_cast<std::size_t>(distance)], output(offset_of(b.rank - distance)), bytes);
  }

  static ScratchSize scratch_size(const Shape& shape, const Call& call) {
    std::uint64_t scratch = 0;
    for (int hop = 1; hop < shape.size; hop *= 2) {
      const int whole = shape.size / (2 * hop) * hop, rest = shape.size % (2 * hop);  // distances with that bit
      scratch += 2 * align_to_line(static_cast<std::uint64_t>(whole + std::max(0, rest - hop)) * vector_bytes(call));
    }
    return {scratch, slot_number(rounds_of(shape.size))};
  }

  static void cost(CriticalPath& path, const Call& call) {
    const double block = cost_bytes(call);
    for_each_doubling(path.size, [&](double hop) {
      const double whole = std::floor(path.size / (2 * hop)) * hop, rest = path.size - 2 * whole;
      const double sent = (whole + std::max(0.0, rest - hop)) * block;
      path.copy(sent);
      path.shift(hop, sent);
    });
    path.copy(path.size * block);
  }

  static bool supports(const Shape&, const Call& call) { return !call.irregular(); }
};

}  // namespace

constinit const Algorithm alltoall_bruck{
    .name = "bruck",
    .collective = CollectiveKind::alltoall,
    .deterministic = true,
    .supports = AlltoallBruck::supports,
    .build = AlltoallBruck::build,
    .scratch_size = AlltoallBruck::scratch_size,
    .cost = AlltoallBruck::cost,
};

}  // namespace hmc::collectives::schedule
