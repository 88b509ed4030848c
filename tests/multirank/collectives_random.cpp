// Long sequences of collectives of all kinds and sizes, with late ranks.
#include <array>
#include <chrono>
#include <random>
#include <thread>

#include "tests/multirank/collectives_support.hpp"

namespace {

using namespace hmc::spmd;
using hmc::DType;
using hmc::Op;

/// Delays this rank in one of `one_of` calls.
void dawdle(const TestRank& me, std::uint64_t call, std::uint64_t one_of) {
  const std::uint64_t bits = Pattern{me.rank, call}.word(99);
  if (bits % one_of == 0) std::this_thread::sleep_for(std::chrono::microseconds(bits / one_of % 200));
}

/// The next call, the same on every rank.
struct Choice {
  int kind;
  std::size_t bytes;
  int root;
  DType type;
  Op op;
};

/// Most sizes are small, some need staging. One in 64 may be as large as `largest`.
Choice choose(std::mt19937_64& random, int ranks, std::size_t largest) {
  const unsigned scale = random() % 64 == 0 ? 20 : static_cast<unsigned>(random() % 15);
  Choice choice{};
  choice.kind = static_cast<int>(random() % 5);
  choice.bytes = std::min<std::size_t>(random() % (std::uint64_t{2} << scale), largest);
  choice.root = static_cast<int>(random() % static_cast<unsigned>(ranks));
  choice.type = hmc::collectives::all_types[random() % hmc::collectives::all_types.size()];
  choice.op = hmc::collectives::all_ops[random() % (is_float(choice.type) ? 5 : hmc::collectives::all_ops.size())];
  return choice;
}

void do_broadcast(TestRank& me, Grounds& grounds, const Choice& choice, std::uint64_t call) {
  std::byte* const data = grounds.in(Placing::any(me.rank, call, 1));
  Grounds::set_guards(data, choice.bytes);
  Pattern{me.rank, call}.fill({data, choice.bytes});
  me.runtime->world().broadcast(data, choice.bytes, choice.root);
  HMC_CHECK_CLEAN((Pattern{choice.root, call}.verify({data, choice.bytes})));
  HMC_CHECK_CLEAN(Grounds::check_guards(data, choice.bytes));
}

void do_allgather(TestRank& me, Grounds& grounds, const Choice& choice, std::uint64_t call) {
  Placing place = Placing::any(me.rank, call, 1);
  place.in_place = false;
  const std::size_t bytes = choice.bytes / static_cast<std::size_t>(me.size);
  const std::size_t total = bytes * static_cast<std::size_t>(me.size);
  std::byte* const out = grounds.out(place);
  Grounds::set_guards(out, total);
  Pattern{me.rank, call}.fill({grounds.in(place), bytes});
  me.runtime->world().allgather(grounds.in(place), out, bytes);
  for (int rank = 0; rank < me.size; ++rank)
    HMC_CHECK_CLEAN((Pattern{rank, call}.verify({out + bytes * static_cast<std::size_t>(rank), bytes})));
  HMC_CHECK_CLEAN(Grounds::check_guards(out, total));
}

void do_choice(TestRank& me, Grounds& grounds, const Choice& choice, std::uint64_t call) {
  switch (choice.kind) {
    case 0: return me.runtime->world().barrier();
    case 1: return do_broadcast(me, grounds, choice, call);
    case 2: return do_allgather(me, grounds, choice, call);
    default:
      hmc::collectives::with_type(choice.type, [&](auto zero) {
        using T = decltype(zero);
        check_allreduce<T>(me, grounds, Placing::any(me.rank, call, sizeof(T)), choice.bytes / sizeof(T), choice.op,
                           call);
      });
  }
}

}  // namespace

HMC_SPMD_TEST(RandomCollectives, random_order_of_calls_is_correct) {
  constexpr std::size_t largest = std::size_t{1} << 20;
  Grounds grounds(me, largest);
  const std::uint64_t calls = setting(me, "calls", all_direct(me) ? 1500 : 400);
  std::mt19937_64 random(me.options.seed * 7919);
  for (std::uint64_t call = 0; call < calls; ++call) {
    const Choice choice = choose(random, me.size, largest);
    dawdle(me, call, 40);
    try {
      do_choice(me, grounds, choice, call);
    } catch (const CheckFailed& wrong) {
      throw CheckFailed(fmt::format("seed {}, call {}, kind {}, {} bytes, root {}: {}", me.options.seed, call,
                                    choice.kind, choice.bytes, choice.root, wrong.what()));
    }
  }
  grounds.close();
}

HMC_SPMD_TEST(RandomCollectives, thousands_of_small_calls_are_correct) {
  hmc::Team& world = me.runtime->world();
  const std::uint64_t rounds = setting(me, "rounds", all_direct(me) ? 2000 : 300);
  const auto n = static_cast<std::uint64_t>(me.size);
  std::vector<std::uint64_t> all(n);
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    dawdle(me, round, 200);
    const std::uint64_t mine = round * 1000 + static_cast<std::uint64_t>(me.rank);
    std::uint64_t sum = 0;
    world.allreduce(&mine, &sum, 1, DType::u64, hmc::sum);
    HMC_CHECK_EQ(sum, n * round * 1000 + n * (n - 1) / 2);
    const int root = static_cast<int>(round % n);
    std::uint64_t word = me.rank == root ? round * 17 : 0;
    world.broadcast(&word, 8, root);
    HMC_CHECK_EQ(word, round * 17);
    world.allgather(&mine, all.data(), 8);
    for (std::uint64_t rank = 0; rank < n; ++rank) HMC_CHECK_EQ(all[rank], round * 1000 + rank);
    if (round % 3 == 0) world.barrier();
  }
}

HMC_SPMD_TEST(RandomCollectives, sizes_around_every_threshold_are_correct) {
  // Around the limits of the inline payload, the slot and the staging: one byte below, at, and above.
  Grounds grounds(me, (std::size_t{1} << 20) + 64);
  std::uint64_t call = 50'000;
  for (std::size_t border = 32; border <= (std::size_t{1} << 20); border *= border < 4096 ? 2 : 4) {
    for (const std::size_t bytes : {border - 1, border, border + 1, border + border / 2, border + border / 2 + 1}) {
      if (bytes > (std::size_t{1} << 20) + 1) continue;
      for (int kind = 1; kind <= 3; ++kind) {
        ++call;
        const int root = static_cast<int>(call % static_cast<std::uint64_t>(me.size));
        do_choice(me, grounds, {kind, bytes, root, DType::i8, hmc::sum}, call);
      }
    }
  }
  grounds.close();
}
