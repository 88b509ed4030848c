// The cost of a schedule without building it: closed forms of the critical path under LogGP with nodes. The simulator
// (sim/) replays the schedules under the same model; a test compares the two.
#pragma once

#include <algorithm>

#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives::schedule {

/// Nanoseconds. A message costs `overhead` at the sender and again at the receiver. Its first byte arrives after
/// `latency`, each further byte after `per_byte`. The next message enters the link `gap` after the last byte.
struct LinkCost {
  double latency = 0;
  double overhead = 0;
  double gap = 0;
  double per_byte = 0;
  friend bool operator==(const LinkCost&, const LinkCost&) = default;
};

// Values of a typical machine, for use without measurements. Jobs measure their machine and replace them (HMC_CACHE).
/// A cache line reaches another core in about 100 ns.
inline constexpr double typical_core_to_core_ns = 100;
/// A core copies or reduces about 10 GB/s of data outside its cache.
inline constexpr double typical_memory_ns_per_byte = 0.1;
/// A put within a node: a copy, and a signal that costs about 30 ns at each end.
inline constexpr LinkCost typical_node_link{typical_core_to_core_ns, 30, 0, typical_memory_ns_per_byte};
/// An RDMA adapter of 100 Gbit/s (0.08 ns per byte) behind one switch. Small messages take about 2 us; the adapter
/// sends one every 100 ns.
inline constexpr LinkCost typical_network_link{1500, 300, 100, 0.08};

/// Within a node a put is a copy, and the sender is busy during it. Between nodes all ranks of a node share one
/// network adapter.
struct CostParameters {
  LinkCost node = typical_node_link;
  LinkCost network = typical_network_link;
  double copy = typical_memory_ns_per_byte;    ///< ns per byte
  double reduce = typical_memory_ns_per_byte;  ///< ns per byte of one contribution
  /// The number of cores if all nodes are emulated on one machine, where ranks may outnumber cores. 0: each rank has
  /// its own core.
  double emulation_cores = 0;
  friend bool operator==(const CostParameters&, const CostParameters&) = default;
};

struct Cost {
  double ns = 0;
  double messages = 0;          ///< consecutive messages on the critical path
  double network_messages = 0;  ///< those of them between nodes
  double bytes = 0;             ///< payload of `messages`, per rank
  double network_bytes = 0;     ///< payload of `network_messages`, per rank
  double copied = 0;
  double reduced = 0;
};

/// Sums the cost of the steps on the critical path. Assumes that all ranks start each step at the same time.
class CriticalPath {
 public:
  CriticalPath(const Shape& shape, const CostParameters& parameters)
      : shape(shape),
        size(shape.size),
        nodes(shape.nodes()),
        per_node(std::min(shape.per_node, shape.size)),
        parameters_(parameters) {}

  const Shape& shape;
  const int size;
  const int nodes;
  const int per_node;

  const LinkCost& node() const { return parameters_.node; }
  const LinkCost& network() const { return parameters_.network; }
  /// The slowest link between any two ranks of the team.
  const LinkCost& slowest_link() const { return nodes > 1 ? parameters_.network : parameters_.node; }
  /// The sum of the steps, with two lower bounds: an adapter carries its node's messages one after the other, and
  /// ranks of emulated nodes that share a core run one after the other.
  Cost cost() const {
    Cost cost = cost_;
    if (adapter_ > 0)
      cost.ns = std::max(cost.ns, adapter_ - network().gap + network().latency + 2 * network().overhead);
    cost.ns = std::max(cost.ns, emulation_ns());
    return cost;
  }

  /// A message on the node; each rank sends `messages` of them in this step.
  void node_message(double bytes, double messages = 1);
  /// A message between nodes; `senders` ranks of each node send at the same time.
  void network_message(double bytes, double senders, double messages = 1);
  /// Every rank sends to the rank at `distance`, in rounds whose distances double. A rank crosses its node's border in
  /// at most one of the rounds with distances below a node's size, so only the last of these is charged as network.
  void shift(double distance, double bytes, double messages = 1);
  /// One rank sends to the rank at `distance`. Distances are multiples of each other and of the ranks per node.
  void hop(double distance, double bytes);
  /// The sender's part of hop(), for a message that isn't on the critical path.
  void send_only(double distance, double bytes);
  /// Each participant exchanges with a partner; the number of participants is a power of two. `every`: ranks per
  /// participant.
  void exchange(double distance, double every, double bytes, double messages = 1);
  /// `times` rounds with the neighbour. `reduced` bytes are forwarded in the next round; `copied` bytes aren't.
  void ring(double times, double bytes, double segments, double copied, double reduced);
  /// Every rank exchanges with every other rank, one peer per round.
  void pairwise(double bytes);
  /// Every rank sends to all others, then receives from all.
  void all_to_all(double bytes);
  /// Reads another rank's scratch.
  void get(double bytes) { add_ns(bytes * node().per_byte); }
  void copy(double bytes);
  void reduce(double bytes);
  /// Adds the cost of `steps`, `times` times.
  template <typename Steps> void repeat(double times, const Steps& steps) {
    CriticalPath once(shape, parameters_);
    steps(once);
    add(once, times);
  }
  /// Two parts that overlap completely: adds the time of the longer one.
  template <typename One, typename Other> void overlap(const One& one, const Other& other) {
    CriticalPath first(shape, parameters_), second(shape, parameters_);
    one(first);
    other(second);
    add(first, 1);
    add(second, 1);
    add_ns(-std::min(first.cost_.ns, second.cost_.ns));
  }
  /// Adds time that no other function models.
  void add_ns(double ns) { cost_.ns += ns; }
  void count(double messages, double bytes, bool network);

  double compute_ns(double copied, double reduced) const {
    return copied * parameters_.copy + reduced * parameters_.reduce;
  }

 private:
  double emulation_ns() const;
  void add(const CriticalPath& path, double times);
  void charge_adapter(double messages, double bytes) {
    adapter_ += messages * (network().gap + bytes * network().per_byte);
  }

  CostParameters parameters_;
  Cost cost_;
  double adapter_ = 0;  ///< total busy time of one node's adapter, in ns
};

}  // namespace hmc::collectives::schedule
