// Selection by HMC_COLL, by the rows of a file and by the model; the stored parameters of a machine.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include <hmc/error.hpp>

#include "collectives/network/plan.hpp"
#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/select/parameters.hpp"
#include "collectives/select/selector.hpp"

namespace hmc::collectives {
namespace {

using schedule::Algorithm;
using schedule::Call;
using schedule::CostParameters;
using schedule::Shape;

Call allreduce(std::uint64_t bytes) {
  Call call;
  call.collective = CollectiveKind::allreduce;
  call.type = DType::f32;
  call.element_bytes = 4;
  call.count = bytes / 4;
  return call;
}

std::string chosen(const Selector& selector, const Shape& shape, const Call& call) {
  const std::uint64_t bytes = call.count * call.element_bytes;
  return std::string(selector.choose(shape, call, bytes, area_limits(shape.size)).algorithm->name);
}

std::string complaint(std::string_view rows) {
  try {
    static_cast<void>(read_overrides(rows, "rows.json"));
    return "none";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_config);
    return error.what();
  }
}

TEST(Overrides, first_matching_row_is_used) {
  const Selector selector({}, read_overrides(R"([
    {"collective": "allreduce", "bytes_up_to": 100, "ranks_up_to": 8, "algorithm": "swing"},
    {"collective": "allreduce", "bytes_up_to": "4K", "per_node": 2, "algorithm": "ring_segmented", "segment": "1K"},
    {"collective": "allreduce", "algorithm": "fold_slices"}])",
                                             "rows.json"));
  EXPECT_EQ(chosen(selector, {8, 1}, allreduce(100)), "swing");
  EXPECT_EQ(chosen(selector, {8, 1}, allreduce(104)), "fold_slices");
  EXPECT_EQ(chosen(selector, {9, 1}, allreduce(8)), "fold_slices");
  EXPECT_EQ(chosen(selector, {16, 2}, allreduce(4096)), "ring_segmented");
  EXPECT_EQ(chosen(selector, {16, 2}, allreduce(4100)), "fold_slices");
  EXPECT_EQ(selector.choose({16, 2}, allreduce(4096), 4096, area_limits(16)).segment_bytes, 1024U);
  EXPECT_EQ(selector.choose({16, 2}, allreduce(4096), 4096, area_limits(16)).source, ChoiceSource::file);
}

TEST(Overrides, forced_algorithm_precedes_rows_and_unsupported_ones_are_skipped) {
  const auto rows = read_overrides(R"([{"collective": "allreduce", "algorithm": "ring"}])", "rows.json");
  EXPECT_EQ(chosen(Selector("allreduce:swing", rows), {8, 1}, allreduce(64)), "swing");
  Call ordered = allreduce(64);
  ordered.commutative = false;
  const Choice choice = Selector("allreduce:swing", rows).choose({8, 1}, ordered, 64, area_limits(8));
  EXPECT_TRUE(choice.algorithm->keeps_order);
  EXPECT_EQ(choice.source, ChoiceSource::model);
}

TEST(Overrides, direct_selects_load_and_store_and_others_disable_it) {
  const Selector selector({}, read_overrides(R"([
    {"collective": "allreduce", "bytes_up_to": 64, "algorithm": "direct"},
    {"collective": "allreduce", "bytes_up_to": 128, "algorithm": "ring"}])",
                                             "rows.json"));
  EXPECT_FALSE(selector.wants_schedule({4, 4}, CollectiveKind::allreduce, 64));
  EXPECT_TRUE(selector.wants_schedule({4, 4}, CollectiveKind::allreduce, 65));
  EXPECT_FALSE(selector.wants_schedule({4, 4}, CollectiveKind::allreduce, 129));
  EXPECT_FALSE(selector.wants_schedule({4, 4}, CollectiveKind::barrier, 0));
}

