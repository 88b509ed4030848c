// The ordering contract of <hmc/window.hpp>, point by point.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <hmc/hmc.hpp>

#include "tests/support/pattern.hpp"
#include "tests/support/spmd.hpp"

namespace {

using hmc::Cmp;
using hmc::Window;
using hmc::spmd::Pattern;
using hmc::spmd::TestRank;

constexpr std::uint64_t slots = 8;
constexpr std::uint64_t slot_bytes = 16384;
constexpr std::uint64_t signal_at = slots * slot_bytes;
constexpr std::uint64_t ack_at = signal_at + 64;
constexpr std::uint64_t window_bytes = ack_at + 64;

/// 1 .. slot_bytes, odd lengths included, different in each round.
std::size_t length_of(std::uint64_t round) { return 1 + (round * 37) % slot_bytes; }

/// Number of rounds of one rank. All ranks together make `rounds` rounds.
std::uint64_t rounds_of(const TestRank& me) {
  const std::uint64_t rounds = std::stoull(me.options.setting("rounds", "40000"));
  return std::max<std::uint64_t>(1, rounds / static_cast<std::uint64_t>(me.size));
}

/// How far the writer may run ahead. It alternates between all slots and one, where the target waits for each put.
std::uint64_t depth_at(std::uint64_t round) { return (round / 512) % 2 == 0 ? 1 : slots; }

void spoil(std::vector<std::byte>& source) { std::fill(source.begin(), source.end(), std::byte{0xee}); }

/// Waits until the peer has acknowledged enough rounds that the slot of `round` is free again.
void wait_for_room(Window& win, std::uint64_t round) {
  if (round >= slots) win.wait_until(ack_at, Cmp::ge, round - slots + 1);
}

void check_slot(const TestRank& me, const Window& win, std::uint64_t round, int writer) {
  const auto* const slot = win.data() + (round % slots) * slot_bytes;
  const std::size_t last = length_of(round) - 1;  // checked first, since it is written last
  HMC_CHECK_MSG(slot[last] == (Pattern{writer, round}.at(last)), "round {}: byte {} is late", round, last);
  const std::string wrong = Pattern{writer, round}.verify({slot, length_of(round)});
  HMC_CHECK_MSG(wrong.empty(), "round {} from rank {} to {}: {}", round, writer, me.rank, wrong);
}

}  // namespace

// Each rank sends to the next one and reuses its source at once. The target reads only the signal.
HMC_SPMD_TEST(Ordering, put_signal_with_reused_source_is_ordered) {
  Window win = Window::create(me.runtime->world(), window_bytes);
  const std::uint64_t rounds = rounds_of(me);
  std::vector<std::byte> source(slot_bytes);
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  while (sent < rounds || received < rounds) {
    for (; sent < rounds && sent < received + depth_at(received); ++sent) {
      wait_for_room(win, sent);
      Pattern{me.rank, sent}.fill({source.data(), length_of(sent)});
      win.put_signal(me.next(), (sent % slots) * slot_bytes, source.data(), length_of(sent), signal_at, sent + 1);
      spoil(source);
    }
    if (received == rounds) continue;
    const std::uint64_t seen = win.wait_until(signal_at, Cmp::ge, received + 1);
    HMC_CHECK_LE(seen, rounds);
    for (; received < seen; ++received) check_slot(me, win, received, me.previous());
    win.put_signal(me.previous(), 0, nullptr, 0, ack_at, received);
  }
  me.runtime->world().barrier();
  win.close();
}

// Puts, then fence, then a signal: a rank that sees the signal also sees the bytes put before the fence.
HMC_SPMD_TEST(Ordering, fence_orders_puts_before_a_later_signal) {
  Window win = Window::create(me.runtime->world(), window_bytes);
  const std::uint64_t rounds = std::max<std::uint64_t>(1, rounds_of(me) / 20);
  std::vector<std::byte> source(slot_bytes);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    wait_for_room(win, round);
    const std::size_t length = length_of(round);
    Pattern{me.rank, round}.fill({source.data(), length});
    const std::size_t half = length / 2;
    win.put(me.next(), (round % slots) * slot_bytes + half, source.data() + half, length - half);
    win.put(me.next(), (round % slots) * slot_bytes, source.data(), half);
    spoil(source);
    win.fence();
    win.put_signal(me.next(), 0, nullptr, 0, signal_at, round + 1);
    win.wait_until(signal_at, Cmp::ge, round + 1);
    check_slot(me, win, round, me.previous());
    win.put_signal(me.previous(), 0, nullptr, 0, ack_at, round + 1);
  }
  me.runtime->world().barrier();
  win.close();
}

// After flush returns, a third rank that is notified finds the bytes at the target.
HMC_SPMD_TEST(Ordering, flushed_bytes_are_visible_to_all_ranks) {
  Window win = Window::create(me.runtime->world(), window_bytes);
  const int target = me.next();
  const int witness = (me.rank + 2) % me.size;
  const int told_by = (me.rank + 2 * me.size - 2) % me.size;
  const int look_at = (told_by + 1) % me.size;
  std::vector<std::byte> bytes(slot_bytes);
  const std::uint64_t rounds = std::max<std::uint64_t>(1, rounds_of(me) / 40);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const std::size_t length = length_of(round);
    Pattern{me.rank, round}.fill({bytes.data(), length});
    win.put(target, 0, bytes.data(), length);
    spoil(bytes);
    round % 2 == 0 ? win.flush(target) : win.flush();
    win.put_signal(witness, 0, nullptr, 0, signal_at, round + 1);
    win.wait_until(signal_at, Cmp::ge, round + 1);
    win.get(look_at, 0, bytes.data(), length);
    HMC_CHECK_CLEAN((Pattern{told_by, round}.verify({bytes.data(), length})));
    me.runtime->world().barrier();
  }
  win.close();
}

