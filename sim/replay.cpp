#include "sim/replay.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "sim/queue.hpp"

namespace hmc::sim {

namespace {

constexpr std::size_t chunk_ops = std::size_t{1} << 20;

ProgramOp op(ProgramOpKind kind, std::uint64_t value, std::uint32_t peer = 0, std::uint32_t slot = 0) {
  return {value, peer, slot << 2 | static_cast<std::uint32_t>(kind)};
}

Time cost_of(const schedule::Step& step, const Model& model) {
  switch (step.kind) {
    case schedule::StepKind::copy: return model.work(model.copy_ps, step.bytes);
    case schedule::StepKind::get: return model.node.stream(step.bytes);
    case schedule::StepKind::fold: return model.work(model.reduce_ps, step.bytes * step.inputs);
    default: return model.work(model.reduce_ps, step.bytes);
  }
}

}  // namespace

Program::Program(int first, int count, const ScheduleSource& build, const Model& model, std::uint64_t max_ops)
    : first_(first) {
  begins_.reserve(static_cast<std::size_t>(count));
  slots_.reserve(static_cast<std::size_t>(count) + 1);
  slots_.push_back(0);
  schedule::Schedule schedule;
  std::vector<ProgramOp> ops;
  for (int i = 0; i < count; ++i) {
    schedule.clear();
    build(first + i, schedule);
    translate(schedule, model, ops);
    total_ops_ += ops.size();
    if (total_ops_ > max_ops) throw TooLarge("too many steps");
    begins_.push_back(keep(ops));
    slots_.push_back(slots_.back() + schedule.slots);
  }
}

void Program::translate(const schedule::Schedule& schedule, const Model& model, std::vector<ProgramOp>& out) const {
  out.clear();
  const schedule::Step* last = nullptr;
  for (const schedule::Step& step : schedule.steps) {
    const bool is_done = last != nullptr && schedule::is_copy_of_sum(step, *last);
    last = &step;
    if (is_done) continue;
    switch (step.kind) {
      case schedule::StepKind::put: out.push_back(op(ProgramOpKind::put, step.bytes, step.peer, step.slot)); break;
      case schedule::StepKind::wait: out.push_back(op(ProgramOpKind::wait, 0, step.peer, step.slot)); break;
      case schedule::StepKind::flush_local: out.push_back(op(ProgramOpKind::flush_local, 0)); break;
      default: {
        const auto cost = static_cast<std::uint64_t>(cost_of(step, model));
        if (!out.empty() && out.back().kind() == ProgramOpKind::work) {
          out.back().value += cost;
        } else {
          out.push_back(op(ProgramOpKind::work, cost));
        }
      }
    }
  }
}

std::span<const ProgramOp> Program::keep(const std::vector<ProgramOp>& ops) {
  if (ops.size() > chunk_left_) {
    chunk_left_ = std::max(chunk_ops, ops.size());
    chunks_.push_back(std::make_unique_for_overwrite<ProgramOp[]>(chunk_left_));
    chunk_next_ = chunks_.back().get();
  }
  ProgramOp* const begin = chunk_next_;
  std::copy(ops.begin(), ops.end(), begin);
  chunk_next_ += ops.size();
  chunk_left_ -= ops.size();
  return {begin, ops.size()};
}

namespace {

using schedule::Shape;

/// A message's stages; each is processed in the order of time.
enum class MessageStage : std::uint8_t { adapter, up, down, arrival };

struct MessageInFlight {
  Time at;
  std::uint64_t bytes;
  std::uint32_t from;
  std::uint32_t to;
  std::uint32_t slot;
  MessageStage stage;
};

/// A rank runs ahead on its own clock until it waits for a message that hasn't arrived, or for its adapter. The queue
/// serves shared resources (adapters, uplinks, downlinks) in the order of time.
class Replayer {
 public:
  Replayer(const Shape& shape, const Program& program, const Model& model, const ReplayLimits& limits, bool mirrored)
      : shape_(shape),
        program_(program),
        model_(model),
        max_messages_(limits.messages),
        mirrored_(mirrored),
        shared_(shape.per_node > 1 || model.tree.enabled),
        ranks_(static_cast<std::size_t>(program.count())),
        arrivals_(program.slots(), unset) {
    const std::size_t nodes = mirrored ? 1 : static_cast<std::size_t>(shape.nodes());
    out_free_.assign(nodes, 0);
    in_free_.assign(nodes, 0);
    if (!model.tree.enabled) return;
    const std::size_t leaves = mirrored ? 1 : nodes / static_cast<std::size_t>(model.tree.leaf_nodes) + 1;
    up_free_.assign(leaves, 0);
    down_free_.assign(leaves, 0);
  }

