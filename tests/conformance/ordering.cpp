// The order of puts, signals, fence and flush.
#include <algorithm>
#include <random>

#include "tests/conformance/fixture.hpp"

namespace hmc::conformance {

using spmd::Pattern;

HMC_SPMD_TEST(Ordering, puts_after_a_fence_overwrite_earlier_puts) {
  Fixture on(me);
  constexpr std::size_t slot = 200000;
  constexpr std::uint64_t layers = 6;
  Window window(on, slot * static_cast<std::size_t>(me.size));
  std::mt19937_64 random(me.options.seed);  // the same on all ranks: they check each other's bytes
  for (std::uint64_t round = 0; round < 25; ++round) {
    std::vector<std::byte> expected(slot);
    std::vector<std::vector<std::byte>> kept;
    for (std::uint64_t layer = 0; layer < layers; ++layer) {
      const std::size_t bytes = layer == 0 ? slot : 1 + random() % (layer % 2 == 0 ? slot : 3000);
      const std::size_t at = layer == 0 ? 0 : random() % (slot - bytes + 1);
      kept.push_back(bytes_of({me.rank, round * layers + layer}, bytes, at));
      for (const int peer : on.peers())
        (void)window.put_nb(peer, slot * static_cast<std::size_t>(me.rank) + at, kept.back());
      on.fence();
      Pattern{on.previous(), round * layers + layer}.fill(std::span(expected).subspan(at, bytes), at);
    }
    on.settle();
    const auto got = window.mine().subspan(slot * static_cast<std::size_t>(on.previous()), slot);
    const auto wrong = std::ranges::mismatch(got, expected).in1 - got.begin();
    HMC_CHECK_MSG(wrong == static_cast<std::ptrdiff_t>(slot), "byte {} in round {} is of an earlier layer", wrong,
                  round);
    on.barrier();
  }
  window.close();
}

// Both orders: a wire may execute puts by a device, which is fast, and atomics by the target's CPU, which is late.
HMC_SPMD_TEST(Ordering, fence_orders_atomics_and_puts) {
  Fixture on(me);
  constexpr std::uint64_t counter = 3008, signal = 3016, additions = 8;
  Window window(on, 3024);
  for (std::uint64_t round = 1; round <= 200; ++round) {
    const auto source = bytes_of({me.rank, round}, 3000);
    (void)window.put_nb(on.next(), 8, source);
    on.fence();
    (void)window.atomic(on.next(), 0, AtomicOp::set, 8, round);
    window.wait_signal(0, round);
    HMC_CHECK_CLEAN((Pattern{on.previous(), round}.verify(window.mine().subspan(8, 3000))));

    for (std::uint64_t i = 0; i < additions; ++i) (void)window.atomic(on.next(), counter, AtomicOp::add, 8, 1);
    on.fence();
    (void)window.put_signal_nb(on.next(), 0, {}, signal, round);
    window.wait_signal(signal, round);
    HMC_CHECK_EQ(*window.word(counter), additions * round);
    on.settle();
  }
  window.close();
}

// The target waits in the control plane, without progress on the wire: an origin that needs it would hang.
HMC_SPMD_TEST(Ordering, flush_completes_at_a_sleeping_target) {
  Fixture on(me);
  constexpr std::size_t bytes = 300000;
  Window window(on, bytes * static_cast<std::size_t>(me.size) + 64);
  const std::uint64_t counter = bytes * static_cast<std::uint64_t>(me.size);
  Pattern{me.rank, 0}.fill(window.mine().first(counter));
  on.barrier();
  const int sleeper = on.peers().front();
  if (me.rank != sleeper || me.size == 1) {
    const auto source = bytes_of({me.rank, 9}, bytes);
    std::vector<std::byte> got(bytes);
    const std::uint64_t mine = bytes * static_cast<std::uint64_t>(me.rank);
    window.get(sleeper, mine, got);
    HMC_CHECK_CLEAN((Pattern{sleeper, 0}.verify(got, mine)));
    window.put(sleeper, mine, source);
    on.flush(sleeper);
    (void)window.atomic(sleeper, counter, AtomicOp::fetch_add, 8, 1);
    window.get(sleeper, mine, got);
    HMC_CHECK_CLEAN((Pattern{me.rank, 9}.verify(got)));
  }
  on.barrier();
  on.settle();
  if (me.rank == sleeper) HMC_CHECK_EQ(*window.word(counter), on.peers().size() - (me.size > 1 ? 1 : 0));
  window.close();
}

HMC_SPMD_TEST(Ordering, signal_is_visible_after_its_bytes) {
  Fixture on(me);
  const std::uint64_t rounds = number(me, "rounds", 3000);
  constexpr std::size_t slot = 8192;
  constexpr std::uint64_t signal = 2 * slot;
  constexpr std::uint64_t consumed = 2 * slot + 64;
  Window window(on, 2 * slot + 128);
  std::mt19937_64 random(me.options.seed);  // the same on all ranks
  std::vector<std::byte> source(slot);
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    const std::size_t bytes = round % 97 == 0 ? slot : random() % 600;
    const std::uint64_t at = round % 2 * slot;
    // Two slots: that of round-2 must have been read before it is written again.
    if (round > 2) window.wait_signal(consumed, round - 2);
    Pattern{me.rank, round}.fill(std::span(source).first(bytes));
    on.fence();  // a signal is a put: without the fence two of them may be reordered
    window.put_signal(on.next(), at, std::span(source).first(bytes), signal, round);
    std::ranges::fill(source, std::byte{0xee});
    window.wait_signal(signal, round);
    HMC_CHECK_CLEAN((Pattern{on.previous(), round}.verify(window.mine().subspan(at, bytes))));
    on.fence();
    window.put_signal(on.previous(), 0, {}, consumed, round);
  }
  window.close();
}

