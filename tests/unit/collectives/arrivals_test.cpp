// Which copies of a schedule need not be made, since the bytes may come straight to where they go.
#include "collectives/execute/arrivals.hpp"

#include <gtest/gtest.h>

#include "collectives/schedule/builder.hpp"

namespace hmc::collectives {
namespace {

using namespace schedule;

constexpr std::uint64_t much = 100'000;

Call call_of(Collective collective, std::uint64_t count, int root = 0) {
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
    EXPECT_EQ(step.kind, Kind::copy);
    EXPECT_EQ(step.from, arrival.scratch);
    EXPECT_EQ(step.to, arrival.output);
    EXPECT_EQ(step.bytes, arrival.bytes);
  }
  return arrivals;
}

TEST(Arrivals, a_leaf_of_a_broadcast_takes_it_where_it_belongs) {
  Call call = call_of(Collective::broadcast, much);
  call.in_place = true;                                      // as broadcasts are: one buffer
  EXPECT_TRUE(arrivals_of("binomial", call, 4, 0).empty());  // the root
  EXPECT_EQ(arrivals_of("binomial", call, 4, 1).size(), 1U);
  EXPECT_TRUE(arrivals_of("binomial", call, 4, 2).empty()) << "it hands on from its scratch";
  EXPECT_EQ(arrivals_of("binomial", call, 4, 3).size(), 1U);
  call.count = 1000;
  EXPECT_TRUE(arrivals_of("binomial", call, 4, 1).empty()) << "not worth it";
}

TEST(Arrivals, blocks_that_are_only_received) {
  EXPECT_EQ(arrivals_of("linear", call_of(Collective::scatter, much), 5, 3).size(), 1U);
  EXPECT_EQ(arrivals_of("linear", call_of(Collective::gather, much), 5, 0).size(), 4U);
  EXPECT_EQ(arrivals_of("pairwise", call_of(Collective::alltoall, much), 4, 2).size(), 3U);
  EXPECT_EQ(arrivals_of("ring", call_of(Collective::allgather, much), 4, 2).size(), 1U) << "others are handed on";
}

TEST(Arrivals, not_where_the_output_is_read_as_input) {
  Call call = call_of(Collective::allgather, much);
  EXPECT_EQ(arrivals_of("ring", call, 2, 1).size(), 1U);
  call.in_place = true;
  EXPECT_TRUE(arrivals_of("ring", call, 2, 1).empty());
}

TEST(Arrivals, never_what_is_combined) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != Collective::reduce && algorithm.collective != Collective::scan) continue;
    const Call call = call_of(algorithm.collective, much);
    if (!algorithm.applies({4, 1}, call)) continue;
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_TRUE(arrivals_of(algorithm.name, call, 4, rank).empty()) << algorithm.name;
  }
}

Step copy(std::uint64_t from, std::uint64_t to) {
  Step step;
  step.kind = Kind::copy;
  step.from_buffer = Buffer::scratch;
  step.to_buffer = Buffer::output;
  step.from = from;
  step.to = to;
  step.bytes = much;
  return step;
}

TEST(Arrivals, whatever_else_touches_scratch_or_output_is_in_the_way) {
  Step other;
  other.bytes = 1;
  other.ways = 2;
  std::vector<Arrival> arrivals;
  for (const Kind kind : {Kind::put, Kind::copy, Kind::reduce, Kind::fold}) {
    for (const Buffer buffer : {Buffer::scratch, Buffer::output}) {
      for (const std::uint64_t at : {much - 1, 2 * much - 1, 2 * much, 0 * much}) {
        other.kind = kind;
        other.from_buffer = buffer;
        other.from = at;
        other.to_buffer = Buffer::output;
        other.to = 10 * much;
        other.set_stride(0);
        if (kind == Kind::put) other.peer = other.slot = 0;
        const Schedule schedule{{copy(much, much), other}, 0, 0};
        find_arrivals(schedule, false, arrivals);
        EXPECT_EQ(arrivals.size(), at == 2 * much - 1 ? 0U : 1U) << int(kind) << " reads at " << at;
      }
    }
  }
  // A fold reads every stride.
  other.kind = Kind::fold;
  other.from_buffer = Buffer::scratch;
  other.from = 0;
  other.set_stride(much + 5);
  find_arrivals(Schedule{{copy(much, much), other}, 0, 0}, false, arrivals);
  EXPECT_TRUE(arrivals.empty());
  // Writers.
  for (const Kind kind : {Kind::copy, Kind::reduce, Kind::fold, Kind::scale}) {
    other = {};
    other.kind = kind;
    other.ways = 1;
    other.bytes = 8;
    other.from_buffer = Buffer::input;
    for (const Buffer buffer : {Buffer::scratch, Buffer::output}) {
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

}  // namespace
}  // namespace hmc::collectives