  Prediction run() {
    for (int i = 0; i < program_.count(); ++i) {
      runnable_.push_back(i);
      run_all();
    }
    while (!queue_.empty()) {
      advance(queue_.pop());
      run_all();
    }
    return result();
  }

 private:
  static constexpr Time unset = -1;

  struct ReplayedRank {
    Time now = 0;
    Time injected = 0;  // when the adapter has read all of this rank's puts so far
    std::uint32_t next = 0;
    std::uint32_t pending = 0;  // puts that the adapter hasn't begun
  };

  int node_of(std::uint32_t rank) const { return shape_.node_of(static_cast<int>(rank)); }
  std::size_t adapter_of(std::uint32_t rank) const { return mirrored_ ? 0 : static_cast<std::size_t>(node_of(rank)); }
  std::size_t leaf_of(std::uint32_t rank) const {
    return mirrored_ ? 0 : static_cast<std::size_t>(node_of(rank) / model_.tree.leaf_nodes);
  }
  const LinkTiming& link(std::uint32_t a, std::uint32_t b) const {
    return node_of(a) == node_of(b) ? model_.node : model_.network;
  }
  /// The replayed rank that receives a message to `rank`. Mirrored: this node's rank with the same position.
  int index_of(std::uint32_t rank) const {
    return mirrored_ ? static_cast<int>(rank) % shape_.per_node : static_cast<int>(rank) - program_.first();
  }

  void run_all() {
    while (!runnable_.empty()) {
      const int index = runnable_.back();
      runnable_.pop_back();
      run_rank(index);
    }
  }

  void run_rank(int index) {
    const std::span<const ProgramOp> ops = program_.ops(index);
    ReplayedRank& rank = ranks_[static_cast<std::size_t>(index)];
    const auto me = static_cast<std::uint32_t>(program_.first() + index);
    for (; rank.next < ops.size(); ++rank.next) {
      const ProgramOp& op = ops[rank.next];
      switch (op.kind()) {
        case ProgramOpKind::work: rank.now += static_cast<Time>(op.value); break;
        case ProgramOpKind::put: put(rank, me, op); break;
        case ProgramOpKind::flush_local:
          if (rank.pending > 0) return;
          rank.now = std::max(rank.now, rank.injected);
          break;
        case ProgramOpKind::wait: {
          const Time arrival = arrivals_[program_.slots_begin(index) + op.slot()];
          if (arrival == unset) return;
          rank.now = std::max(rank.now, arrival) + link(me, op.peer).overhead;
          ++result_.received;
          break;
        }
      }
    }
  }

  void put(ReplayedRank& rank, std::uint32_t me, const ProgramOp& op) {
    ++result_.sent;
    const LinkTiming& link = this->link(me, op.peer);
    rank.now += link.overhead;
    if (&link == &model_.node) {
      rank.now += link.stream(op.value);
      deliver(op.peer, op.slot(), rank.now + link.latency);
      return;
    }
    ++result_.network_messages;
    result_.network_bytes += op.value;
    const MessageInFlight message{rank.now, op.value, me, op.peer, op.slot(), MessageStage::adapter};
    ++rank.pending;
    // An adapter that serves only one rank sends in program order.
    if (queue_.size() >= max_messages_) throw TooLarge("too many messages at one time");
    shared_ ? queue_.push(message) : advance(message);
  }

  /// Occupies a resource from `now` or later, for `busy`. Returns the start.
  static Time serve(Time& free, Time now, Time busy) {
    const Time start = std::max(free, now);
    free = start + busy;
    return start;
  }

  void advance(MessageInFlight message) {
    const LinkTiming& net = model_.network;
    const Time bytes = net.stream(message.bytes);
    switch (message.stage) {
      case MessageStage::adapter: {
        const Time start = serve(out_free_[adapter_of(message.from)], message.at, bytes + net.gap);
        injected(index_of(message.from), start + bytes);
        const bool crosses = model_.tree.enabled && node_of(message.from) / model_.tree.leaf_nodes !=
                                                        node_of(message.to) / model_.tree.leaf_nodes;
        forward(message, start + net.latency, crosses ? MessageStage::up : MessageStage::arrival);
        break;
      }
      case MessageStage::up:
        forward(message,
                serve(up_free_[leaf_of(message.from)], message.at, uplink_time(message.bytes)) + model_.tree.hop,
                MessageStage::down);
        break;
      case MessageStage::down:
        forward(message,
                serve(down_free_[leaf_of(message.to)], message.at, uplink_time(message.bytes)) + model_.tree.hop,
                MessageStage::arrival);
        break;
      case MessageStage::arrival: {
        const Time start = serve(in_free_[adapter_of(message.to)], message.at, bytes + net.gap);
        deliver(message.to, message.slot, start + bytes);
      }
    }
  }

