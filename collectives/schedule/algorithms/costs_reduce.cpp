// Closed forms of the cost of collectives that reduce vectors.
#include <cmath>
#include <functional>

#include "collectives/schedule/algorithms/costs.hpp"
#include "collectives/schedule/algorithms/pairs.hpp"

namespace hmc::collectives::schedule::costs {
namespace {

/// The cost of gather_bunch. Returns the number of bunches, a power of `radix`.
double bunch_up(Path& path, int members, double bytes, int radix, bool on_node, double senders) {
  const Bunches bunches{members, power_within(members, radix)};
  const double others = bunches.largest() - 1;
  if (others > 0) {
    if (on_node) {
      path.near(bytes);
      path.spend((others - 1) * path.node().overhead);
    } else {
      path.far(bytes, senders, others);
    }
    path.reduce(others * bytes);
  }
  return bunches.many;
}

void leave(Path& path, int members, double many, double bytes, bool on_node, double senders) {
  const double others = std::ceil(members / many) - 1;
  if (others <= 0) return;
  on_node ? path.near(bytes, others) : path.far(bytes, senders, others);
}

bool bunches_on_nodes(const Path& path) { return path.nodes == 1 || path.per_node > 1; }

/// One round: every rank exchanges with its partner.
using Round = std::function<void(Path& path, int round, double every, double bytes)>;

void with_bits(Path& path, int round, double every, double bytes) {
  path.exchange(static_cast<double>(std::int64_t{1} << round), every, bytes);
}

/// Partners at distance 1, 1, 3, 5, 11, ...: pairs of neighbours in round 0, later across node borders.
void swinging(Path& path, int round, double every, double bytes) {
  const double distance = std::floor((std::exp2(round + 1) + 1) / 3),
               taking_part = std::max(1.0, path.per_node / every);
  if (path.nodes == 1 || (round == 0 && path.per_node % 2 == 0 && every == 1)) return path.near(bytes);
  path.far(bytes, std::clamp(distance + 1, 1.0, taking_part));
}

/// In every round the partners exchange half of their range.
void halve(Path& path, double many, double bytes, const Round& round) {
  double part = bytes / 2;
  for (int i = 0; 1 << i < many; ++i, part /= 2) {
    round(path, i, path.size / many, part);
    path.reduce(part);
  }
}

/// The inverse exchange, with copies.
void share(Path& path, double many, double bytes, const Round& round) {
  double part = bytes / many;
  path.copy(part);
  for (int i = rounds_of(static_cast<int>(many)) - 1; i >= 0; --i, part *= 2) {
    round(path, i, path.size / many, part);
    path.copy(part);
  }
}

void halving_allreduce(Path& path, const Call& call, const Round& round) {
  const double bytes = bytes_of(call);
  const bool on_node = bunches_on_nodes(path);
  const double many = bunch_up(path, path.size, bytes, 2, on_node, 1);
  halve(path, many, bytes, round);
  share(path, many, bytes, round);
  leave(path, path.size, many, bytes, on_node, 1);
  if (many < path.size) path.copy(bytes);
}

void multiplying(Path& path, const Call& call, int radix) {
  const double bytes = bytes_of(call);
  const bool on_node = bunches_on_nodes(path);
  const double many = bunch_up(path, path.size, bytes, radix, on_node, 1), every = path.size / many;
  for (double distance = 1; distance < many; distance *= radix) {
    path.exchange(distance, every, bytes, radix - 1);
    path.reduce((radix - 1) * bytes);
  }
  leave(path, path.size, many, bytes, on_node, 1);
  path.copy(bytes);
}

void ring_allreduce(Path& path, const Call& call, double segment) {
  const double slice = bytes_of(call) / path.size, segments = segment > 0 ? segments_in(slice, segment) : 1;
  path.ring(path.size - 1, slice, segments, 0, slice);
  path.copy(slice);
  path.ring(path.size - 1, slice, segments, slice, 0);
}

/// Bruck's allgather of whole vectors, a copy to rank order, one fold.
void fold_gathered(Path& path, const Call& call) {
  const double all = path.size * bytes_of(call);
  path.copy(bytes_of(call));
  gather_all(path, bytes_of(call));
  path.copy(all);
  path.reduce(all);
}

/// Steps on the node before and after `between`, the steps of the lanes. A short vector has fewer lanes than ranks.
void hierarchical(Path& path, const Call& call, const std::function<void(double slice, double lanes)>& between) {
  const double lanes = std::clamp<double>(static_cast<double>(call.count), 1, path.per_node);
  const double slice = bytes_of(call) / lanes, others = path.per_node - 1;
  const double messages = std::max(1.0, (lanes - 1 + others) / 2);  // mean of messages sent and received
  if (others > 0) path.near(slice, messages);
  path.reduce(others * slice);
  between(slice, lanes);
  if (others > 0) path.near(slice, messages);
  path.copy((lanes - 1) * slice);
}

void scan_rounds(Path& path, const Call& call, double reduces) {
  const double bytes = bytes_of(call);
  doubling(path.size, [&](double distance) {
    path.shift(distance, bytes);
    path.reduce(reduces * bytes);
  });
  path.copy(bytes);
}

}  // namespace

void reduce_binomial(Path& path, const Call& call) {
  const double bytes = bytes_of(call);
  tree(
      path.size, [&](double distance) { path.hop(distance, bytes); },
      [&](double distance) { path.occupy(distance, 0); });
  path.reduce(rounds_of(path.size) * bytes);
  path.copy(bytes);
}

void reduce_rabenseifner(Path& path, const Call& call) {
  const double bytes = bytes_of(call);
  const double many = bunch_up(path, path.size, bytes, 2, bunches_on_nodes(path), 1);
  halve(path, many, bytes, with_bits);
  double part = bytes / many;
  path.copy(part);
  for (int round = rounds_of(static_cast<int>(many)) - 1; round >= 0; --round, part *= 2)
    with_bits(path, round, path.size / many, part);
  path.copy(bytes);
}

void reduce_fold(Path& path, const Call& call) {
  gather_up(path, bytes_of(call));
  path.copy(path.size * bytes_of(call));
  path.reduce(path.size * bytes_of(call));
}

void allreduce_doubling(Path& path, const Call& call) { multiplying(path, call, 2); }
void allreduce_multiplying(Path& path, const Call& call) { multiplying(path, call, call.radix > 1 ? call.radix : 4); }
void allreduce_rabenseifner(Path& path, const Call& call) { halving_allreduce(path, call, with_bits); }
void allreduce_swing(Path& path, const Call& call) { halving_allreduce(path, call, swinging); }
void allreduce_ring(Path& path, const Call& call) { ring_allreduce(path, call, 0); }
void allreduce_ring_segmented(Path& path, const Call& call) {
  ring_allreduce(path, call, segment_of(call, ring_segment));
}

/// Up and down the trees, one pair of segments after the other, as in broadcast.
void allreduce_double_tree(Path& path, const Call& call) {
  const double bytes = bytes_of(call), segments = segments_in(bytes / 2, segment_of(call, tree_segment));
  const double part = bytes / 2 / segments;
  const int depth = rounds_of(path.size), outside = path.nodes > 1 ? rounds_of(path.nodes) : 0;
  path.repeat(segments, [&](Path& pair) {
    pair.repeat(4.0 * outside, [&](Path& level) { level.far(part, path.per_node == 1 ? 1.5 : 2); });
    pair.repeat(4.0 * (depth - outside), [&](Path& level) { level.near(part); });
    pair.reduce(3.0 * depth * part);
  });
  path.copy(part);
}

void allreduce_fold_slices(Path& path, const Call& call) {
  const double slice = bytes_of(call) / path.size;
  path.copy(slice);
  path.all_to_all(slice);
  path.reduce(bytes_of(call));
  path.all_to_all(slice);
  path.copy((path.size - 1) * slice);
}

void allreduce_fold_gathered(Path& path, const Call& call) { fold_gathered(path, call); }

void allreduce_hierarchical(Path& path, const Call& call) {
  hierarchical(path, call, [&](double slice, double lanes) {
    const double many = bunch_up(path, path.nodes, slice, 2, false, lanes);
    for (double distance = 1; distance < many; distance *= 2) {
      path.far(slice, lanes);
      path.reduce(slice);
    }
    leave(path, path.nodes, many, slice, false, lanes);
    path.copy(slice);
  });
}

void allreduce_hierarchical_halving(Path& path, const Call& call) {
  hierarchical(path, call, [&](double slice, double lanes) {
    const double many = bunch_up(path, path.nodes, slice, 2, false, lanes);
    double part = slice / 2;
    for (double left = many; left > 1; left /= 2, part /= 2) {
      path.far(part, lanes);
      path.reduce(part);
    }
    path.copy(slice / many);
    part = slice / many;
    for (double have = 1; have < many; have *= 2, part *= 2) {
      path.far(part, lanes);
      path.copy(part);
    }
    leave(path, path.nodes, many, slice, false, lanes);
    if (many < path.nodes) path.copy(slice);
  });
}

void reduce_scatter_fold(Path& path, const Call& call) {
  path.copy(bytes_of(call));
  path.all_to_all(bytes_of(call));
  path.reduce(path.size * bytes_of(call));
}

void scan_doubling(Path& path, const Call& call) { scan_rounds(path, call, 1); }
void scan_fold(Path& path, const Call& call) { fold_gathered(path, call); }
/// Two reductions per round: the sum with the own contribution, for other ranks, and the sum without it. The first
/// round copies instead of reducing the latter; the last round doesn't need the former.
void exscan_doubling(Path& path, const Call& call) {
  scan_rounds(path, call, 2 - 2.0 / std::max(rounds_of(path.size), 1));
}
void exscan_fold(Path& path, const Call& call) { fold_gathered(path, call); }

}  // namespace hmc::collectives::schedule::costs
