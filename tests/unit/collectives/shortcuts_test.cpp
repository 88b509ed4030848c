// The copies of a schedule that can be omitted, because a message is received in the output or a sum is computed there.
#include "collectives/network/plan.hpp"

#include <gtest/gtest.h>

#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/builder.hpp"

namespace hmc::collectives {
namespace {

using namespace schedule;

constexpr std::uint64_t much = 100'000;

Call call_of(CollectiveKind collective, std::uint64_t count, int root = 0) {
  Call call;
  call.collective = collective;
  call.count = count;
  call.element_bytes = 1;
  call.root = root;
  return call;
}

std::vector<Arrival> arrivals_of(std::string_view algorithm, const Call& call, int size, int rank) {
  const Schedule schedule = build(*find(call.collective, algorithm), {size, 1}, call, rank);
  std::vector<Arrival> arrivals;
  find_arrivals(schedule, call.in_place, arrivals);
  for (const Arrival& arrival : arrivals) {
    const Step& step = schedule.steps[arrival.step];
    EXPECT_TRUE(step.kind == StepKind::copy || step.kind == StepKind::put);
    EXPECT_EQ(step.from_buffer, StepBuffer::scratch);
    EXPECT_GE(step.from, arrival.scratch);
    EXPECT_LE(step.from + step.bytes, arrival.scratch + arrival.bytes);
    if (step.kind == StepKind::copy) {
      EXPECT_EQ(step.to, arrival.output);
    }
  }
  return arrivals;
}

TEST(Arrivals, broadcast_is_received_in_place_and_forwarded_from_there) {
  Call call = call_of(CollectiveKind::broadcast, much);
  call.in_place = true;                                      // as in a broadcast, which has one buffer
  EXPECT_TRUE(arrivals_of("binomial", call, 4, 0).empty());  // the root
  EXPECT_EQ(arrivals_of("binomial", call, 4, 1).size(), 1U);
  ASSERT_EQ(arrivals_of("binomial", call, 4, 2).size(), 1U);
  const std::size_t first = arrivals_of("binomial", call, 4, 2)[0].step;
  EXPECT_EQ(build(*find(call.collective, "binomial"), {4, 1}, call, 2).steps[first].kind, StepKind::put)
      << "before its copy";
  EXPECT_EQ(arrivals_of("binomial", call, 4, 3).size(), 1U);
  call.count = 1000;
  EXPECT_TRUE(arrivals_of("binomial", call, 4, 1).empty()) << "not worth it";
}

TEST(Arrivals, blocks_that_are_only_received_are_direct) {
  EXPECT_EQ(arrivals_of("linear", call_of(CollectiveKind::scatter, much), 5, 3).size(), 1U);
  EXPECT_EQ(arrivals_of("linear", call_of(CollectiveKind::gather, much), 5, 0).size(), 4U);
  EXPECT_EQ(arrivals_of("pairwise", call_of(CollectiveKind::alltoall, much), 4, 2).size(), 3U);
  EXPECT_EQ(arrivals_of("ring", call_of(CollectiveKind::allgather, much), 4, 2).size(), 3U)
      << "two messages are forwarded";
  EXPECT_EQ(arrivals_of("hierarchical_ring", call_of(CollectiveKind::allgather, much), 4, 2).size(), 3U);
}

TEST(Arrivals, output_that_is_read_as_input_is_not_direct) {
  Call call = call_of(CollectiveKind::allgather, much);
  EXPECT_EQ(arrivals_of("ring", call, 2, 1).size(), 1U);
  call.in_place = true;
  EXPECT_TRUE(arrivals_of("ring", call, 2, 1).empty());
}

TEST(Arrivals, combined_data_is_not_direct) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != CollectiveKind::reduce && algorithm.collective != CollectiveKind::scan) continue;
    const Call call = call_of(algorithm.collective, much);
    if (!algorithm.applies({4, 1}, call)) continue;
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_TRUE(arrivals_of(algorithm.name, call, 4, rank).empty()) << algorithm.name;
  }
}

Step copy(std::uint64_t from, std::uint64_t to) {
  Step step;
  step.kind = StepKind::copy;
  step.from_buffer = StepBuffer::scratch;
  step.to_buffer = StepBuffer::output;
  step.from = from;
  step.to = to;
  step.bytes = much;
  return step;
}

Step put(std::uint64_t from, std::uint64_t bytes) {
  Step step;
  step.kind = StepKind::put;
  step.from_buffer = StepBuffer::scratch;
  step.from = from;
  step.bytes = bytes;
  return step;
}

Step wait() {
  Step step;
  step.kind = StepKind::wait;
  return step;
}

std::size_t arrivals_in(const std::vector<Step>& steps) {
  std::vector<Arrival> arrivals;
  find_arrivals({steps, 0, 0}, false, arrivals);
  return arrivals.size();
}

TEST(Arrivals, forwarding_puts_remain_beside_the_copy) {
  const Step all = put(much, much), part = put(2 * much - 8, 8), past = put(2 * much - 8, 9);
  EXPECT_EQ(arrivals_in({wait(), all, copy(much, much)}), 1U);
  EXPECT_EQ(arrivals_in({wait(), part, all, copy(much, much), part}), 1U);
  EXPECT_EQ(arrivals_in({wait(), past, copy(much, much)}), 0U) << "it takes a byte more";
  EXPECT_EQ(arrivals_in({wait(), all, wait(), copy(much, much)}), 0U) << "another message may have arrived there";
  EXPECT_EQ(arrivals_in({wait(), copy(much, much), wait(), all}), 0U);
  std::vector<Arrival> arrivals;
  find_arrivals({{wait(), copy(much, much), wait(), all, put(0, much), copy(0, 4 * much)}, 0, 0}, false, arrivals);
  ASSERT_EQ(arrivals.size(), 1U);
  EXPECT_EQ(arrivals[0].step, 4U) << "the put";
  EXPECT_EQ(arrivals[0].output, 4 * much);
}