TEST(Overrides, errors_name_their_row_and_the_valid_names) {
  EXPECT_EQ(complaint(""), "none");
  EXPECT_EQ(complaint("[]"), "none");
  const auto expect = [](std::string_view rows, std::string_view part, std::string_view other) {
    const std::string text = complaint(rows);
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_NE(text.find(other), std::string::npos) << text;
    EXPECT_NE(text.find("rows.json"), std::string::npos) << text;
  };
  expect("[\n{\"collective\": }]", "line 2", "array of rows");
  expect("{}", "not a JSON array", "collective, algorithm");
  expect(R"([{"collective": "allreduce", "algorithm": "ring"}, {"collective": "allreduce", "algorithm": "rung"}])",
         "row 2: unknown algorithm 'allreduce:rung'", "swing");
  expect(R"([{"collective": "alreduce", "algorithm": "ring"}])", "row 1: unknown algorithm 'alreduce:ring'",
         "reduce_scatter: ");
  expect(R"([{"algorithm": "ring"}])", "'collective' is missing", "barrier: dissemination");
  expect(R"([{"collective": "allreduce", "algorithm": "ring", "bytes": 3}])", "unknown key 'bytes'", "bytes_up_to");
  expect(R"([{"collective": "allreduce", "algorithm": "ring", "bytes_up_to": "3Q"}])", "a number of bytes", "64K");
  expect(R"([{"collective": "allreduce", "algorithm": "ring", "ranks_up_to": 0}])", "a number of ranks", "1 or more");
  expect(R"([{"collective": "allreduce", "algorithm": "ring", "segment": 64}])", "'ring' doesn't use segments",
         "segment");
  expect(R"([7])", "row 1: not a JSON object", "collective");
}

