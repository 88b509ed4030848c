// Typed collectives over vectors, arrays and spans, with counts of any integer type: all forms accept the same.
#include <array>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "tests/multirank/collectives_support.hpp"

namespace {

using namespace hmc::spmd;
using Values = std::vector<std::int64_t>;
using Ints = std::vector<int>;

/// The arguments of describe: numbers of other types become those of std::size_t.
template <typename T> T& lasting(T& argument) { return argument; }
std::vector<std::size_t> lasting(Ints& numbers) { return {numbers.begin(), numbers.end()}; }
std::vector<std::size_t> lasting(const Ints& numbers) { return {numbers.begin(), numbers.end()}; }

// The same call in three forms, and by its description. A plan runs twice; its result must be that of one run.
#define HMC_FORMS_OF(name)                                                                                        \
  template <typename... Args> static void name(hmc::Team& team, Blocking, Args&&... args) { team.name(args...); } \
  template <typename... Args> static void name(hmc::Team& team, Started, Args&&... args) {                        \
    team.i##name(args...).wait();                                                                                 \
  }                                                                                                               \
  template <typename... Args> static void name(hmc::Team& team, Planned, Args&&... args) {                        \
    hmc::Plan plan = team.plan_##name(args...);                                                                   \
    for (int run = 0; run < 2; ++run) {                                                                           \
      plan.start();                                                                                               \
      plan.wait();                                                                                                \
    }                                                                                                             \
  }                                                                                                               \
  template <typename... Args> static void name(hmc::Team& team, Described, Args&&... args) {                      \
    team.run(hmc::describe::name(lasting(args)...));                                                              \
    team.start(hmc::describe::name(lasting(args)...)).wait();                                                     \
  }
struct Blocking {};
struct Started {};
struct Planned {};
struct Described {};
struct AllForms {
  HMC_FORMS_OF(broadcast)
  HMC_FORMS_OF(gather)
  HMC_FORMS_OF(gatherv)
  HMC_FORMS_OF(scatter)
  HMC_FORMS_OF(scatterv)
  HMC_FORMS_OF(allgather)
  HMC_FORMS_OF(allgatherv)
  HMC_FORMS_OF(alltoall)
  HMC_FORMS_OF(reduce)
  HMC_FORMS_OF(allreduce)
  HMC_FORMS_OF(reduce_scatter)
  HMC_FORMS_OF(reduce_scatterv)
  HMC_FORMS_OF(scan)
  HMC_FORMS_OF(exscan)
};
#undef HMC_FORMS_OF

constexpr std::int64_t untouched = -1;

/// Element `i` that `from` sends to `to`.
std::int64_t value_for(int from, int to, std::size_t i) {
  return 1'000'000 * from + 1000 * to + static_cast<std::int64_t>(i);
}
Values block_for(int from, int to, std::size_t count) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_for(from, to, i);
  return values;
}
/// The sum of element `i` of the first `ranks` ranks' inputs for `to`.
std::int64_t sum_of(int ranks, int to, std::size_t i) {
  std::int64_t sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value_for(rank, to, i);
  return sum;
}

/// Blocks in descending rank order, with a gap after each: contiguous blocks would be elsewhere.
struct Spread {
  Ints counts, displacements;
  std::size_t length = 0;
  template <typename CountOf> Spread(int size, CountOf&& count_of) : displacements(static_cast<std::size_t>(size)) {
    for (int rank = 0; rank < size; ++rank) counts.push_back(count_of(rank));
    for (std::size_t rank = counts.size(); rank-- > 0;) {
      displacements[rank] = static_cast<int>(length);
      length += static_cast<std::size_t>(counts[rank]) + 2;
    }
  }
  std::size_t count(int rank) const { return static_cast<std::size_t>(counts[static_cast<std::size_t>(rank)]); }
  auto at(Values& all, int rank) const { return all.begin() + displacements[static_cast<std::size_t>(rank)]; }
  void put(Values& all, int rank, const Values& values) const { std::ranges::copy(values, at(all, rank)); }
};