TEST(Arrivals, other_uses_of_scratch_or_output_prevent_it) {
  Step other;
  other.bytes = 1;
  other.inputs = 2;
  std::vector<Arrival> arrivals;
  for (const StepKind kind : {StepKind::put, StepKind::copy, StepKind::reduce, StepKind::fold}) {
    for (const StepBuffer buffer : {StepBuffer::scratch, StepBuffer::output}) {
      for (const std::uint64_t at : {much - 1, 2 * much - 1, 2 * much, 0 * much}) {
        other.kind = kind;
        other.from_buffer = buffer;
        other.from = at;
        other.to_buffer = StepBuffer::output;
        other.to = 10 * much;
        other.set_stride(0);
        if (kind == StepKind::put) other.peer = other.slot = 0;
        const Schedule schedule{{copy(much, much), other}, 0, 0};
        find_arrivals(schedule, false, arrivals);
        const bool hands_on = kind == StepKind::put && buffer == StepBuffer::scratch;
        EXPECT_EQ(arrivals.size(), at == 2 * much - 1 && !hands_on ? 0U : 1U) << int(kind) << " reads at " << at;
      }
    }
  }
  // A fold reads every stride.
  other.kind = StepKind::fold;
  other.from_buffer = StepBuffer::scratch;
  other.from = 0;
  other.set_stride(much + 5);
  find_arrivals(Schedule{{copy(much, much), other}, 0, 0}, false, arrivals);
  EXPECT_TRUE(arrivals.empty());
  // Writers.
  for (const StepKind kind : {StepKind::copy, StepKind::get, StepKind::reduce, StepKind::fold, StepKind::scale}) {
    other = {};
    other.kind = kind;
    other.inputs = 1;
    other.bytes = 8;
    other.from_buffer = StepBuffer::input;
    for (const StepBuffer buffer : {StepBuffer::scratch, StepBuffer::output}) {
      other.to_buffer = buffer;
      other.to = much + 16;
      find_arrivals(Schedule{{other, copy(much, much)}, 0, 0}, false, arrivals);
      EXPECT_TRUE(arrivals.empty()) << int(kind);
      other.to = 3 * much;
      find_arrivals(Schedule{{other, copy(much, much)}, 0, 0}, false, arrivals);
      EXPECT_EQ(arrivals.size(), 1U) << int(kind);
    }
  }
}

Step sum(std::uint64_t to) {
  Step step;
  step.kind = StepKind::reduce;
  step.from_buffer = StepBuffer::input;
  step.to_buffer = StepBuffer::scratch;
  step.to = to;
  step.bytes = much;
  return step;
}

std::vector<Result> results_in(const std::vector<Step>& steps, bool in_place = false) {
  std::vector<Result> results;
  find_results({steps, 0, 0}, in_place, results);
  return results;
}

TEST(Results, sum_that_is_only_copied_is_reduced_into_the_output) {
  const std::vector<Result> found = results_in({wait(), sum(much), copy(much, 3 * much)});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].step, 1U);
  EXPECT_EQ(found[0].copy, 2U);
  EXPECT_EQ(found[0].output, 3 * much);
  EXPECT_TRUE(results_in({wait(), sum(much), copy(much, 3 * much)}, true).empty()) << "in place";
  // Earlier steps on the same scratch don't matter, because the sum reads it there. Nor do steps on other offsets.
  EXPECT_EQ(results_in({put(much, much), wait(), sum(much), wait(), put(0, much), copy(much, 0)}).size(), 1U);
}

TEST(Results, data_used_by_another_step_is_not_direct) {
  EXPECT_TRUE(results_in({sum(much)}).empty());
  EXPECT_TRUE(results_in({sum(much), put(much, 8), copy(much, 0)}).empty());
  EXPECT_TRUE(results_in({sum(much), copy(much, 0), put(2 * much - 1, 8)}).empty());
  EXPECT_TRUE(results_in({sum(much), copy(much, 0), copy(much, 5 * much)}).empty());
  EXPECT_TRUE(results_in({sum(much), copy(much + 64, 0)}).empty()) << "another run";
  Step reads_output = put(0, 8);
  reads_output.from_buffer = StepBuffer::output;
  EXPECT_TRUE(results_in({sum(much), reads_output, copy(much, 0)}).empty()) << "the old contents";
  EXPECT_TRUE(results_in({reads_output, sum(much), copy(much, 0)}).empty()) << "it may not be read yet";
  EXPECT_EQ(results_in({sum(much), copy(much, 0), reads_output}).size(), 1U);
  // Only the second of two sums.
  const std::vector<Result> found = results_in({sum(much), wait(), sum(much), copy(much, 0)});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].step, 2U);
}

TEST(Results, results_of_all_algorithms_are_correct) {
  const auto of = [](CollectiveKind collective, const char* name, int rank) {
    Call call = call_of(collective, much);
    const Schedule schedule = build(*find(collective, name), {4, 1}, call, rank);
    return results_in(schedule.steps).size();
  };
  EXPECT_EQ(of(CollectiveKind::reduce, "binomial", 0), 1U);
  EXPECT_EQ(of(CollectiveKind::reduce, "binomial", 2), 0U) << "it sends its sum";
  EXPECT_EQ(of(CollectiveKind::allreduce, "recursive_doubling", 1), 1U);
  EXPECT_EQ(of(CollectiveKind::reduce_scatter, "ring", 3), 1U);
}

}  // namespace
}  // namespace hmc::collectives
