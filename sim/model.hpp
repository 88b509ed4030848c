// The cost of a message and of a byte of work. Times are whole picoseconds, so sums are exact and the output is the
// same on all machines.
#pragma once

#include <cmath>
#include <cstdint>

#include "collectives/schedule/cost.hpp"

namespace hmc::sim {

using Time = std::int64_t;  ///< picoseconds

constexpr Time from_ns(double ns) { return static_cast<Time>(ns * 1000.0 + (ns < 0 ? -0.5 : 0.5)); }
constexpr double to_us(Time time) { return static_cast<double>(time) / 1e6; }

/// LogGP. A put costs its sender `overhead`. Then its bytes enter the link, one per `per_byte_ps`. The first byte
/// arrives `latency` later. The waiting rank pays `overhead` again. The next message enters `gap` after the last byte
/// of the previous one. The receiving end has the same limit.
struct LinkTiming {
  Time latency = 0;
  Time overhead = 0;
  Time gap = 0;
  double per_byte_ps = 0;

  /// The time of all bytes except the first.
  Time stream(std::uint64_t bytes) const {
    return bytes <= 1 ? 0 : static_cast<Time>(std::llround(static_cast<double>(bytes - 1) * per_byte_ps));
  }
};

/// Two levels of switches: `leaf_nodes` nodes on each leaf, all leaves on one spine. A leaf's uplink and downlink each
/// have its nodes' bandwidth divided by `oversubscription`. Each adds `hop` to the latency.
struct FatTree {
  bool enabled = false;
  int leaf_nodes = 32;
  double oversubscription = 2;
  Time hop = from_ns(200);
};

inline LinkTiming link_of(const collectives::schedule::LinkCost& link) {
  return {from_ns(link.latency), from_ns(link.overhead), from_ns(link.gap), link.per_byte * 1000};
}

struct Model {
  /// `parameters`: as used by the library's algorithm selection.
  explicit Model(const collectives::schedule::CostParameters& parameters = {})
      : node(link_of(parameters.node)),
        network(link_of(parameters.network)),
        copy_ps(parameters.copy * 1000),
        reduce_ps(parameters.reduce * 1000) {}

  /// Within a node a put is a copy by the sender. The sender is busy during it. Ranks share no resource.
  LinkTiming node;
  /// Between nodes: all ranks of a node share one adapter.
  LinkTiming network;
  FatTree tree;
  double copy_ps;    ///< a byte copied by a schedule's copy step
  double reduce_ps;  ///< a byte of one contribution reduced

  Time work(double per_byte_ps, std::uint64_t bytes) const {
    return static_cast<Time>(std::llround(static_cast<double>(bytes) * per_byte_ps));
  }
};

}  // namespace hmc::sim
