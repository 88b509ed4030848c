// What a schedule costs, without building it: closed forms of the critical path under LogGP with nodes. The simulator
// (sim/) replays the schedules themselves under the same model; a test holds the two against each other.
#pragma once

#include <algorithm>

#include "collectives/schedule/call.hpp"

namespace hmc::collectives::schedule {

/// Nanoseconds. A message costs its sender `overhead` and its receiver another; its first byte is there `latency`
/// later, the others follow one per `per_byte`; the next message enters the link `gap` after the last byte.
struct Link {
  double latency = 0;
  double overhead = 0;
  double gap = 0;
  double per_byte = 0;
  friend bool operator==(const Link&, const Link&) = default;
};

/// On a node a put is a copy by its sender, which it keeps busy. Between nodes the ranks of a node share one adapter.
struct Parameters {
  Link node{100, 30, 0, 0.1};
  Link network{1500, 300, 100, 0.08};
  double copy = 0.1;    ///< of a byte
  double reduce = 0.1;  ///< of a byte of one contribution
  /// Of the one machine on which nodes are pretended, where ranks may outnumber them; 0: every rank has one.
  double cores = 0;
  friend bool operator==(const Parameters&, const Parameters&) = default;
};

struct Cost {
  double ns = 0;
  double messages = 0;          ///< one after the other, of them
  double network_messages = 0;  ///< between nodes
  double bytes = 0;             ///< that these carry, per rank, of them
  double network_bytes = 0;     ///< between nodes
  double copied = 0;
  double reduced = 0;
};

/// A walk along the critical path, from which costs add up. A step is what all ranks do at the same time.
class Path {
 public:
  Path(const Shape& shape, const Parameters& parameters)
      : shape(shape),
        size(shape.size),
        nodes(shape.nodes()),
        per_node(std::min(shape.per_node, shape.size)),
        parameters_(parameters) {}

  const Shape& shape;
  const int size;
  const int nodes;
  const int per_node;

  const Link& node() const { return parameters_.node; }
  const Link& network() const { return parameters_.network; }
  /// The link that messages take where all ranks talk.
  const Link& widest() const { return nodes > 1 ? parameters_.network : parameters_.node; }
  /// Whatever overlaps, an adapter carries its node's messages one after the other, and ranks that share a core take
  /// turns.
  Cost cost() const {
    Cost cost = cost_;
    if (adapter_ > 0)
      cost.ns = std::max(cost.ns, adapter_ - network().gap + network().latency + 2 * network().overhead);
    cost.ns = std::max(cost.ns, turns());
    return cost;
  }

  /// A message on the node. `messages`: so many leave each rank in this step.
  void near(double bytes, double messages = 1);
  /// Between nodes, while `senders` ranks of each node send.
  void far(double bytes, double senders, double messages = 1);
  /// From every rank to the one `distance` further (or nearer), in rounds whose distances double. Who has crossed the
  /// border of a node in one of the rounds below a node's size doesn't in another, so the last of them stands for all.
  void shift(double distance, double bytes, double messages = 1);
  /// From one rank to one `distance` away, where distances are multiples of each other and of the node's ranks.
  void hop(double distance, double bytes);
  /// The sender's part of that, when others are waited for longer.
  void occupy(double distance, double bytes);
  /// Every rank with its partner in a power of two; `every`: ranks per partner.
  void exchange(double distance, double every, double bytes, double messages = 1);
  /// `times` rounds with the neighbour. What is reduced goes on; what is copied stays.
  void ring(double times, double bytes, double segments, double copied, double reduced);
  /// Every rank to every other one, and from it, round by round.
  void pairwise(double bytes);
  /// The same at once.
  void all_to_all(double bytes);
  void copy(double bytes);
  void reduce(double bytes);
  /// What `steps` goes through, so many times.
  template <typename Steps> void repeat(double times, const Steps& steps) {
    Path once(shape, parameters_);
    steps(once);
    add(once, times);
  }
  /// Two parts of which the shorter is done during the longer.
  template <typename One, typename Other> void overlap(const One& one, const Other& other) {
    Path first(shape, parameters_), second(shape, parameters_);
    one(first);
    other(second);
    add(first, 1);
    add(second, 1);
    spend(-std::min(first.cost_.ns, second.cost_.ns));
  }
  /// For what is no step of the above.
  void spend(double ns) { cost_.ns += ns; }
  void count(double messages, double bytes, bool network);

  double work(double copied, double reduced) const { return copied * parameters_.copy + reduced * parameters_.reduce; }

 private:
  double turns() const;
  void add(const Path& path, double times);
  void carry(double messages, double bytes) { adapter_ += messages * (network().gap + bytes * network().per_byte); }

  Parameters parameters_;
  Cost cost_;
  double adapter_ = 0;  ///< ns of a node's, in all
};

}  // namespace hmc::collectives::schedule
