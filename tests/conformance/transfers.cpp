// put and get: sizes, alignments, and many transfers at once.
#include <algorithm>
#include <numeric>
#include <random>

#include "tests/conformance/fixture.hpp"

namespace hmc::conformance {

namespace {

using spmd::Pattern;
constexpr std::byte guard{0xa5};

/// Sizes near possible limits of wires: words, cache lines, inline sizes, pages, fragments, more than the caches.
const std::vector<std::size_t> sizes{
    0,     1,     2,     3,     7,     8,     9,      48,     49,     63,     64,      65,      127,    1000, 1023,
    1024,  1025,  1499,  1500,  1501,  4095,  4096,   4097,   8191,   8192,   8359,    8360,    8361,   8362, 9000,
    61439, 61440, 61441, 65535, 65536, 65537, 122880, 524287, 524288, 524289, 1000003, 1048577, 3145741};

}  // namespace

HMC_SPMD_TEST(Transfers, put_reaches_every_peer_at_every_size) {
  Fixture on(me);
  const std::size_t slot = sizes.back() + 64;
  Window window(on, slot * static_cast<std::size_t>(me.size));
  const std::size_t my_slot = slot * static_cast<std::size_t>(me.rank);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t bytes = sizes[i];
    const std::size_t shift = 1 + i % 17;  // odd and even shifts, at the source and the destination
    for (const int peer : on.peers())
      std::ranges::fill(window.mine().subspan(slot * static_cast<std::size_t>(peer), shift + bytes + 1), guard);
    on.barrier();
    std::vector<std::byte> source(bytes + i % 5);
    for (const int peer : on.peers()) {
      const Pattern pattern{me.rank, i * 100 + static_cast<std::size_t>(peer)};
      const std::span<std::byte> bytes_to_send = std::span(source).last(bytes);
      pattern.fill(bytes_to_send);
      window.put(peer, my_slot + shift, bytes_to_send);
    }
    on.settle();
    for (const int peer : on.peers()) {
      const auto theirs = window.mine().subspan(slot * static_cast<std::size_t>(peer), slot);
      HMC_CHECK_CLEAN(
          (Pattern{peer, i * 100 + static_cast<std::size_t>(me.rank)}.verify(theirs.subspan(shift, bytes))));
      HMC_CHECK_EQ(theirs[shift - 1], guard);
      HMC_CHECK_EQ(theirs[shift + bytes], guard);
    }
    on.barrier();
  }
  window.close();
}

HMC_SPMD_TEST(Transfers, get_fetches_from_every_peer_at_every_size) {
  Fixture on(me);
  Window window(on, sizes.back() + 64);
  const Pattern mine{me.rank, 7};
  mine.fill(window.mine());
  on.barrier();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t bytes = sizes[i];
    const std::size_t from = i % 23;
    for (const int peer : on.peers()) {
      std::vector<std::byte> got(bytes + 2 + i % 5, guard);
      const std::size_t at = 1 + i % 5;
      window.get(peer, from, std::span(got).subspan(at, bytes));
      HMC_CHECK_CLEAN((Pattern{peer, 7}.verify(std::span(got).subspan(at, bytes), from)));
      HMC_CHECK_EQ(got[at - 1], guard);
      HMC_CHECK_EQ(got.back(), guard);
    }
  }
  window.close();
}

HMC_SPMD_TEST(Transfers, source_is_free_when_its_ticket_is_done) {
  Fixture on(me);
  const std::vector<std::size_t> some{1, 8, 48, 49, 200, 1024, 1025, 4096, 20000, 61441, 300000};
  const std::size_t slot = 300064;
  Window window(on, slot * static_cast<std::size_t>(me.size) * 2);
  std::vector<std::byte> source(300000);
  for (std::uint64_t round = 0; round < 8; ++round) {
    for (const std::size_t bytes : some) {
      for (const int peer : on.peers()) {
        const auto part = std::span(source).first(bytes);
        Pattern{me.rank, round * 1000 + bytes}.fill(part);
        window.put(peer, slot * static_cast<std::size_t>(2 * me.rank) + round, part);
        std::ranges::fill(part, guard);
      }
      on.settle();
      for (const int peer : on.peers()) {
        const auto theirs = window.mine().subspan(slot * static_cast<std::size_t>(2 * peer) + round, bytes);
        HMC_CHECK_CLEAN((Pattern{peer, round * 1000 + bytes}.verify(theirs)));
      }
      on.barrier();
    }
  }
  window.close();
}

