// Overlapping input and output, other than in place, are an error before any data moves.
#include <functional>
#include <vector>

#include <hmc/hmc.hpp>

#include "tests/support/pattern.hpp"
#include "tests/support/spmd.hpp"

namespace {

using hmc::Code;
using hmc::DType;
using hmc::Plan;
using hmc::Request;
using hmc::Team;
using hmc::spmd::Pattern;
using hmc::spmd::TestRank;

constexpr std::size_t block = 64;  // bytes; 8 words

/// Every call with an input at `in` and an output at `out`. A buffer of all blocks has space for one block per rank.
struct Forms {
  Team& team;
  std::byte* in;
  std::byte* out;

  std::vector<std::pair<const char*, std::function<void()>>> of_every_rank() const {
    Team& t = team;
    const void* const i = in;
    void* const o = out;
    const std::vector<std::size_t> counts(static_cast<std::size_t>(t.size()), block / 8);
    return {
        {"allreduce", [&t, i, o] { t.allreduce(i, o, 8, DType::i64, hmc::sum); }},
        {"iallreduce", [&t, i, o] { t.iallreduce(i, o, 8, DType::i64, hmc::sum).wait(); }},
        {"plan_allreduce", [&t, i, o] { (void)t.plan_allreduce(i, o, 8, DType::i64, hmc::sum); }},
        {"reduce_scatter", [&t, i, o] { t.reduce_scatter(i, o, 8, DType::i64, hmc::sum); }},
        {"ireduce_scatter", [&t, i, o] { t.ireduce_scatter(i, o, 8, DType::i64, hmc::sum).wait(); }},
        {"reduce_scatterv", [&t, i, o, counts] { t.reduce_scatterv(i, o, counts, DType::i64, hmc::sum); }},
        {"scan", [&t, i, o] { t.scan(i, o, 8, DType::i64, hmc::sum); }},
        {"iscan", [&t, i, o] { t.iscan(i, o, 8, DType::i64, hmc::sum).wait(); }},
        {"plan_exscan", [&t, i, o] { (void)t.plan_exscan(i, o, 8, DType::i64, hmc::sum); }},
        {"exscan", [&t, i, o] { t.exscan(i, o, 8, DType::i64, hmc::sum); }},
        {"allgather", [&t, i, o] { t.allgather(i, o, block); }},
        {"iallgather", [&t, i, o] { t.iallgather(i, o, block).wait(); }},
        {"allgatherv", [&t, i, o, counts] { t.allgatherv(i, o, counts, {}, 8); }},
        {"alltoall", [&t, i, o] { t.alltoall(i, o, block); }},
        {"plan_alltoall", [&t, i, o] { (void)t.plan_alltoall(i, o, block); }},
        {"alltoallv", [&t, i, o, counts] { t.alltoallv(i, counts, {}, o, counts, {}, 8); }},
    };
  }
  /// Collectives that use both buffers only on the root.
  std::vector<std::pair<const char*, std::function<void()>>> of_the_root() const {
    Team& t = team;
    const void* const i = in;
    void* const o = out;
    const int root = t.rank();
    const std::vector<std::size_t> counts(static_cast<std::size_t>(t.size()), block / 8);
    return {
        {"reduce", [&t, i, o, root] { t.reduce(i, o, 8, DType::i64, hmc::sum, root); }},
        {"ireduce", [&t, i, o, root] { t.ireduce(i, o, 8, DType::i64, hmc::sum, root).wait(); }},
        {"gather", [&t, i, o, root] { t.gather(i, o, block, root); }},
        {"plan_gather", [&t, i, o, root] { (void)t.plan_gather(i, o, block, root); }},
        {"gatherv", [&t, i, o, root, counts] { t.gatherv(i, o, counts, {}, root, 8); }},
        {"scatter", [&t, i, o, root] { t.scatter(i, o, block, root); }},
        {"iscatter", [&t, i, o, root] { t.iscatter(i, o, block, root).wait(); }},
        {"scatterv", [&t, i, o, root, counts] { t.scatterv(i, o, counts, {}, root, 8); }},
    };
  }
};

void expect_refused(const std::vector<std::pair<const char*, std::function<void()>>>& calls) {
  for (const auto& [name, call] : calls) {
    try {
      call();
      hmc::spmd::fail_check(__FILE__, __LINE__, std::string(name) + " was taken");
    } catch (const hmc::Error& error) {
      HMC_CHECK_MSG(error.code() == Code::invalid_argument, "{}: {}", name, error.what());
      HMC_CHECK_MSG(std::string(error.what()).find("overlap") != std::string::npos, "{}: {}", name, error.what());
    }
  }
}

}  // namespace