template <typename Form> void check_blocks(const TestRank& me, Form form) {
  hmc::Team& world = me.runtime->world();
  const auto size = static_cast<std::size_t>(me.size);
  for (int root = 0; root < me.size; ++root) {
    const bool is_root = me.rank == root;
    std::array<std::int64_t, 3> data{};
    if (is_root) std::ranges::copy(block_for(root, 7, 3), data.begin());
    AllForms::broadcast(world, form, data, root);
    HMC_CHECK(std::ranges::equal(data, block_for(root, 7, 3)));

    Values all(is_root ? 4 * size : 0), expected;
    AllForms::gather(world, form, block_for(me.rank, root, 4), all, root);
    for (int rank = 0; rank < me.size && is_root; ++rank)
      for (std::size_t i = 0; i < 4; ++i) expected.push_back(value_for(rank, root, i));
    HMC_CHECK(all == expected);

    std::int64_t mine[2] = {};
    Values given;
    for (int rank = 0; rank < me.size && is_root; ++rank)
      for (std::size_t i = 0; i < 2; ++i) given.push_back(value_for(root, rank, i));
    AllForms::scatter(world, form, given, mine, root);
    HMC_CHECK(std::ranges::equal(mine, block_for(root, me.rank, 2)));
  }
  Values everyone(size * 2), expected;
  const Values mine = block_for(me.rank, 0, 2);
  AllForms::allgather(world, form, std::span(mine), everyone);
  for (int rank = 0; rank < me.size; ++rank)
    for (std::size_t i = 0; i < 2; ++i) expected.push_back(value_for(rank, 0, i));
  HMC_CHECK(everyone == expected);

  Values out, in(size * 3), received(size * 3);
  expected.clear();
  for (int peer = 0; peer < me.size; ++peer)
    for (std::size_t i = 0; i < 3; ++i) {
      in[static_cast<std::size_t>(peer) * 3 + i] = value_for(me.rank, peer, i);
      expected.push_back(value_for(peer, me.rank, i));
    }
  AllForms::alltoall(world, form, in, received);
  HMC_CHECK(received == expected);
}

template <typename Form> void check_uneven(const TestRank& me, Form form) {
  hmc::Team& world = me.runtime->world();
  const Spread spread(me.size, [](int rank) { return (rank * 2 + 1) % 5; });  // some ranks have none
  for (int root = 0; root < me.size; ++root) {
    const bool is_root = me.rank == root;
    Values all(spread.length, untouched), expected = all;
    AllForms::gatherv(world, form, block_for(me.rank, root, spread.count(me.rank)), all, spread.counts,
                      spread.displacements, root);
    for (int rank = 0; rank < me.size && is_root; ++rank)
      spread.put(expected, rank, block_for(rank, root, spread.count(rank)));
    HMC_CHECK(all == expected);

    Values given(spread.length, untouched), mine(spread.count(me.rank), untouched);
    for (int rank = 0; rank < me.size; ++rank) spread.put(given, rank, block_for(root, rank, spread.count(rank)));
    AllForms::scatterv(world, form, given, mine, spread.counts, spread.displacements, root);
    HMC_CHECK(mine == block_for(root, me.rank, spread.count(me.rank)));
  }
  Values all(spread.length, untouched), expected = all;
  AllForms::allgatherv(world, form, block_for(me.rank, 3, spread.count(me.rank)), all, spread.counts,
                       spread.displacements);
  for (int rank = 0; rank < me.size; ++rank) spread.put(expected, rank, block_for(rank, 3, spread.count(rank)));
  HMC_CHECK(all == expected);
  Values packed(spread.length, untouched), in_order;
  AllForms::allgatherv(world, form, block_for(me.rank, 3, spread.count(me.rank)), packed, spread.counts, Ints{});
  for (int rank = 0; rank < me.size; ++rank)
    for (const std::int64_t each : block_for(rank, 3, spread.count(rank))) in_order.push_back(each);
  HMC_CHECK(std::ranges::equal(in_order, std::span(packed).first(in_order.size())));
}