HMC_SPMD_TEST(Ordering, signal_after_a_fence_covers_earlier_puts) {
  Fixture on(me);
  constexpr std::size_t pieces = 20;
  constexpr std::size_t piece = 7000;
  constexpr std::uint64_t signal = pieces * piece;  // a multiple of 8
  Window window(on, signal + 8);
  for (std::uint64_t round = 1; round <= 60; ++round) {
    const auto source = bytes_of({me.rank, round}, pieces * piece);
    for (std::size_t i = pieces; i-- > 0;)
      (void)window.put_nb(on.next(), i * piece, std::span(source).subspan(i * piece, piece));
    on.fence();
    (void)window.put_signal_nb(on.next(), 0, {}, signal, round);
    window.wait_signal(signal, round);
    HMC_CHECK_CLEAN((Pattern{on.previous(), round}.verify(window.mine().first(pieces * piece))));
    on.settle();
  }
  window.close();
}

// A put that exceeds what a wire sends at once, so that a part waits, then a small put that could overtake it.
HMC_SPMD_TEST(Ordering, small_messages_stay_behind_a_large_put) {
  Fixture on(me);
  constexpr std::size_t bytes = 16 << 20;
  Window window(on, bytes + 8);
  std::vector<std::byte> source(bytes);
  for (std::uint64_t round = 1; round <= 2; ++round) {
    const Pattern sent{me.rank, round};
    sent.fill(source);
    const auto small = bytes_of({me.rank, 1000 + round}, 500);
    (void)window.put_nb(on.next(), 0, source);
    on.fence();
    (void)window.put_nb(on.next(), bytes - 1000, small);
    on.fence();
    if (round % 2 == 0)
      (void)window.atomic(on.next(), bytes, AtomicOp::set, 8, round);
    else
      (void)window.put_signal_nb(on.next(), 0, {}, bytes, round);
    window.wait_signal(bytes, round);
    const Pattern large{on.previous(), round};
    HMC_CHECK_CLEAN(large.verify(window.mine().subspan(bytes - 500, 500), bytes - 500));
    HMC_CHECK_CLEAN((Pattern{on.previous(), 1000 + round}.verify(window.mine().subspan(bytes - 1000, 500))));
    HMC_CHECK_CLEAN(large.verify(window.mine().first(bytes - 1000)));
    on.settle();
  }
  window.close();
}

HMC_SPMD_TEST(Ordering, large_signalled_puts_are_complete) {
  Fixture on(me);
  constexpr std::size_t bytes = 2500000;
  constexpr std::uint64_t signal = bytes;
  Window window(on, bytes + 8);
  std::vector<std::byte> source(bytes);
  for (std::uint64_t round = 1; round <= 6; ++round) {
    Pattern{me.rank, round}.fill(source);
    window.put_signal(on.next(), 0, source, signal, round);
    std::ranges::fill(source, std::byte{0xee});
    window.wait_signal(signal, round);
    HMC_CHECK_CLEAN((Pattern{on.previous(), round}.verify(window.mine().first(bytes))));
    on.settle();
  }
  window.close();
}

}  // namespace hmc::conformance