TEST(Selector, selected_algorithm_is_the_cheapest_candidate) {
  const Selector selector;
  for (const Shape& shape : {Shape{2, 1}, Shape{7, 7}, Shape{64, 8}, Shape{13, 4}, Shape{100'000, 8}})
    for (int c = 0; c < collective_count; ++c)
      for (const std::uint64_t bytes : {std::uint64_t{8}, std::uint64_t{5000}, std::uint64_t{1} << 20}) {
        Call call = allreduce(bytes);
        call.collective = static_cast<CollectiveKind>(c);
        const AreaLimits room = area_limits(shape.size);
        const Choice choice = selector.choose(shape, call, bytes, room);
        if (choice.algorithm == nullptr) continue;
        for (const Evaluation& candidate : selector.evaluate_all(shape, call, bytes, room)) {
          if (candidate.algorithm == choice.algorithm) {
            EXPECT_EQ(candidate.why_not, "");
          }
          if (candidate.why_not.empty()) {
            EXPECT_GE(candidate.cost.ns, choice.predicted_ns) << candidate.algorithm->name;
          }
        }
      }
}

TEST(Selector, gets_require_shared_memory) {
  const Selector selector;
  EXPECT_EQ(chosen(selector, {4, 4, true}, allreduce(1 << 20)), "shared_slices");
  EXPECT_NE(chosen(selector, {4, 4}, allreduce(1 << 20)), "shared_slices");
  const Selector forced("allreduce:shared_slices");
  EXPECT_EQ(chosen(forced, {4, 4, true}, allreduce(8)), "shared_slices");
  EXPECT_NE(chosen(forced, {4, 4}, allreduce(8)), "shared_slices");
}

TEST(Selector, long_vectors_in_shared_memory_are_one_piece_of_many_segments) {
  const Algorithm& algorithm = *schedule::find(CollectiveKind::allreduce, "shared_slices");
  for (const int size : {2, 3, 4, 5, 6, 7, 8, 9, 12}) {
    const Shape shape{size, size, true};
    const AreaLimits room = area_limits(size);
    for (Call call : {allreduce(16 << 20), allreduce(12 * 1'000'003)}) {
      if (call.count % 3 == 0) call.element_bytes = 12, call.count /= 3;
      const Choice choice =
          Selector("allreduce:shared_slices").choose(shape, call, call.count * call.element_bytes, room);
      EXPECT_GE(choice.longest, call.count) << size;
      call.segment_bytes = choice.segment_bytes;
      const schedule::ScratchSize bound = algorithm.scratch_size(shape, call);
      EXPECT_LE(bound.scratch, room.scratch_bytes) << size;
      for (const int rank : {0, size - 1}) {
        const schedule::Schedule built = schedule::build(algorithm, shape, call, rank);
        EXPECT_LE(built.scratch_bytes, bound.scratch) << size;
        EXPECT_LE(built.slots, bound.slots) << size;
        EXPECT_GT(built.slots, 4U * static_cast<unsigned>(size)) << "several segments";
      }
    }
  }
}

TEST(Selector, latency_and_bandwidth_costs_select_different_algorithms) {
  CostParameters dear_messages, dear_bytes;
  dear_messages.network = {50'000, 10'000, 10'000, 0.001};
  dear_bytes.network = {1, 1, 0, 10};
  const std::uint64_t bytes = 64 << 10;
  const std::string few = chosen(Selector({}, {}, dear_messages), {16, 1}, allreduce(bytes));
  const std::string lean = chosen(Selector({}, {}, dear_bytes), {16, 1}, allreduce(bytes));
  EXPECT_TRUE(few == "recursive_doubling" || few == "recursive_multiplying") << few;
  EXPECT_TRUE(lean != "recursive_doubling" && lean != "recursive_multiplying" && lean != "fold_gathered") << lean;
}

TEST(Selector, half_floats_and_deterministic_calls_are_folded) {
  Call call = allreduce(4096);
  call.deterministic = true;
  EXPECT_TRUE(schedule::find(CollectiveKind::allreduce, chosen(Selector(), {8, 1}, call))->deterministic);
  call = allreduce(4096);
  call.type = DType::bf16;
  EXPECT_TRUE(schedule::find(CollectiveKind::allreduce, chosen(Selector(), {8, 1}, call))->deterministic);
  call.op = Op::max;
  EXPECT_FALSE(schedule::find(CollectiveKind::allreduce, chosen(Selector(), {8, 1}, call))->deterministic);
}

TEST(Selector, sizes_of_one_class_are_adjacent) {
  std::uint64_t before = 0;
  for (std::uint64_t bytes = 0; bytes < 5000; ++bytes) {
    const std::uint64_t begin = Selector::class_begin(bytes), end = Selector::class_end(bytes);
    ASSERT_LE(begin, bytes);
    ASSERT_GT(end, bytes);
    ASSERT_EQ(Selector::class_begin(begin), begin);
    ASSERT_EQ(Selector::class_begin(end), end);
    ASSERT_GE(begin, before);
    before = begin;
  }
  EXPECT_EQ(Selector::class_end(UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(Selector::class_begin(1 << 20), 1U << 20);
}

TEST(ChoiceCache, choice_is_cached_until_a_change) {
  Selector selector;
  ChoiceCache choices(selector, {8, 1}, area_limits(8));
  EXPECT_TRUE(choices.get(allreduce(8192), 8192).is_new);
  EXPECT_FALSE(choices.get(allreduce(8192), 8192).is_new);
  EXPECT_FALSE(choices.get(allreduce(8200), 8200).is_new);
  EXPECT_TRUE(choices.get(allreduce(16384), 16384).is_new);
  Call other = allreduce(8192);
  other.commutative = false;
  EXPECT_TRUE(choices.get(other, 8192).is_new);
  const Algorithm* const ring = schedule::find(CollectiveKind::allreduce, "ring");
  selector.force(CollectiveKind::allreduce, ring);
  EXPECT_EQ(choices.get(allreduce(8192), 8192).choice.algorithm, ring);
}

double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

TEST(ChoiceCache, choices_for_hundred_thousand_ranks_are_fast_and_small) {
  const Shape shape{100'000, 8};
  const AreaLimits room = area_limits(shape.size);
  const Selector selector;
  double least = 1;  // minimum of ten runs, which excludes cold caches
  for (int time = 0; time < 10; ++time) {
    ChoiceCache choices(selector, shape, room);
    Plans plans(room, shape, 77'777, false);
    const double start = cpu_seconds();
    for (const std::uint64_t bytes : {8U, 4096U}) {
      Call call = allreduce(bytes);
      const Choice choice = choices.get(call, bytes).choice;
      ASSERT_NE(choice.algorithm, nullptr);
      ASSERT_GE(choice.longest, call.count);
      const auto plan = plans.get(*choice.algorithm, call);
      ASSERT_NE(plan, nullptr);
      EXPECT_LT(plan->schedule.steps.size(), 500U);
    }
    least = std::min(least, cpu_seconds() - start);
  }
  EXPECT_LT(least, 0.02);
}

// TeamExchange's calls between nodes: a barrier, and an allgather of 256 bytes per rank. In larger teams the allgather
// exceeds one area and is split into pieces.
TEST(ChoiceCache, team_creation_steps_grow_with_log_n) {
  const Selector selector;
  std::size_t of_half = 0;
  for (int size = 8; size <= 256; size *= 2) {
    const Shape shape{size, 1};
    const AreaLimits room = area_limits(size);
    ChoiceCache choices(selector, shape, room);
    Plans plans(room, shape, size / 2, false);
    std::size_t steps = 0;
    for (const CollectiveKind collective : {CollectiveKind::barrier, CollectiveKind::allgather}) {
      Call call;
      call.collective = collective;
      call.element_bytes = 1;
      call.count = collective == CollectiveKind::allgather ? 256 : 0;
      const auto plan = plans.get(*choices.get(call, call.count).choice.algorithm, call);
      ASSERT_NE(plan, nullptr);
      steps += plan->schedule.steps.size();
    }
    EXPECT_TRUE(of_half == 0 || steps <= of_half + 6) << steps << " at " << size;
    of_half = steps;
  }
}

TEST(ScratchSpace, pieces_of_every_algorithm_fit) {
  for (const Algorithm& algorithm : schedule::algorithms())
    for (const Shape& shape : {Shape{1, 1}, Shape{2, 1}, Shape{9, 3}, Shape{64, 8}}) {
      Call call = allreduce(0);
      call.collective = algorithm.collective;
      const AreaLimits room = area_limits(shape.size);
      const std::uint64_t longest = largest_piece(algorithm, shape, call, room);
      ASSERT_GT(longest, 0U) << algorithm.name;
      call.count = longest;
      if (algorithm.collective == CollectiveKind::alltoall && algorithm.tuned_by.segments)
        call.segment_bytes = room.scratch_bytes / 16;
      for (int rank = 0; rank < shape.size; ++rank) {
        const schedule::Schedule schedule = build(algorithm, shape, call, rank);
        ASSERT_LE(schedule.scratch_bytes, room.scratch_bytes) << algorithm.name;
        ASSERT_LE(schedule.slots, room.slots) << algorithm.name;
      }
    }
}

struct TemporaryFolder {
  TemporaryFolder() {
    char name[] = "/tmp/select-test-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  std::string path;
};

// Two emulated nodes of two ranks each: a ring keeps more links busy at once, but also needs more cores than exist.
TEST(Selector, ranks_that_share_cores_use_the_least_total_work) {
  const Shape shape{4, 2};
  CostParameters parameters;
  parameters.network = {500, 2200, 2900, 0.18};
  parameters.copy = parameters.reduce = parameters.node.per_byte = 0.03;
  const auto taken = [&](double cores, std::uint64_t bytes) {
    parameters.emulation_cores = cores;
    const Choice choice = Selector({}, {}, parameters).choose(shape, allreduce(bytes), bytes, area_limits(shape.size));
    return std::pair(std::string(choice.algorithm->name), choice.predicted_ns);
  };
  for (const std::uint64_t bytes : {std::uint64_t{1} << 20, std::uint64_t{4} << 20}) {
    EXPECT_EQ(taken(0, bytes).first, "ring");
    EXPECT_EQ(taken(4, bytes), taken(0, bytes));  // one core per rank
    EXPECT_EQ(taken(2, bytes).first, "hierarchical");
    EXPECT_GT(taken(2, bytes).second, taken(0, bytes).second);
    EXPECT_GT(taken(1, bytes).second, 1.9 * taken(2, bytes).second);
  }
}

TEST(ParametersFile, written_file_is_read_back_without_leftovers) {
  const TemporaryFolder folder;
  CostParameters written;
  written.network = {628.25, 1941, 3521.5, 0.125};
  written.emulation_cores = 12;
  written.reduce = 0.0275;
  const MachineKey here = MachineKey::here("ucx", true);
  const std::string file = here.file(folder.path + "/deeper/still");
  ASSERT_TRUE(write_whole(file, text_of(written, here)));
  ASSERT_TRUE(write_whole(file, text_of(written, here)));
  std::string text, why_not;
  CostParameters read;
  ASSERT_TRUE(read_file(file, text));
  ASSERT_TRUE(read_parameters(text, &here, read, why_not)) << why_not;
  EXPECT_EQ(read, written);
  int files = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator(folder.path + "/deeper/still")) ++files;
  EXPECT_EQ(files, 1);
  EXPECT_NE(here.file("x"), MachineKey::here("ucx", false).file("x"));
  EXPECT_EQ(here.file(""), "");
}

TEST(ParametersFile, file_of_another_machine_or_version_is_rejected_with_a_reason) {
  const MachineKey here = MachineKey::here("ucx", false);
  const std::string good = text_of(CostParameters{}, here);
  const auto refused = [&](std::string text) {
    CostParameters read;
    std::string why_not;
    EXPECT_FALSE(read_parameters(text, &here, read, why_not)) << text;
    EXPECT_FALSE(why_not.empty());
    EXPECT_EQ(read, CostParameters{});
  };
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  refused("");
  refused(good.substr(0, good.size() / 2));
  refused("[1, 2]");
  refused(with("\"hmc_model\": 2", "\"hmc_model\": 3"));
  refused(with(here.machine, "elsewhere"));
  refused(with("\"wire\": \"ucx\"", "\"wire\": \"verbs\""));
  refused(with("\"copy_byte_ns\": 0.1", "\"copy_byte_ns\": -1"));
  refused(with("\"copy_byte_ns\": 0.1", "\"copy_byte_ns\": \"fast\""));
  EXPECT_FALSE(write_whole("/proc/nowhere/at/all", good));
}

}  // namespace
}  // namespace hmc::collectives
