// Pairs of calls that look alike: each rank makes one of the two at the same place of its order. Every rank reports a
// mismatch that names both calls, or both have the same meaning and the results are right.
#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include "tests/multirank/collectives_mismatch.hpp"

namespace hmc {
namespace {

using Counts = std::vector<std::size_t>;
using Output = std::vector<std::uint64_t>;

class Pairs : public Mismatch {
 protected:
  using Call = std::function<void(Team& world, Output& out)>;

  std::size_t size() const { return static_cast<std::size_t>(ranks()); }
  /// `odd`: the call of the last rank; `call`: of the other ranks.
  void expect_reported(const Call& odd, const std::string& odd_text, const Call& call, const std::string& text) {
    SCOPED_TRACE(odd_text + " against " + text);
    expect_mismatch(run([&](Team& world, int rank) {
                      auto out = output();
                      (rank == ranks() - 1 ? odd : call)(world, out);
                      world.barrier();  // a rank that only sends gets the error here
                    }),
                    {odd_text, text});
  }
  static void sum_of(Team& world, const std::uint64_t* in, std::uint64_t* out) {
    world.allreduce(in, out, 1, DType::u64, sum);
  }
};

TEST_P(Pairs, equal_plans_started_in_another_order_are_reported) {
  struct Form {
    const char* name;
    std::function<Plan(Team&, const std::uint64_t*, std::uint64_t*)> make;
  };
  const Counts ones(size(), 1);
  const std::vector<Form> forms{
      {"allreduce", [](Team& world, const std::uint64_t* in,
                       std::uint64_t* out) { return world.plan_allreduce(in, out, 1, DType::u64, sum); }},
      {"broadcast",
       [](Team& world, const std::uint64_t*, std::uint64_t* out) { return world.plan_broadcast(out, 8, 0); }},
      {"allgatherv", [&](Team& world, const std::uint64_t* in,
                         std::uint64_t* out) { return world.plan_allgatherv(in, out, ones, {}, 8); }},
      {"alltoallv", [&](Team& world, const std::uint64_t* in,
                        std::uint64_t* out) { return world.plan_alltoallv(in, ones, {}, out, ones, {}, 1, 8); }},
      {"barrier", [](Team& world, const std::uint64_t*, std::uint64_t*) { return world.plan_barrier(); }}};
  for (const Form& form : forms) {
    SCOPED_TRACE(form.name);
    for (const bool had_runs : {false, true}) {
      const auto outcomes = run([&](Team& world, int rank) {
        std::vector<Output> outs(2, Output(size()));
        std::vector<Output> ins(2, Output(size(), static_cast<std::uint64_t>(rank)));
        Plan plans[] = {form.make(world, ins[0].data(), outs[0].data()),
                        form.make(world, ins[1].data(), outs[1].data())};
        for (int i = 0; had_runs && i < 2; ++i)
          for (Plan& plan : plans) {
            plan.start();
            plan.wait();
          }
        const bool is_odd = rank == ranks() - 1;
        plans[is_odd ? 1 : 0].start();
        plans[is_odd ? 0 : 1].start();
        for (Plan& plan : plans) plan.wait();
        world.barrier();
      });
      expect_mismatch(outcomes, {std::string("Plan::start of plan 1 (") + form.name + ")",
                                 std::string("Plan::start of plan 2 (") + form.name + ")"});
    }
  }
}

// More starts than the history keeps of completed calls: it keeps those in flight.
TEST_P(Pairs, another_order_among_many_plans_in_flight_is_reported) {
  constexpr std::size_t many = 300;
  const auto outcomes = run([&](Team& world, int rank) {
    Output out(many);
    std::vector<Plan> plans;
    for (std::size_t i = 0; i < many; ++i)
      plans.push_back(world.plan_allreduce(in.data(), &out[i], 1, DType::u64, sum));
    if (rank == 1) std::swap(plans[20], plans[21]);
    for (Plan& plan : plans) plan.start();
    for (Plan& plan : plans) plan.wait();
  });
  expect_mismatch(outcomes, {"Plan::start of plan 21 (allreduce)", "Plan::start of plan 22 (allreduce)"});
}

TEST_P(Pairs, plans_with_other_arguments_or_of_another_order_of_creation_are_reported) {
  const auto start = [](Plan plan) {
    plan.start();
    plan.wait();
  };
  expect_reported(
      [&](Team& world, Output& out) { start(world.plan_allreduce(in.data(), out.data(), 7, DType::u64, sum)); },
      "iallreduce(7 x u64, sum)",
      [&](Team& world, Output& out) { start(world.plan_allreduce(in.data(), out.data(), 6, DType::u64, sum)); },
      "iallreduce(6 x u64, sum)");
  expect_reported(
      [&](Team& world, Output& out) {
        Plan first = world.plan_barrier();
        start(world.plan_broadcast(out.data(), 8, 0));
      },
      "Plan::start of plan 2 (broadcast)",
      [&](Team& world, Output& out) {
        Plan first = world.plan_broadcast(out.data(), 8, 0);
        Plan second = world.plan_barrier();
        first.start();
        first.wait();
      },
      "Plan::start of plan 1 (broadcast)");
}

TEST_P(Pairs, blocking_non_blocking_and_persistent_forms_do_not_match) {
  const Call blocking = [&](Team& world, Output& out) { sum_of(world, in.data(), out.data()); };
  const Call started = [&](Team& world, Output& out) {
    world.iallreduce(in.data(), out.data(), 1, DType::u64, sum).wait();
  };
  const Call planned = [&](Team& world, Output& out) {
    Plan plan = world.plan_allreduce(in.data(), out.data(), 1, DType::u64, sum);
    plan.start();
    plan.wait();
  };
  const std::string plan = "Plan::start of plan 1 (allreduce)";
  expect_reported(planned, plan, started, "iallreduce(1 x u64, sum)");
  expect_reported(started, "iallreduce(1 x u64, sum)", planned, plan);
  expect_reported(planned, plan, blocking, "allreduce(1 x u64, sum)");
  expect_reported(started, "iallreduce(1 x u64, sum)", blocking, "allreduce(1 x u64, sum)");
  expect_reported([](Team& world, Output&) { world.ibarrier().wait(); }, "ibarrier",
                  [](Team& world, Output&) { world.barrier(); }, "barrier");
}

TEST_P(Pairs, other_roots_of_every_rooted_collective_are_reported) {
  const Counts counts(size(), 3);
  const auto rooted = [&](int kind, int root) -> Call {
    return [&, kind, root](Team& world, Output& out) {
      switch (kind) {
        case 0: return world.reduce(in.data(), out.data(), 3, DType::u64, sum, root);
        case 1: return world.gather(in.data(), out.data(), 24, root);
        case 2: return world.scatter(in.data(), out.data(), 24, root);
        case 3: return world.gatherv(in.data(), out.data(), counts, {}, root, 8);
        case 4: return world.scatterv(in.data(), out.data(), counts, {}, root, 8);
        default: return world.broadcast(out.data(), 0, root);  // moves nothing
      }
    };
  };
  const char* const texts[] = {"reduce(3 x u64, sum, root ", "gather(24 bytes, root ",     "scatter(24 bytes, root ",
                               "gatherv(counts with hash ",  "scatterv(counts with hash ", "broadcast(0 bytes, root "};
  for (int kind = 0; kind < 6; ++kind) expect_reported(rooted(kind, 1), texts[kind], rooted(kind, 0), texts[kind]);
}

// Both move the same bytes. The ranks compare counts and elements, not bytes.
TEST_P(Pairs, elements_against_counts_of_v_forms_are_reported) {
  const auto with = [&](int kind, std::size_t count, std::size_t element) -> Call {
    return [&, kind, counts = Counts(size(), count), element](Team& world, Output& out) {
      if (kind == 0) world.gatherv(in.data(), out.data(), counts, {}, 0, element);
      if (kind == 1) world.scatterv(in.data(), out.data(), counts, {}, 0, element);
      if (kind == 2) world.allgatherv(in.data(), out.data(), counts, {}, element);
      if (kind == 3) world.iallgatherv(in.data(), out.data(), counts, {}, element).wait();
    };
  };
  const char* const texts[] = {"gatherv(", "scatterv(", "allgatherv(", "iallgatherv("};
  for (int kind = 0; kind < 4; ++kind) expect_reported(with(kind, 6, 4), texts[kind], with(kind, 3, 8), texts[kind]);
  expect_reported([&](Team& world, Output& out) { world.allgatherv(in.data(), out.data(), Counts(size(), 3), {}, 8); },
                  "allgatherv(", [&](Team& world, Output& out) { world.allgather(in.data(), out.data(), 24); },
                  "allgather(24 bytes)");
  expect_reported(
      [&](Team& world, Output& out) {
        world.reduce_scatterv(in.data(), out.data(), Counts(size(), 3), DType::u64, sum);
      },
      "reduce_scatterv(",
      [&](Team& world, Output& out) { world.reduce_scatter(in.data(), out.data(), 3, DType::u64, sum); },
      "reduce_scatter(3 x u64, sum)");
}

TEST_P(Pairs, v_forms_in_another_order_are_reported) {
  Counts rising(size(), 2), falling(size(), 2);
  rising.back() = falling.front() = 3;
  const auto two = [&](int kind, const Counts& first, const Counts& second) -> Call {
    return [&, kind](Team& world, Output& out) {
      for (const Counts* const counts : {&first, &second}) {
        if (kind == 0) world.gatherv(in.data(), out.data(), *counts, {}, 0, 8);
        if (kind == 1) world.allgatherv(in.data(), out.data(), *counts, {}, 8);
        if (kind == 2) world.reduce_scatterv(in.data(), out.data(), *counts, DType::u64, sum);
        if (kind == 3) world.iallgatherv(in.data(), out.data(), *counts, {}, 8).wait();
      }
    };
  };
  const char* const texts[] = {"gatherv(", "allgatherv(", "reduce_scatterv(", "iallgatherv("};
  for (int kind = 0; kind < 4; ++kind)
    expect_reported(two(kind, falling, rising), texts[kind], two(kind, rising, falling), texts[kind]);
}

TEST_P(Pairs, other_options_of_a_reduction_are_reported) {
  const ReduceFunction last = [](void* accumulated, const void* next, std::size_t count, DType, void*) {
    std::copy_n(static_cast<const std::uint64_t*>(next), count, static_cast<std::uint64_t*>(accumulated));
  };
  const auto with = [&](const Reduction& how, DType type = DType::u64) -> Call {
    return [&, how, type](Team& world, Output& out) {
      world.ireduce(in.data(), out.data(), 5, type, how, 0).wait();
      world.allreduce(in.data(), out.data(), 5, type, how);
    };
  };
  const std::string text = "ireduce(5 x u64, user's function, root 0)";
  expect_reported(with(Reduction(last, nullptr, false)), "ireduce(5 x u64, user's function in rank order, root 0)",
                  with(Reduction(last, nullptr, true)), text);
  expect_reported(with(deterministic(Reduction(last, nullptr, true))),
                  "ireduce(5 x u64, deterministic user's function, root 0)", with(Reduction(last, nullptr, true)),
                  text);
  expect_reported(with(sum), "ireduce(5 x u64, sum, root 0)", with(Reduction(last, nullptr, true)), text);
  expect_reported(with(sum, DType::i64), "ireduce(5 x i64, sum, root 0)", with(sum), "ireduce(5 x u64, sum, root 0)");
  expect_reported(with(avg), "ireduce(5 x u64, avg, root 0)", with(sum), "ireduce(5 x u64, sum, root 0)");
}

// Calls that move bytes have no type. Each rank places its own blocks.
TEST_P(Pairs, types_of_bytes_and_displacements_may_differ) {
  const auto outcomes = run([&](Team& world, int rank) {
    const bool is_odd = rank == ranks() - 1;
    const std::uint32_t halves[] = {static_cast<std::uint32_t>(rank), 0};
    const std::uint64_t words[] = {static_cast<std::uint64_t>(rank)};
    std::vector<std::uint32_t> all_halves(2 * size());
    Output all_words(size());
    if (is_odd) {
      world.allgather(std::span(halves), all_halves);
    } else {
      world.allgather(std::span(words), all_words);
    }
    Counts counts(size(), 1), displacements;
    for (std::size_t i = 0; i < size(); ++i) displacements.push_back(is_odd ? size() - 1 - i : i);
    Output placed(size());
    world.allgatherv(words, placed.data(), counts, displacements, 8);
    for (std::size_t i = 0; i < size(); ++i) {
      EXPECT_EQ(is_odd ? all_halves[2 * i] : all_words[i], i);
      EXPECT_EQ(placed[displacements[i]], i);
    }
  });
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, Code::success) << outcome.text;
}

INSTANTIATE_TEST_SUITE_P(Ranks, Pairs,
                         testing::Values(std::tuple(2, 1), std::tuple(2, 2), std::tuple(5, 1), std::tuple(5, 2)),
                         [](const auto& info) {
                           return "np" + std::to_string(std::get<0>(info.param)) + "_nodes" +
                                  std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace hmc