HMC_SPMD_TEST(Transfers, small_puts_complete_locally_at_once) {
  Fixture on(me);
  const std::size_t most = std::min<std::size_t>(on.wire().capabilities().put_inline_max, 4096);
  Window window(on, 4096 * 2);
  std::vector<std::byte> source(most);
  for (int i = 0; i < 2000; ++i) {
    HMC_CHECK_EQ(window.put_nb(on.next(), 0, source), transport::done);
    HMC_CHECK_EQ(window.put_signal_nb(on.next(), 0, source, 4096, 1), transport::done);
  }
  window.close();
}

HMC_SPMD_TEST(Transfers, tickets_complete_in_any_order) {
  Fixture on(me);
  constexpr std::size_t count = 1500;
  constexpr std::size_t piece = 2111;
  Window window(on, count * piece);
  std::mt19937_64 random(me.options.seed + static_cast<std::uint64_t>(me.rank));
  const Pattern out{me.rank, 1};
  const auto source = bytes_of(out, count * piece);
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::shuffle(order, random);
  std::vector<Ticket> tickets;
  for (const std::size_t i : order)
    tickets.push_back(window.put_nb(on.next(), i * piece, std::span(source).subspan(i * piece, piece)));
  std::ranges::shuffle(tickets, random);
  for (const Ticket ticket : tickets) on.wait(ticket);
  on.settle();
  HMC_CHECK_CLEAN((Pattern{on.previous(), 1}.verify(window.mine())));
  on.barrier();

  std::vector<std::byte> got(count * piece);
  tickets.clear();
  for (const std::size_t i : order)
    tickets.push_back(window.get_nb(on.next(), i * piece, std::span(got).subspan(i * piece, piece)));
  std::ranges::shuffle(tickets, random);
  for (const Ticket ticket : tickets) on.wait(ticket);
  HMC_CHECK_CLEAN(out.verify(got));
  window.close();
}

HMC_SPMD_TEST(Transfers, unused_ticket_has_no_effect) {
  Fixture on(me);
  constexpr std::size_t bytes = 5000;
  Window window(on, bytes);
  const auto source = bytes_of({me.rank, 3}, bytes);
  std::vector<std::byte> got(bytes);
  for (int i = 0; i < 3000; ++i) {
    (void)window.put_nb(on.next(), 0, source);
    if (i % 64 == 0) on.flush();
  }
  on.settle();
  HMC_CHECK_CLEAN((Pattern{on.previous(), 3}.verify(window.mine())));
  window.get(on.next(), 0, got);
  HMC_CHECK_CLEAN((Pattern{me.rank, 3}.verify(got)));
  window.close();
}

HMC_SPMD_TEST(Transfers, get_after_flush_reads_own_puts) {
  Fixture on(me);
  constexpr std::size_t slot = 70000;
  Window window(on, slot * static_cast<std::size_t>(me.size));
  const std::size_t mine = slot * static_cast<std::size_t>(me.rank);
  std::vector<std::byte> got(slot);
  for (std::uint64_t round = 0; round < 50; ++round) {
    const std::size_t bytes = 1 + (round * 7919) % slot;
    const Pattern pattern{me.rank, round};
    const auto source = bytes_of(pattern, bytes);
    for (const int peer : on.peers()) {
      window.put(peer, mine, source);
      on.flush(peer);
      window.get(peer, mine, std::span(got).first(bytes));
      HMC_CHECK_CLEAN(pattern.verify(std::span(got).first(bytes)));
    }
  }
  window.close();
}

}  // namespace hmc::conformance