int sent(int from, int to) { return (from + 2 * to) % 3; }

template <typename Call> void check_alltoallv(const TestRank& me, Call&& call) {
  const Spread to(me.size, [&](int peer) { return sent(me.rank, peer); });
  const Spread from(me.size, [&](int peer) { return sent(peer, me.rank); });
  Values in(to.length, untouched), out(from.length, untouched), expected = out;
  for (int peer = 0; peer < me.size; ++peer) {
    to.put(in, peer, block_for(me.rank, peer, to.count(peer)));
    from.put(expected, peer, block_for(peer, me.rank, from.count(peer)));
  }
  call(in, to, out, from);
  HMC_CHECK(out == expected);
}

template <typename Form> void check_reductions(const TestRank& me, Form form) {
  hmc::Team& world = me.runtime->world();
  const auto size = static_cast<std::size_t>(me.size);
  const Values mine = block_for(me.rank, 0, 5);
  Values all(5);
  AllForms::allreduce(world, form, mine, all, hmc::sum);
  for (std::size_t i = 0; i < 5; ++i) HMC_CHECK_EQ(all[i], sum_of(me.size, 0, i));
  for (int root = 0; root < me.size; ++root) {
    Values result(me.rank == root ? 5 : 0);
    AllForms::reduce(world, form, mine, result, hmc::max, root);
    for (std::size_t i = 0; i < result.size(); ++i) HMC_CHECK_EQ(result[i], value_for(me.size - 1, 0, i));
  }
  Values in;
  for (int peer = 0; peer < me.size; ++peer)
    for (std::size_t i = 0; i < 2; ++i) in.push_back(value_for(me.rank, peer, i));
  std::array<std::int64_t, 2> slice{};
  AllForms::reduce_scatter(world, form, in, slice, hmc::sum);
  for (std::size_t i = 0; i < 2; ++i) HMC_CHECK_EQ(slice[i], sum_of(me.size, me.rank, i));

  std::vector<std::int32_t> counts;
  in.clear();
  for (int peer = 0; peer < me.size; ++peer) {
    counts.push_back((peer + 1) % 3);
    for (std::size_t i = 0; i < static_cast<std::size_t>(counts.back()); ++i) in.push_back(value_for(me.rank, peer, i));
  }
  Values part(static_cast<std::size_t>(counts[static_cast<std::size_t>(me.rank)]));
  AllForms::reduce_scatterv(world, form, in, part, counts, hmc::sum);
  for (std::size_t i = 0; i < part.size(); ++i) HMC_CHECK_EQ(part[i], sum_of(me.size, me.rank, i));

  Values prefix(5, untouched), before(5, untouched);
  AllForms::scan(world, form, mine, prefix, hmc::sum);
  AllForms::exscan(world, form, mine, before, hmc::sum);
  for (std::size_t i = 0; i < 5; ++i) {
    HMC_CHECK_EQ(prefix[i], sum_of(me.rank + 1, 0, i));
    HMC_CHECK_EQ(before[i], me.rank == 0 ? untouched : sum_of(me.rank, 0, i));
  }
  (void)size;
}

template <typename Check> void in_all_forms(Check&& check) {
  check(Blocking{});
  check(Started{});
  check(Planned{});
  check(Described{});
}

}  // namespace

HMC_SPMD_TEST(Ranges, blocks_arrive_in_all_forms) {
  in_all_forms([&](auto form) { check_blocks(me, form); });
}

