// In some collectives a rank waits for no other rank and may run several calls ahead. It must not overwrite data that a
// peer has yet to read.
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "tests/multirank/collectives_support.hpp"

namespace {

using namespace hmc::spmd;

constexpr std::size_t most_words = 512;
constexpr int at_least_ahead = 14;  // scan counts as two calls

/// A call with input and output that depend on its number. Each rank that has an output verifies it.
struct Rooted {
  bool root_gives;  ///< the root sends and doesn't wait; if false, the other ranks do
  std::function<void(hmc::Team&, std::size_t words, std::uint64_t number)> call;
};

std::uint64_t word_of(int rank, std::uint64_t number, std::size_t i) {
  return number * 1'000'003 + static_cast<std::uint64_t>(rank) * 7919 + i;
}
std::vector<std::uint64_t> words_of(int rank, std::uint64_t number, std::size_t words) {
  std::vector<std::uint64_t> made(words);
  for (std::size_t i = 0; i < words; ++i) made[i] = word_of(rank, number, i);
  return made;
}

void broadcast(hmc::Team& world, std::size_t words, std::uint64_t number) {
  auto data = words_of(world.rank(), number, words);
  world.broadcast(data.data(), words * 8, 0);
  HMC_CHECK(data == words_of(0, number, words));
}
void scatter(hmc::Team& world, std::size_t words, std::uint64_t number) {
  const auto size = static_cast<std::size_t>(world.size());
  const auto in = words_of(0, number, words * size);
  std::vector<std::uint64_t> out(words);
  world.scatter(world.rank() == 0 ? in.data() : nullptr, out.data(), words * 8, 0);
  for (std::size_t i = 0; i < words; ++i)
    HMC_CHECK_EQ(out[i], word_of(0, number, static_cast<std::size_t>(world.rank()) * words + i));
}
void gather(hmc::Team& world, std::size_t words, std::uint64_t number) {
  const auto in = words_of(world.rank(), number, words);
  std::vector<std::uint64_t> out(words * static_cast<std::size_t>(world.size()));
  world.gather(in.data(), out.data(), words * 8, 0);
  for (std::size_t i = 0; world.rank() == 0 && i < out.size(); ++i)
    HMC_CHECK_EQ(out[i], word_of(static_cast<int>(i / words), number, i % words));
}
void reduce(hmc::Team& world, std::size_t words, std::uint64_t number) {
  const auto in = words_of(world.rank(), number, words);
  std::vector<std::uint64_t> out(words);
  world.reduce(in.data(), out.data(), words, hmc::DType::u64, hmc::sum, 0);
  for (std::size_t i = 0; world.rank() == 0 && i < words; ++i) {
    std::uint64_t sum = 0;
    for (int rank = 0; rank < world.size(); ++rank) sum += word_of(rank, number, i);
    HMC_CHECK_EQ(out[i], sum);
  }
}

/// Only rank 0 doesn't wait.
void scan(hmc::Team& world, std::size_t words, std::uint64_t number) {
  const auto in = words_of(world.rank(), number, words);
  std::vector<std::uint64_t> upto(words), before(words);
  world.scan(in.data(), upto.data(), words, hmc::DType::u64, hmc::sum);
  world.exscan(in.data(), before.data(), words, hmc::DType::u64, hmc::sum);
  for (std::size_t i = 0; i < words; ++i) {
    std::uint64_t sum = 0;
    for (int rank = 0; rank < world.rank(); ++rank) sum += word_of(rank, number, i);
    if (world.rank() > 0) HMC_CHECK_EQ(before[i], sum);
    HMC_CHECK_EQ(upto[i], sum + in[i]);
  }
}

const std::array<Rooted, 5> rooted = {Rooted{true, broadcast}, Rooted{true, scatter}, Rooted{false, gather},
                                      Rooted{false, reduce}, Rooted{true, scan}};

bool goes_by_load_and_store(TestRank& me) {
  for (int peer = 0; peer < me.size; ++peer)
    if (!me.runtime->path(peer).direct) return false;
  return me.size > 1;
}

}  // namespace

// The test doesn't depend on time: a sender that waited for a receiver would deadlock, since the receiver waits for the
// signal that follows the calls.
HMC_SPMD_TEST(RunAhead, sender_returns_before_the_others_call) {
  if (!goes_by_load_and_store(me)) hmc::spmd::skip("for ranks of one node");
  hmc::Team& world = me.runtime->world();
  hmc::Window signals = hmc::Window::create(world, static_cast<std::size_t>(me.size) * 8);
  std::uint64_t number = 0, round = 0;
  for (const Rooted& each : rooted) {
    for (const std::size_t words : {std::size_t{1}, most_words / static_cast<std::size_t>(me.size)}) {
      world.barrier();
      ++round;
      const bool gives = (me.rank == 0) == each.root_gives;
      const auto signal = static_cast<std::uint64_t>(me.rank) * 8;
      for (int peer = 0; !gives && peer < me.size; ++peer)
        if ((peer == 0) == each.root_gives)
          signals.wait_until(static_cast<std::uint64_t>(peer) * 8, hmc::Cmp::eq, round);
      for (int i = 0; i < at_least_ahead; ++i) each.call(world, words, ++number);
      for (int peer = 0; gives && peer < me.size; ++peer) signals.put_signal(peer, 0, nullptr, 0, signal, round);
    }
  }
  signals.close();
}

// Enough calls that every line is reused many times, while each rank in turn is late.
HMC_SPMD_TEST(RunAhead, memory_read_by_a_late_rank_is_not_overwritten) {
  hmc::Team& world = me.runtime->world();
  for (std::uint64_t number = 0; number < 600; ++number) {
    const Rooted& each = rooted[number / 45 % rooted.size()];
    const std::size_t words = number % 3 == 0   ? 1
                              : number % 3 == 1 ? 6
                                                : most_words / static_cast<std::size_t>(me.size);
    if (number % 20 == 0 && static_cast<int>(number / 20) % me.size == me.rank)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    each.call(world, words, number);
    if (number % 97 == 0) world.barrier();
  }
}