HMC_SPMD_TEST(Overlap, partial_overlap_of_output_and_input_is_rejected) {
  Team& world = me.runtime->world();
  const std::size_t all = block * static_cast<std::size_t>(me.size);
  std::vector<std::byte> memory(4 * all);
  std::byte* const middle = memory.data() + 2 * all;
  // Overlap by one byte, by one element, by all but one byte; the output first, and the input first.
  for (const std::ptrdiff_t shift : {1, 8, 63, -1, -8, -63})
    expect_refused(Forms{world, middle, middle + shift}.of_every_rank());
  Team alone = world.split(me.rank);
  for (const std::ptrdiff_t shift : {1, 8, 63, -1, -8, -63})
    expect_refused(Forms{alone, middle, middle + shift}.of_the_root());
  alone.close();
  // No call has started: the team still works.
  std::int64_t mine = me.rank + 1, sum = 0;
  world.allreduce(std::span(&mine, 1), std::span(&sum, 1), hmc::sum);
  HMC_CHECK_EQ(sum, me.size * (me.size + 1) / 2);
}

HMC_SPMD_TEST(Overlap, input_at_the_block_of_another_rank_is_rejected) {
  if (me.size == 1) return;
  Team& world = me.runtime->world();
  const auto size = static_cast<std::size_t>(me.size);
  std::vector<std::byte> memory(block * size);
  const std::byte* const theirs = memory.data() + block * static_cast<std::size_t>(me.next());
  HMC_CHECK_THROWS(Code::invalid_argument, world.allgather(theirs, memory.data(), block));
  HMC_CHECK_THROWS(Code::invalid_argument, (void)world.iallgather(theirs, memory.data(), block));
}

HMC_SPMD_TEST(Overlap, adjacent_and_identical_buffers_are_accepted) {
  Team& world = me.runtime->world();
  std::vector<std::int64_t> memory(16);
  for (int call = 0; call < 3; ++call) {
    for (std::size_t i = 0; i < 8; ++i) memory[i] = me.rank * 100 + static_cast<int>(i) + call;
    std::int64_t* const in = memory.data();
    std::int64_t* const out = call == 0 ? in + 8 : in;
    if (call == 2)
      world.iallreduce(in, out, 8, DType::i64, hmc::sum).wait();
    else
      world.allreduce(in, out, 8, DType::i64, hmc::sum);
    for (std::size_t i = 0; i < 8; ++i)
      HMC_CHECK_EQ(out[i], 100 * me.size * (me.size - 1) / 2 + me.size * (static_cast<int>(i) + call));
  }
}

// A v-form's send and receive blocks may alternate in one buffer: only the blocks must not overlap.
HMC_SPMD_TEST(Overlap, block_in_the_gap_between_others_is_accepted) {
  Team& world = me.runtime->world();
  const auto size = static_cast<std::size_t>(me.size);
  constexpr std::size_t words = 8;
  std::vector<std::uint64_t> memory(2 * words * size);
  const std::vector<std::size_t> counts(size, words);
  std::vector<std::size_t> even(size), odd(size);
  for (std::size_t i = 0; i < size; ++i) {
    even[i] = 2 * i * words;
    odd[i] = even[i] + words;
  }
  const auto value = [](int from, std::size_t to, std::size_t i) { return Pattern{from, to}.word(i); };
  for (std::size_t to = 0; to < size; ++to)
    for (std::size_t i = 0; i < words; ++i) memory[odd[to] + i] = value(me.rank, to, i);
  world.alltoallv(memory.data() + words, counts, even, memory.data(), counts, even, 8);
  for (std::size_t from = 0; from < size; ++from)
    for (std::size_t i = 0; i < words; ++i)
      HMC_CHECK_EQ(memory[even[from] + i], value(static_cast<int>(from), static_cast<std::size_t>(me.rank), i));

  std::uint64_t* const own = memory.data() + odd[0];
  for (std::size_t i = 0; i < words; ++i) own[i] = value(me.rank, 99, i);
  world.allgatherv(own, memory.data(), counts, even, 8);
  for (std::size_t from = 0; from < size; ++from)
    for (std::size_t i = 0; i < words; ++i) HMC_CHECK_EQ(memory[even[from] + i], value(static_cast<int>(from), 99, i));
  HMC_CHECK_THROWS(Code::invalid_argument, world.allgatherv(own - 1, memory.data(), counts, even, 8));
}