  void forward(MessageInFlight message, Time at, MessageStage stage) {
    message.at = at;
    message.stage = stage;
    queue_.push(message);
  }

  /// The time for which a message occupies a leaf's uplink. Mirrored: one node represents all nodes of its leaf.
  Time uplink_time(std::uint64_t bytes) const {
    const double inputs = mirrored_ ? 1 : model_.tree.leaf_nodes;
    return model_.work(model_.network.per_byte_ps * model_.tree.oversubscription / inputs, bytes);
  }

  void injected(int index, Time until) {
    ReplayedRank& rank = ranks_[static_cast<std::size_t>(index)];
    rank.injected = std::max(rank.injected, until);
    const std::span<const ProgramOp> ops = program_.ops(index);
    if (--rank.pending == 0 && shared_ && rank.next < ops.size() && ops[rank.next].kind() == ProgramOpKind::flush_local)
      runnable_.push_back(index);
  }

  void deliver(std::uint32_t to, std::uint32_t slot, Time at) {
    const int index = index_of(to);
    const std::uint64_t place = program_.slots_begin(index) + slot;
    if (place >= program_.slots_begin(index + 1)) fail("a message for a slot that doesn't exist", index, slot);
    if (arrivals_[place] != unset) fail("two messages for one slot", index, slot);
    arrivals_[place] = at;
    const ReplayedRank& rank = ranks_[static_cast<std::size_t>(index)];
    const std::span<const ProgramOp> ops = program_.ops(index);
    if (rank.next >= ops.size()) return;
    const ProgramOp& op = ops[rank.next];
    if (op.kind() == ProgramOpKind::wait && op.slot() == slot) runnable_.push_back(index);
  }

  Prediction result() {
    result_.earliest = ranks_.empty() ? 0 : ranks_.front().now;
    for (int i = 0; i < program_.count(); ++i) {
      const ReplayedRank& rank = ranks_[static_cast<std::size_t>(i)];
      const std::span<const ProgramOp> ops = program_.ops(i);
      if (rank.next < ops.size()) fail("a wait without a message", i, ops[rank.next].slot());
      result_.time = std::max(result_.time, rank.now);
      result_.earliest = std::min(result_.earliest, rank.now);
    }
    if (result_.sent != result_.received) throw std::runtime_error("a message without a wait");
    result_.estimated = mirrored_;
    return result_;
  }

  [[noreturn]] void fail(const char* what, int index, std::uint32_t slot) const {
    throw std::runtime_error(std::string(what) + ": rank " + std::to_string(program_.first() + index) + ", slot " +
                             std::to_string(slot));
  }

  const Shape& shape_;
  const Program& program_;
  const Model& model_;
  const std::uint64_t max_messages_;
  const bool mirrored_;
  const bool shared_;
  std::vector<ReplayedRank> ranks_;
  std::vector<Time> arrivals_;
  std::vector<Time> out_free_, in_free_, up_free_, down_free_;
  RadixQueue<MessageInFlight> queue_;
  std::vector<int> runnable_;
  Prediction result_;
};

}  // namespace

Prediction replay(const Shape& shape, const ScheduleSource& build, const Model& model, const ReplayLimits& limits) {
  const Program program(0, shape.size, build, model, limits.ops);
  return Replayer(shape, program, model, limits, false).run();
}

Prediction replay_one_node(const Shape& shape, const ScheduleSource& build, const Model& model,
                           const ReplayLimits& limits) {
  if (shape.size % shape.per_node != 0) throw std::runtime_error("nodes differ: the last one has fewer ranks");
  const Program program(shape.nodes() / 2 * shape.per_node, shape.per_node, build, model, limits.ops);
  return Replayer(shape, program, model, limits, true).run();
}

Prediction predict(const Shape& shape, const ScheduleSource& build, const Model& model, const ReplayLimits& limits) {
  try {
    return replay(shape, build, model, limits);
  } catch (const TooLarge&) {
  }
  try {
    return replay_one_node(shape, build, model, limits);
  } catch (const TooLarge&) {
    throw;
  } catch (const std::runtime_error&) {
    throw TooLarge("too many messages, and the nodes aren't alike");
  }
}

}  // namespace hmc::sim
