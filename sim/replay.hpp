// Replays the schedules of a whole team under a model of its machine. Times are whole picoseconds, so sums are exact
// and the output is the same on all machines.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "collectives/schedule/cost.hpp"
#include "collectives/schedule/schedule.hpp"

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

namespace schedule = hmc::collectives::schedule;

/// Builds one rank's schedule in `out`, which is empty.
using ScheduleSource = std::function<void(int rank, schedule::Schedule& out)>;

/// More steps than the limit allows.
struct TooLarge : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class ProgramOpKind : std::uint32_t { put, wait, flush_local, work };

/// The properties of a step that determine its time. Consecutive copies, reductions and folds are one `work`.
struct ProgramOp {
  std::uint64_t value;  ///< bytes of a put, picoseconds of work
  std::uint32_t peer;
  std::uint32_t slot_and_kind;

  ProgramOpKind kind() const { return static_cast<ProgramOpKind>(slot_and_kind & 3U); }
  std::uint32_t slot() const { return slot_and_kind >> 2; }
};
static_assert(sizeof(ProgramOp) == 16);

/// The steps of ranks [first, first + count).
class Program {
 public:
  Program(int first, int count, const ScheduleSource& build, const Model& model, std::uint64_t max_ops);

  int first() const { return first_; }
  int count() const { return static_cast<int>(begins_.size()); }
  std::span<const ProgramOp> ops(int index) const { return begins_[static_cast<std::size_t>(index)]; }
  /// The slots of all ranks are in one array; a rank's slots begin here.
  std::uint64_t slots_begin(int index) const { return slots_[static_cast<std::size_t>(index)]; }
  std::uint64_t slots() const { return slots_.back(); }

 private:
  void translate(const schedule::Schedule& schedule, const Model& model, std::vector<ProgramOp>& out) const;
  std::span<const ProgramOp> keep(const std::vector<ProgramOp>& ops);

  int first_;
  std::uint64_t total_ops_ = 0;
  std::vector<std::span<const ProgramOp>> begins_;
  std::vector<std::uint64_t> slots_;
  std::vector<std::unique_ptr<ProgramOp[]>> chunks_;
  std::size_t chunk_left_ = 0;
  ProgramOp* chunk_next_ = nullptr;
};

struct Prediction {
  Time time = 0;      ///< the end of the last rank; all ranks start at 0
  Time earliest = 0;  ///< the end of the first rank
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t network_messages = 0;
  std::uint64_t network_bytes = 0;
  bool estimated = false;  ///< only one node's ranks were replayed
};

struct ReplayLimits {
  std::uint64_t ops = 120'000'000;      ///< steps in memory: 16 bytes each
  std::uint64_t messages = 16'000'000;  ///< in flight at one time: 32 bytes each, and as much again while sorted
};

/// Every rank, every message. Throws TooLarge, or std::runtime_error if the schedules don't match (a wait without a
/// message, two messages for one slot, a message without a wait).
Prediction replay(const schedule::Shape& shape, const ScheduleSource& build, const Model& model,
                  const ReplayLimits& limits = {});

/// Replays the ranks of one node, which represent all nodes. For algorithms whose number of messages grows with the
/// square of the team size (rings, pairwise exchange). A message to another node also represents the message that
/// this node receives from the corresponding rank. Throws std::runtime_error if nodes differ.
Prediction replay_one_node(const schedule::Shape& shape, const ScheduleSource& build, const Model& model,
                           const ReplayLimits& limits = {});

/// replay(), or if that is too large, the replay of one node. Throws TooLarge if neither is possible.
Prediction predict(const schedule::Shape& shape, const ScheduleSource& build, const Model& model,
                   const ReplayLimits& limits = {});

}  // namespace hmc::sim