HMC_SPMD_TEST(Ranges, counts_of_int_and_displacements_apply_in_all_forms) {
  in_all_forms([&](auto form) { check_uneven(me, form); });
  hmc::Team& world = me.runtime->world();
  check_alltoallv(me, [&](Values& in, const Spread& to, Values& out, const Spread& from) {
    world.alltoallv(in, to.counts, to.displacements, out, from.counts, from.displacements);
  });
  check_alltoallv(me, [&](Values& in, const Spread& to, Values& out, const Spread& from) {
    world.ialltoallv(in, to.counts, to.displacements, out, from.counts, from.displacements, 2).wait();
  });
  check_alltoallv(me, [&](Values& in, const Spread& to, Values& out, const Spread& from) {
    hmc::Plan plan = world.plan_alltoallv(in, to.counts, to.displacements, out, from.counts, from.displacements, 2);
    plan.start();
    plan.wait();
  });
}

HMC_SPMD_TEST(Ranges, described_calls_that_no_form_accepts_are_refused) {
  hmc::Team& world = me.runtime->world();
  const std::vector<std::size_t> ones(static_cast<std::size_t>(me.size), 1);
  Values in(ones.size()), out(ones.size());
  constexpr auto invalid = hmc::Code::invalid_argument;
  // Without `largest`, which only a blocking call finds.
  const hmc::Collective exchange = hmc::describe::alltoallv(in, ones, {}, out, ones, {});
  HMC_CHECK_THROWS(invalid, (void)world.start(exchange));
  HMC_CHECK_THROWS(invalid, (void)world.plan(exchange));
  world.run(exchange);
  hmc::Collective uneven = hmc::describe::allreduce(in, out, hmc::sum);
  uneven.is_uneven = true;
  HMC_CHECK_THROWS(invalid, world.run(uneven));
  hmc::Collective displaced = hmc::describe::reduce_scatterv(in, out, ones, hmc::sum);
  displaced.displacements = ones;
  HMC_CHECK_THROWS(invalid, world.run(displaced));
  hmc::Collective two_buffers = hmc::describe::broadcast(in, 0);
  two_buffers.out = out.data();
  HMC_CHECK_THROWS(invalid, world.run(two_buffers));
  hmc::Collective unknown = exchange;
  unknown.kind = static_cast<hmc::CollectiveKind>(hmc::collective_count);
  HMC_CHECK_THROWS(invalid, world.run(unknown));
  HMC_CHECK_THROWS(invalid, (void)world.start(unknown));
  HMC_CHECK_THROWS(hmc::Code::unsupported, world.run_on(nullptr, hmc::describe::broadcast(in, 0)));
  world.run(hmc::describe::barrier());
}

HMC_SPMD_TEST(Ranges, reductions_deduce_the_element_type_in_all_forms) {
  in_all_forms([&](auto form) { check_reductions(me, form); });
}

HMC_SPMD_TEST(Ranges, wrong_sizes_are_refused_before_the_call) {
  hmc::Team& world = me.runtime->world();
  const auto size = static_cast<std::size_t>(me.size);
  constexpr auto invalid = hmc::Code::invalid_argument;
  Values four(4), five(5), blocks(4 * size + 1);
  HMC_CHECK_THROWS(invalid, world.allreduce(four, five, hmc::sum));
  HMC_CHECK_THROWS(invalid, static_cast<void>(world.iallreduce(four, five, hmc::sum)));
  HMC_CHECK_THROWS(invalid, (void)world.plan_allreduce(four, five, hmc::sum));
  HMC_CHECK_THROWS(invalid, world.allgather(four, blocks));
  HMC_CHECK_THROWS(invalid, world.reduce_scatter(blocks, four, hmc::sum));
  if (me.size > 1) HMC_CHECK_THROWS(invalid, world.alltoall(blocks, blocks));
  Ints counts(size, 5);
  HMC_CHECK_THROWS(invalid, world.allgatherv(four, blocks, counts));  // the block is shorter than its count
  counts.assign(size, 4);
  Ints displacements(size, 2);
  displacements.back() = static_cast<int>(blocks.size()) - 3;
  HMC_CHECK_THROWS(invalid, world.allgatherv(four, blocks, counts, displacements));  // the last block ends outside
  counts.back() = -1;
  HMC_CHECK_THROWS(invalid, world.allgatherv(four, blocks, counts));
  world.barrier();
}
