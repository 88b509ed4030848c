// The simulator against closed forms of LogGP, derived by hand.
#include "sim/replay.hpp"

#include <gtest/gtest.h>

#include <bit>

#include "collectives/schedule/algorithms/algorithms.hpp"

namespace hmc::sim {
namespace {

using schedule::Call;
using schedule::Schedule;
using schedule::Shape;
using schedule::Step;

Model network_only() {
  Model model;
  model.network = {from_ns(1500), from_ns(300), from_ns(100), 80};
  model.copy_ps = 0;
  model.reduce_ps = 0;
  return model;
}

Call call_of(CollectiveKind collective, std::uint64_t bytes) {
  Call call;
  call.collective = collective;
  call.count = bytes;
  return call;
}

ScheduleSource builder(CollectiveKind collective, const char* name, const Shape& shape, const Call& call) {
  const schedule::Algorithm* const algorithm = schedule::find(collective, name);
  EXPECT_NE(algorithm, nullptr) << name;
  return [=](int rank, Schedule& out) { algorithm->build_into(shape, call, rank, out); };
}

Prediction run(CollectiveKind collective, const char* name, int ranks, std::uint64_t bytes, const Model& model) {
  const Shape shape{ranks, 1};
  return replay(shape, builder(collective, name, shape, call_of(collective, bytes)), model);
}

Step put(int peer, std::uint64_t bytes, std::uint32_t slot) {
  Step step;
  step.kind = schedule::StepKind::put;
  step.peer = static_cast<std::uint32_t>(peer);
  step.bytes = bytes;
  step.slot = slot;
  return step;
}

Step wait(int peer, std::uint32_t slot) {
  Step step;
  step.kind = schedule::StepKind::wait;
  step.peer = static_cast<std::uint32_t>(peer);
  step.slot = slot;
  return step;
}

TEST(ClosedForm, dissemination_has_its_closed_form) {
  const Model model = network_only();
  for (const int ranks : {1, 2, 3, 8, 31, 64, 1000}) {
    const auto rounds = std::bit_width(static_cast<unsigned>(ranks - 1));
    const Prediction p = run(CollectiveKind::barrier, "dissemination", ranks, 0, model);
    EXPECT_EQ(p.time, rounds * (model.network.latency + 2 * model.network.overhead)) << ranks;
    EXPECT_EQ(p.earliest, p.time) << ranks;
    EXPECT_EQ(p.sent, static_cast<std::uint64_t>(rounds) * static_cast<std::uint64_t>(ranks)) << ranks;
  }
}

/// The time at which the last rank of a binomial tree of 2^levels ranks has the message, if its root has it at `have`.
/// The root sends to the largest subtree first. Its i-th message enters the link as soon as overhead and link allow.
Time binomial(int levels, Time have, const LinkTiming& link, std::uint64_t bytes) {
  Time latest = have, cpu = have, free = 0;
  for (int child = levels - 1; child >= 0; --child) {
    cpu += link.overhead;
    const Time start = std::max(cpu, free);
    free = start + link.stream(bytes) + link.gap;
    const Time has = start + link.latency + link.stream(bytes) + link.overhead;
    latest = std::max(latest, binomial(child, has, link, bytes));
  }
  return latest;
}

TEST(ClosedForm, binomial_broadcast_has_its_closed_form) {
  const Model model = network_only();
  for (const int levels : {1, 2, 3, 6, 10}) {
    for (const std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{8}, std::uint64_t{100'000}}) {
      const Prediction p = run(CollectiveKind::broadcast, "binomial", 1 << levels, bytes, model);
      // A rank finishes when its adapter has read its last message; the leaves finish later.
      EXPECT_EQ(p.time, binomial(levels, 0, model.network, bytes)) << levels << " levels, " << bytes << " bytes";
      EXPECT_EQ(p.network_bytes, bytes * ((std::uint64_t{1} << levels) - 1));
    }
  }
}

TEST(ClosedForm, ring_allgather_has_its_closed_form) {
  const Model model = network_only();
  for (const int ranks : {2, 3, 7, 16}) {
    const std::uint64_t bytes = 4096;
    const Prediction p = run(CollectiveKind::allgather, "ring", ranks, bytes, model);
    const Time step = model.network.latency + 2 * model.network.overhead + model.network.stream(bytes);
    EXPECT_EQ(p.time, (ranks - 1) * step) << ranks;
  }
}

TEST(ClosedForm, reductions_and_copies_have_a_cost) {
  Model model = network_only();
  const Prediction without = run(CollectiveKind::allreduce, "recursive_doubling", 16, 8192, model);
  model.reduce_ps = 250;
  const Prediction with = run(CollectiveKind::allreduce, "recursive_doubling", 16, 8192, model);
  EXPECT_EQ(with.time - without.time, 4 * 8192 * 250);
}

TEST(ClosedForm, sender_copies_on_a_node) {
  Model model = network_only();
  model.node = {from_ns(100), from_ns(30), 0, 50};
  const Shape shape{2, 2};
  const ScheduleSource build = [](int rank, Schedule& out) {
    out.slots = 1;
    out.steps = rank == 0 ? std::vector{put(1, 1001, 0)} : std::vector{wait(0, 0)};
  };
  const Prediction p = replay(shape, build, model);
  EXPECT_EQ(p.earliest, from_ns(30) + 1000 * 50);
  EXPECT_EQ(p.time, from_ns(30) + 1000 * 50 + from_ns(100) + from_ns(30));
  EXPECT_EQ(p.network_messages, 0U);
}

TEST(ClosedForm, ranks_of_a_node_share_its_adapter) {
  const Model model = network_only();
  const LinkTiming& net = model.network;
  const Shape shape{8, 4};
  const std::uint64_t bytes = 10'001;
  const ScheduleSource build = [&](int rank, Schedule& out) {  // 0..3 each to its counterpart on the other node
    out.slots = 1;
    out.steps = rank < 4 ? std::vector{put(rank + 4, bytes, 0)} : std::vector{wait(rank - 4, 0)};
  };
  const Time one = net.stream(bytes) + net.gap;
  EXPECT_EQ(replay(shape, build, model).time, net.overhead + 3 * one + net.latency + net.stream(bytes) + net.overhead);
}

TEST(ClosedForm, messages_leave_one_adapter_one_by_one) {
  Model model = network_only();
  model.network.gap = from_ns(1000);
  const LinkTiming& net = model.network;
  const Shape shape{4, 1};
  const ScheduleSource build = [](int rank, Schedule& out) {  // 0 to all others; the gap is longer than the overhead
    out.slots = 1;
    out.steps = rank == 0 ? std::vector{put(1, 1, 0), put(2, 1, 0), put(3, 1, 0)} : std::vector{wait(0, 0)};
  };
  EXPECT_EQ(replay(shape, build, model).time, net.overhead + 2 * net.gap + net.latency + net.overhead);
}

TEST(ClosedForm, messages_enter_one_adapter_one_by_one) {
  const Model model = network_only();
  const LinkTiming& net = model.network;
  const Shape shape{5, 1};
  const std::uint64_t bytes = 10'001;
  const ScheduleSource build = [&](int rank, Schedule& out) {  // all others to 0
    out.slots = 4;
    out.steps = {put(0, bytes, static_cast<std::uint32_t>(rank - 1))};
    if (rank == 0) out.steps = {wait(1, 0), wait(2, 1), wait(3, 2), wait(4, 3)};
  };
  const Time first = net.overhead + net.latency + net.stream(bytes);
  EXPECT_EQ(replay(shape, build, model).time, first + 3 * (net.stream(bytes) + net.gap) + net.overhead);
}

TEST(ClosedForm, settle_waits_for_the_adapter) {
  const Model model = network_only();
  const LinkTiming& net = model.network;
  const std::uint64_t bytes = 10'001;
  for (const int per_node : {1, 2}) {  // one adapter per rank, and a shared one
    const Shape shape{2 * per_node, per_node};
    const ScheduleSource build = [&](int rank, Schedule& out) {
      out.slots = 1;
      Step flush;
      if (rank < per_node) out.steps = {put(rank + per_node, bytes, 0), flush};
      if (rank >= per_node) out.steps = {wait(rank - per_node, 0)};
    };
    EXPECT_EQ(replay(shape, build, model).earliest, net.overhead + net.stream(bytes)) << per_node;
  }
}

TEST(ClosedForm, fold_reads_every_contribution) {
  Model model = network_only();
  model.reduce_ps = 250;
  const ScheduleSource build = [](int, Schedule& out) {
    Step fold;
    fold.kind = schedule::StepKind::fold;
    fold.bytes = 1000;
    fold.inputs = 3;
    out.steps = {fold};
  };
  EXPECT_EQ(replay(Shape{1, 1}, build, model).time, 3 * 1000 * 250);
}

TEST(ClosedForm, oversubscribed_tree_is_as_slow_as_its_trunk) {
  Model model = network_only();
  model.tree = {.enabled = true, .leaf_nodes = 4, .oversubscription = 4, .hop = from_ns(200)};
  const LinkTiming& net = model.network;
  const std::uint64_t bytes = 1'000'000;
  const auto across = [&](int distance) {
    const Shape shape{8, 1};
    const ScheduleSource build = [&, distance](int rank, Schedule& out) {
      out.slots = 1;
      const int half = rank / 4 * 4;
      const int to = distance == 4 ? (rank + 4) % 8 : half + (rank + 1) % 4;
      const int from = distance == 4 ? (rank + 4) % 8 : half + (rank + 3) % 4;
      out.steps = {put(to, bytes, 0), wait(from, 0)};
    };
    return replay(shape, build, model).time;
  };
  const Time inside = net.overhead + net.latency + net.stream(bytes) + net.overhead;
  EXPECT_EQ(across(1), inside);
  // Four nodes share a trunk with the bandwidth of one link: each message occupies the trunk as long as its own link.
  const Time trunk = model.work(net.per_byte_ps, bytes);
  EXPECT_EQ(across(4), inside + 2 * from_ns(200) + 3 * trunk);
}

TEST(Conservation, sent_bytes_are_received) {
  for (const schedule::Algorithm& algorithm : schedule::algorithms()) {
    for (const Shape shape : {Shape{1, 1}, Shape{7, 1}, Shape{16, 4}, Shape{13, 4}, Shape{64, 8}}) {
      const Call call = call_of(algorithm.collective, 1000);
      if (!algorithm.applies(shape, call)) continue;
      std::uint64_t puts = 0;
      const ScheduleSource build = [&](int rank, Schedule& out) {
        algorithm.build_into(shape, call, rank, out);
        for (const Step& step : out.steps) puts += step.kind == schedule::StepKind::put ? 1 : 0;
      };
      Model model;
      for (const bool tree : {false, true}) {
        model.tree.enabled = tree;
        model.tree.leaf_nodes = 2;
        puts = 0;
        const Prediction p = replay(shape, build, model);
        EXPECT_EQ(p.sent, puts) << algorithm.name;
        EXPECT_EQ(p.received, puts) << algorithm.name;
      }
    }
  }
}

TEST(Parameters, every_parameter_changes_the_result) {
  const Shape shape{64, 8};
  const Call call = call_of(CollectiveKind::allreduce, 4096);
  const ScheduleSource build = builder(CollectiveKind::allreduce, "recursive_doubling", shape, call);
  const Time base = replay(shape, build, Model{}).time;
  const auto changed = [&](auto change) {
    Model model;
    change(model);
    return replay(shape, build, model).time;
  };
  EXPECT_GT(changed([](Model& m) { m.node.latency *= 2; }), base);
  EXPECT_GT(changed([](Model& m) { m.node.overhead *= 2; }), base);
  EXPECT_GT(changed([](Model& m) { m.node.per_byte_ps *= 2; }), base);
  EXPECT_GT(changed([](Model& m) { m.network.latency *= 2; }), base);
  EXPECT_GT(changed([](Model& m) { m.network.overhead *= 2; }), base);
  EXPECT_GT(changed([](Model& m) { m.network.gap *= 2; }), base);
  EXPECT_GT(changed([](Model& m) { m.network.per_byte_ps *= 2; }), base);
  EXPECT_GT(changed([](Model& m) { m.reduce_ps *= 2; }), base);
}

TEST(InvalidSchedule, inconsistent_schedules_are_rejected) {
  const Shape shape{2, 1};
  const Model model;
  const auto with = [&](std::vector<Step> zero, std::vector<Step> one) {
    return [=](int rank, Schedule& out) {
      out.slots = 1;
      out.steps = rank == 0 ? zero : one;
    };
  };
  EXPECT_THROW(replay(shape, with({}, {wait(0, 0)}), model), std::runtime_error);
  EXPECT_THROW(replay(shape, with({put(1, 8, 0)}, {}), model), std::runtime_error);
  EXPECT_THROW(replay(shape, with({put(1, 8, 0), put(1, 8, 0)}, {wait(0, 0)}), model), std::runtime_error);
  EXPECT_THROW(replay(shape, with({put(1, 8, 7)}, {wait(0, 0)}), model), std::runtime_error);
  EXPECT_THROW(replay(shape, with({wait(1, 0), put(1, 8, 0)}, {wait(0, 0), put(0, 8, 0)}), model), std::runtime_error);
}

TEST(OneNode, one_node_represents_equal_nodes) {
  struct Case {
    CollectiveKind collective;
    const char* name;
  };
  for (const Case c : {Case{CollectiveKind::barrier, "dissemination"}, Case{CollectiveKind::allgather, "ring"},
                       Case{CollectiveKind::allreduce, "ring"}}) {
    for (const Shape shape : {Shape{64, 1}, Shape{64, 8}, Shape{96, 4}}) {
      const ScheduleSource build = builder(c.collective, c.name, shape, call_of(c.collective, 64 << 10));
      const double all = static_cast<double>(replay(shape, build, Model{}).time);
      const Prediction one = replay_one_node(shape, build, Model{});
      EXPECT_TRUE(one.estimated);
      EXPECT_NEAR(static_cast<double>(one.time) / all, 1, 0.02) << c.name << " " << shape.per_node;
    }
  }
}

TEST(OneNode, different_nodes_are_rejected) {
  const Shape shape{64, 8};
  const ScheduleSource build =
      builder(CollectiveKind::broadcast, "binomial", shape, call_of(CollectiveKind::broadcast, 8));
  EXPECT_THROW(replay_one_node(shape, build, Model{}), std::runtime_error);
}

TEST(SimLimits, one_node_is_simulated_above_the_step_limit) {
  const Shape shape{256, 8};
  const ScheduleSource build =
      builder(CollectiveKind::allgather, "ring", shape, call_of(CollectiveKind::allgather, 1024));
  EXPECT_THROW(replay(shape, build, Model{}, {.ops = 10'000}), TooLarge);
  EXPECT_TRUE(predict(shape, build, Model{}, {.ops = 10'000}).estimated);
  EXPECT_FALSE(predict(shape, build, Model{}).estimated);
  EXPECT_THROW(replay(shape, build, Model{}, {.messages = 2}), TooLarge);
}

}  // namespace
}  // namespace hmc::sim
