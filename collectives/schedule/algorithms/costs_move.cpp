// Closed forms of the cost of collectives that move bytes.
#include <cmath>

#include "collectives/schedule/algorithms/costs.hpp"

namespace hmc::collectives::schedule::costs {

void gather_all(Path& path, double block) {
  doubling(path.size, [&](double distance) { path.shift(distance, std::min(distance, path.size - distance) * block); });
}

void gather_up(Path& path, double block) {
  const auto bytes = [&](double distance) { return std::min(distance, path.size - distance) * block; };
  tree(
      path.size, [&](double distance) { path.hop(distance, bytes(distance)); },
      [&](double distance) { path.occupy(distance, bytes(distance)); });
}

namespace {

/// The leader of a node receives a signal from each other rank of the node, or sends one to each.
void on_the_node(Path& path) {
  if (path.per_node == 1) return;
  path.near(0);
  path.spend((path.per_node - 2) * path.node().overhead);
}

/// Every rank sends to all other ranks of its node.
void round_the_node(Path& path, double bytes) {
  if (path.per_node > 1) path.near(bytes, path.per_node - 1);
}

/// Segment by segment. Ranks execute their steps in order, and the root of one tree is a leaf of the other. So a pair
/// of segments passes both trees before the next pair does.
void down_two_trees(Path& path, double bytes, double segment) {
  const double segments = segments_in(bytes / 2, segment), part = bytes / 2 / segments;
  const int depth = std::max(rounds_of(path.size), 1), outside = path.nodes > 1 ? rounds_of(path.nodes) : 0;
  path.repeat(segments, [&](Path& pair) {
    pair.repeat(2.0 * outside, [&](Path& level) { level.far(part, path.per_node == 1 ? 1.2 : 2); });
    pair.repeat(2.0 * (depth - outside), [&](Path& level) { level.near(part); });
  });
  path.copy(part);
}

void aggregated(Path& path, const Call& call, bool towards_owner) {
  const double block = bytes_of(call), most = segment_of(call, pat_message);
  const double fit = block > 0 ? std::max(1.0, std::floor(most / block)) : 1;
  const auto round = [&](double distance) {
    const double many = std::ceil((path.size - distance) / (2 * distance)), messages = std::ceil(many / fit);
    if (fit > 1 && many > 1) path.copy(many * block);
    path.shift(distance, many * block / messages, messages);
    if (towards_owner) path.reduce(many * block);
  };
  if (towards_owner)
    doubling(path.size, round);
  else
    halving(path.size, round);
  path.copy(towards_owner ? block : path.size * block);
}

}  // namespace

void barrier_dissemination(Path& path, const Call&) {
  doubling(path.size, [&](double distance) { path.shift(distance, 0); });
}

void barrier_hierarchical(Path& path, const Call&) {
  on_the_node(path);
  doubling(path.nodes, [&](double) { path.far(0, 1); });
  on_the_node(path);
}

void broadcast_binomial(Path& path, const Call& call) {
  tree(
      path.size, [&](double distance) { path.hop(distance, bytes_of(call)); },
      [&](double distance) { path.occupy(distance, bytes_of(call)); });
  path.copy(bytes_of(call));
}

void broadcast_double_tree(Path& path, const Call& call) {
  down_two_trees(path, bytes_of(call), segment_of(call, tree_segment));
}

void broadcast_hierarchical(Path& path, const Call& call) {
  const double lanes = std::clamp<double>(static_cast<double>(call.count), 1, path.per_node);
  const double slice = bytes_of(call) / lanes;
  round_the_node(path, slice);
  halving(path.nodes, [&](double) { path.far(slice, lanes); });
  round_the_node(path, slice);
  path.copy(bytes_of(call));
}

void gather_binomial(Path& path, const Call& call) {
  gather_up(path, bytes_of(call));
  path.copy(path.size * bytes_of(call));
}

void gather_linear(Path& path, const Call& call) {
  const double bytes = bytes_of(call), others = path.size - 1, away = path.size - path.per_node;
  if (others == 0) return path.copy(bytes);
  const Link &near = path.node(), &far = path.network(), &link = path.widest();
  const double root = (others - away) * near.overhead + away * far.overhead + path.work(others * bytes, 0);
  const double adapter = away * (far.gap + bytes * far.per_byte);
  // The root waits in rank order, but messages arrive in any order, so the two overlap only partly. On a node each
  // sender copies its own block; between nodes the root's adapter carries all blocks.
  path.spend(std::max(root, adapter) + std::min(root, adapter) / 2 + link.overhead + link.latency +
             (away > 0 ? 0 : bytes * near.per_byte));
  path.count(others - away, (others - away) * bytes, false);
  path.count(away, away * bytes, true);
}

void scatter_binomial(Path& path, const Call& call) {
  const double block = bytes_of(call);
  path.copy(path.size * block);
  gather_up(path, block);  // the same cost down the tree
  path.copy(block);
}

void scatter_linear(Path& path, const Call& call) {
  const double bytes = bytes_of(call), near = path.per_node - 1, away = path.size - path.per_node;
  path.spend(near * (path.node().overhead + bytes * path.node().per_byte));
  path.spend(away * std::max(path.network().overhead, path.network().gap + bytes * path.network().per_byte));
  if (path.size > 1) path.spend(path.widest().latency + 2 * path.widest().overhead);
  path.count(near, near * bytes, false);
  path.count(away, away * bytes, true);
  path.copy(bytes);
}

void allgather_bruck(Path& path, const Call& call) {
  path.copy(bytes_of(call));
  gather_all(path, bytes_of(call));
  path.copy(path.size * bytes_of(call));
}

void allgather_ring(Path& path, const Call& call) {
  path.ring(path.size - 1, bytes_of(call), 1, bytes_of(call), 0);
  path.copy(bytes_of(call));
}

void allgather_ring_segmented(Path& path, const Call& call) {
  const double segments = segments_in(bytes_of(call), segment_of(call, ring_segment));
  path.ring(path.size - 1, bytes_of(call), segments, bytes_of(call), 0);
  path.copy(bytes_of(call));
}

void allgather_pat(Path& path, const Call& call) { aggregated(path, call, false); }

void allgather_hierarchical(Path& path, const Call& call) {
  const double block = bytes_of(call);
  path.copy(block);
  doubling(path.nodes,
           [&](double distance) { path.far(std::min(distance, path.nodes - distance) * block, path.per_node); });
  round_the_node(path, path.nodes * block);
  path.copy(path.size * block);
}

void allgather_hierarchical_ring(Path& path, const Call& call) {
  const double block = bytes_of(call);
  const auto hand_round = [&](Path& round) {
    round_the_node(round, block);
    round.copy(block);
  };
  // The ranks of a node exchange a block while the next one is in flight.
  path.repeat(path.nodes - 1,
              [&](Path& round) { round.overlap([&](Path& comes) { comes.far(block, comes.per_node); }, hand_round); });
  hand_round(path);
  path.copy((path.per_node - 1) * path.nodes * block);
}

void alltoall_bruck(Path& path, const Call& call) {
  const double block = bytes_of(call);
  doubling(path.size, [&](double hop) {
    const double whole = std::floor(path.size / (2 * hop)) * hop, rest = path.size - 2 * whole;
    const double going = (whole + std::max(0.0, rest - hop)) * block;
    path.copy(going);
    path.shift(hop, going);
  });
  path.copy(path.size * block);
}

void alltoall_pairwise(Path& path, const Call& call) {
  path.copy(bytes_of(call));
  path.pairwise(bytes_of(call));
  path.copy((path.size - 1) * bytes_of(call));
}

void reduce_scatter_ring(Path& path, const Call& call) {
  path.ring(path.size - 1, bytes_of(call), 1, 0, bytes_of(call));
  path.copy(bytes_of(call));
}

void reduce_scatter_ring_segmented(Path& path, const Call& call) {
  const double segments = segments_in(bytes_of(call), segment_of(call, ring_segment));
  path.ring(path.size - 1, bytes_of(call), segments, 0, bytes_of(call));
  path.copy(bytes_of(call));
}

void reduce_scatter_pairwise(Path& path, const Call& call) {
  path.copy(bytes_of(call));
  path.pairwise(bytes_of(call));
  path.reduce((path.size - 1) * bytes_of(call));
}

void reduce_scatter_pat(Path& path, const Call& call) { aggregated(path, call, true); }

}  // namespace hmc::collectives::schedule::costs
