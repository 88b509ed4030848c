#include "collectives/schedule/cost.hpp"

#include <cmath>

namespace hmc::collectives::schedule {

namespace {

/// Time from the call of a put to the end of the receiver's wait.
double one_way(const LinkCost& link, double bytes) { return 2 * link.overhead + link.latency + bytes * link.per_byte; }

}  // namespace

/// Emulated nodes only: the core time of all ranks, divided by the cores; 0 if each rank has a core. TCP over loopback
/// copies at both ends, so both ends of a message cost core time per byte.
double CriticalPath::emulation_ns() const {
  if (parameters_.emulation_cores <= 0 || size <= parameters_.emulation_cores) return 0;
  const double near_bytes = cost_.bytes - cost_.network_bytes, near_messages = cost_.messages - cost_.network_messages;
  const double busy = 2 * near_messages * node().overhead +
                      cost_.network_messages * (2 * network().overhead + network().gap) + near_bytes * node().per_byte +
                      2 * cost_.network_bytes * network().per_byte + compute_ns(cost_.copied, cost_.reduced);
  return busy * size / parameters_.emulation_cores;
}

void CriticalPath::count(double messages, double bytes, bool network) {
  cost_.messages += messages;
  cost_.bytes += bytes;
  if (!network) return;
  cost_.network_messages += messages;
  cost_.network_bytes += bytes;
}

void CriticalPath::add(const CriticalPath& path, double times) {
  const Cost& cost = path.cost_;
  adapter_ += times * path.adapter_;
  cost_.ns += times * cost.ns;
  cost_.messages += times * cost.messages;
  cost_.network_messages += times * cost.network_messages;
  cost_.bytes += times * cost.bytes;
  cost_.network_bytes += times * cost.network_bytes;
  cost_.copied += times * cost.copied;
  cost_.reduced += times * cost.reduced;
}

void CriticalPath::node_message(double bytes, double messages) {
  const LinkCost& link = node();
  add_ns(one_way(link, bytes) + (messages - 1) * (2 * link.overhead + bytes * link.per_byte));
  count(messages, messages * bytes, false);
}

void CriticalPath::network_message(double bytes, double senders, double messages) {
  const LinkCost& link = network();
  const double each = link.gap + bytes * link.per_byte;
  const double queue = std::max((senders * messages - 1) * each, (messages - 1) * 2 * link.overhead);
  add_ns(one_way(link, bytes) + queue);
  charge_adapter(senders * messages, bytes);
  count(messages, messages * bytes, true);
}

void CriticalPath::shift(double distance, double bytes, double messages) {
  const double away = std::min(distance, size - distance);
  if (nodes > 1 && 2 * away >= per_node) return network_message(bytes, std::clamp<double>(away, 1, per_node), messages);
  node_message(bytes, messages);
  if (nodes > 1) charge_adapter(away * messages, bytes);
}

void CriticalPath::hop(double distance, double bytes) {
  const bool aligned = (per_node & (per_node - 1)) == 0;
  if (nodes == 1 || (aligned ? distance < per_node : 2 * distance < per_node))
    node_message(bytes);
  else
    network_message(bytes, 1);
}

void CriticalPath::send_only(double distance, double bytes) {
  const LinkCost& link = nodes == 1 || distance < per_node ? node() : network();
  add_ns(link.overhead + link.gap + bytes * link.per_byte);
}

void CriticalPath::exchange(double distance, double every, double bytes, double messages) {
  const double ranks = distance * every, taking_part = std::max(1.0, per_node / every);
  const bool aligned = (per_node & (per_node - 1)) == 0 && every == 1;
  if (nodes == 1 || (aligned ? ranks * messages < per_node : 2 * ranks * messages < per_node))
    return node_message(bytes, messages);
  network_message(bytes, std::clamp(distance, 1.0, taking_part), messages);
}

/// A block travels around the ring: the sum of its hops, limited by the rate at which the slowest link or rank
/// forwards segments.
void CriticalPath::ring(double times, double bytes, double segments, double copied, double reduced) {
  if (times <= 0) return;
  const double part = bytes / segments, added = compute_ns(0, reduced) / segments,
               busy = added + compute_ns(copied, 0) / segments;
  const double crossings = nodes > 1 ? std::ceil(times / per_node) : 0;
  const double hops =
      (times - crossings) * (one_way(node(), part) + added) + crossings * (one_way(network(), part) + added);
  double stage = 2 * node().overhead + part * node().per_byte + busy;
  if (nodes > 1)
    stage =
        std::max({per_node > 1 ? stage : 0, network().gap + part * network().per_byte, 2 * network().overhead + busy});
  const double filled = times * segments * stage + one_way(slowest_link(), part);
  add_ns(std::max(hops + (segments - 1) * stage + (busy - added), segments > 1 ? filled : times * stage));
  count((times - crossings) * segments, (times - crossings) * bytes, false);
  count(crossings * segments, crossings * bytes, true);
  cost_.copied += times * copied;
  cost_.reduced += times * reduced;
}

/// In the first and last rounds only some of a node's ranks send to another node: on average half. The adapter carries
/// all messages between nodes.
void CriticalPath::pairwise(double bytes) {
  if (size == 1) return;
  const double rounds = size - 1, away = size - per_node;
  const double full = nodes > 1 ? std::clamp<double>(size - 2.0 * per_node + 1, 0, rounds) : 0;
  const double outside = nodes > 1 ? full + (rounds - full) / 2 : 0;
  const double waiting = outside * one_way(network(), bytes) + (rounds - outside) * one_way(node(), bytes);
  const double adapter = per_node * away * (network().gap + bytes * network().per_byte);
  add_ns(std::max(waiting, nodes > 1 ? adapter + one_way(network(), 0) : 0));
  count(rounds - outside, (rounds - outside) * bytes, false);
  count(outside, outside * bytes, true);
}

void CriticalPath::all_to_all(double bytes) {
  if (size == 1) return;
  const double near_peers = per_node - 1, far_peers = size - per_node;
  const double sending = near_peers * (node().overhead + bytes * node().per_byte) + far_peers * network().overhead;
  const double receiving = near_peers * node().overhead + far_peers * network().overhead;
  const double adapter = per_node * far_peers * (network().gap + bytes * network().per_byte);
  add_ns(std::max(sending, adapter) + receiving + (far_peers > 0 ? network().latency : node().latency));
  count(near_peers, near_peers * bytes, false);
  count(far_peers, far_peers * bytes, true);
}

void CriticalPath::copy(double bytes) {
  add_ns(compute_ns(bytes, 0));
  cost_.copied += bytes;
}

void CriticalPath::reduce(double bytes) {
  add_ns(compute_ns(0, bytes));
  cost_.reduced += bytes;
}

}  // namespace hmc::collectives::schedule