HMC_SPMD_TEST(Ordering, barrier_completes_earlier_puts) {
  Window win = Window::create(me.runtime->world(), static_cast<std::size_t>(me.size) * slot_bytes);
  std::vector<std::byte> source(slot_bytes);
  const std::uint64_t rounds = std::max<std::uint64_t>(1, rounds_of(me) / 100);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    Pattern{me.rank, round}.fill(source);
    for (int peer = 0; peer < me.size; ++peer)
      win.put(peer, static_cast<std::uint64_t>(me.rank) * slot_bytes, source.data(), source.size());
    spoil(source);
    me.runtime->world().barrier();
    for (int writer = 0; writer < me.size; ++writer)
      HMC_CHECK_CLEAN(
          (Pattern{writer, round}.verify({win.data() + static_cast<std::size_t>(writer) * slot_bytes, slot_bytes})));
    me.runtime->world().barrier();
  }
  win.close();
}

// The barrier's messages go in steps of 1, 2, 4 ...: they reach a rank 3 away through other ranks and overtake a large
// put.
HMC_SPMD_TEST(Ordering, barrier_completes_puts_overtaken_by_its_messages) {
  constexpr std::size_t bytes = std::size_t{2} << 20;
  Window win = Window::create(me.runtime->world(), bytes);
  const int to = (me.rank + 3) % me.size;
  const int from = (me.rank + 3 * (me.size - 1)) % me.size;
  std::vector<std::byte> source(bytes);
  for (std::uint64_t round = 0; round < 3; ++round) {
    Pattern{me.rank, round}.fill(source);
    hmc::Request put = win.put_nb(to, 0, source.data(), bytes);
    me.runtime->world().barrier();
    HMC_CHECK_CLEAN((Pattern{from, round}.verify({win.data(), bytes})));
    put.wait();
    me.runtime->world().barrier();
  }
  win.close();
}

namespace {

/// Polls the word without any HMC call.
void poll(const Window& win, std::uint64_t offset, std::uint64_t value) {
  const std::atomic_ref<std::uint64_t> word(*win.local<std::uint64_t>(offset));
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (word.load() < value && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  HMC_CHECK_GE(word.load(), value);
}

}  // namespace

// A wire may hold small puts back to send them with later messages. Here no message follows, and the origin computes.
// In each round one rank puts, after traffic or after the wire has become idle, and the next rank answers.
HMC_SPMD_TEST(Ordering, puts_arrive_without_further_calls_of_the_origin) {
  if (me.size < 2) hmc::spmd::skip("for two ranks");
  constexpr std::uint64_t rounds = 60;
  constexpr std::uint64_t words = 1024;
  constexpr std::uint64_t answer_at = 8 * words;
  Window win = Window::create(me.runtime->world(), answer_at + 64);
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    me.runtime->world().barrier();
    const int origin = static_cast<int>(round) % me.size;
    const std::uint64_t more = round % 4 == 0 ? words - 1 : round % 4;
    if (me.rank == origin) {
      if (round % 3 == 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(3));  // on purpose: the wire becomes idle
      else
        (void)win.fetch_add<std::uint64_t>(me.next(), answer_at + 8, 1);
      for (std::uint64_t i = more + 1; i-- > 0;) win.put(me.next(), 8 * i, &round, 8);
      poll(win, answer_at, round);
    }
    if (me.previous() == origin) {
      win.wait_until(0, Cmp::ge, round);  // put last, but only a fence would guarantee the order
      for (std::uint64_t i = 0; i <= more; ++i) win.wait_until(8 * i, Cmp::ge, round);
      win.put_signal(origin, 0, nullptr, 0, answer_at, round);
    }
  }
  me.runtime->world().barrier();
  win.close();
}

// A wire sends large messages by other protocols (rendezvous, several packets) than small ones.
HMC_SPMD_TEST(Ordering, large_put_signals_are_complete) {
  constexpr std::size_t most = std::size_t{1} << 20;
  Window win = Window::create(me.runtime->world(), most + 64);
  std::vector<std::byte> source(most);
  std::uint64_t round = 0;
  for (const std::size_t bytes :
       {std::size_t{4096}, std::size_t{8191}, std::size_t{65536}, std::size_t{262145}, most}) {
    for (int again = 0; again < 4; ++again, ++round) {
      Pattern{me.rank, round}.fill({source.data(), bytes});
      win.put_signal(me.next(), 0, source.data(), bytes, most, round + 1);
      spoil(source);
      win.wait_until(most, Cmp::ge, round + 1);
      HMC_CHECK_CLEAN((Pattern{me.previous(), round}.verify({win.data(), bytes})));
      me.runtime->world().barrier();
    }
  }
  win.close();
}
