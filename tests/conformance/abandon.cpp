// Abandoned transfers: afterwards the wire doesn't access the caller's memory.
#include <algorithm>

#include "tests/conformance/fixture.hpp"

namespace hmc::conformance {

using spmd::Pattern;

namespace {

constexpr std::size_t bytes = 1500007;  // many messages on every wire
constexpr std::byte guard{0xa5};

bool untouched(std::span<const std::byte> memory) {
  return std::ranges::count(memory, guard) == static_cast<std::ptrdiff_t>(memory.size());
}

/// Makes progress until all bytes in flight have arrived.
void let_everything_arrive(Fixture& on) {
  on.settle();
  on.barrier();
}

/// Counts the target's bytes that are neither unchanged nor from the abandoned put.
std::size_t strange_bytes(std::span<const std::byte> memory, const Pattern& sent) {
  std::size_t strange = 0;
  for (std::size_t i = 0; i < memory.size(); ++i) strange += memory[i] != guard && memory[i] != sent.at(i) ? 1 : 0;
  return strange;
}

}  // namespace

HMC_SPMD_TEST(Abandon, abandoned_get_writes_no_more) {
  Fixture on(me);
  Window window(on, bytes);
  Pattern{me.rank, 1}.fill(window.mine());
  on.barrier();
  for (std::size_t round = 0; round < 8; ++round) {
    std::vector<std::byte> got(bytes);
    const Ticket ticket = window.get_nb(on.next(), 0, got);
    for (std::size_t i = 0; i < round; ++i) on.wire().progress();
    on.wire().abandon(ticket);
    std::ranges::fill(got, guard);
    let_everything_arrive(on);
    HMC_CHECK_MSG(untouched(got), "round {}: memory was written after the get was abandoned", round);
  }
  // Other transfers aren't affected.
  std::vector<std::byte> got(bytes);
  window.get(on.next(), 0, got);
  HMC_CHECK_CLEAN((Pattern{on.next(), 1}.verify(got)));
  window.close();
}

HMC_SPMD_TEST(Abandon, abandoned_put_reads_its_source_no_more) {
  Fixture on(me);
  Window window(on, bytes);
  for (std::size_t round = 0; round < 8; ++round) {
    std::ranges::fill(window.mine(), guard);
    on.barrier();
    auto source = bytes_of({me.rank, round}, bytes);
    const Ticket ticket = window.put_nb(on.next(), 0, source);
    for (std::size_t i = 0; i < round; ++i) on.wire().progress();
    on.wire().abandon(ticket);
    for (std::byte& byte : source) byte ^= std::byte{0x3c};
    let_everything_arrive(on);
    HMC_CHECK_EQ(strange_bytes(window.mine(), {on.previous(), round}), 0U);
    on.barrier();
  }
  const auto source = bytes_of({me.rank, 99}, bytes);
  window.put(on.next(), 0, source);
  on.settle();
  HMC_CHECK_CLEAN((Pattern{on.previous(), 99}.verify(window.mine())));
  window.close();
}

HMC_SPMD_TEST(Abandon, other_transfers_continue) {
  Fixture on(me);
  constexpr std::size_t piece = 130001;
  constexpr std::size_t count = 30;
  Window window(on, piece * count + 8);
  const auto source = bytes_of({me.rank, 5}, piece * count);
  std::vector<std::byte> got(piece * count);
  std::vector<Ticket> tickets;
  for (std::size_t i = 0; i < count; ++i)
    tickets.push_back(window.put_nb(on.next(), i * piece, std::span(source).subspan(i * piece, piece)));
  for (std::size_t i = 0; i < count; i += 3) on.wire().abandon(tickets[i]);
  for (std::size_t i = 0; i < count; ++i)
    if (i % 3 != 0) on.wait(tickets[i]);
  on.settle();
  for (std::size_t i = 0; i < count; ++i)
    if (i % 3 != 0)
      HMC_CHECK_CLEAN((Pattern{on.previous(), 5}.verify(window.mine().subspan(i * piece, piece), i * piece)));
  on.barrier();

  Pattern{me.rank, 6}.fill(window.mine().first(piece * count));
  on.barrier();
  tickets.clear();
  for (std::size_t i = 0; i < count; ++i)
    tickets.push_back(window.get_nb(on.next(), i * piece, std::span(got).subspan(i * piece, piece)));
  for (std::size_t i = 0; i < count; i += 3) on.wire().abandon(tickets[i]);
  for (std::size_t i = 0; i < count; i += 3) std::ranges::fill(std::span(got).subspan(i * piece, piece), guard);
  for (std::size_t i = 0; i < count; ++i) {
    if (i % 3 == 0) continue;
    on.wait(tickets[i]);
    HMC_CHECK_CLEAN((Pattern{on.next(), 6}.verify(std::span(got).subspan(i * piece, piece), i * piece)));
  }
  on.settle();
  for (std::size_t i = 0; i < count; i += 3) HMC_CHECK(untouched(std::span(got).subspan(i * piece, piece)));
  window.close();
}

HMC_SPMD_TEST(Abandon, abandon_of_a_completed_transfer_has_no_effect) {
  Fixture on(me);
  Window window(on, bytes);
  const auto source = bytes_of({me.rank, 2}, bytes);
  const Ticket ticket = window.put_nb(on.next(), 0, source);
  on.wait(ticket);
  on.wire().abandon(ticket);
  on.wire().abandon(transport::done);
  const Ticket other = window.put_nb(on.next(), 0, source);  // may reuse the slot of the first
  on.wire().abandon(ticket);
  on.wait(other);
  on.settle();
  HMC_CHECK_CLEAN((Pattern{on.previous(), 2}.verify(window.mine())));
  window.close();
}

HMC_SPMD_TEST(Abandon, closed_channel_releases_all_memory) {
  Fixture on(me);
  for (std::size_t round = 0; round < 4; ++round) {
    Window window(on, 2 * bytes);
    const auto back = window.mine().first(bytes);
    const auto front = window.mine().subspan(bytes);
    std::ranges::fill(front, guard);
    Pattern{me.rank, 3}.fill(back);
    on.barrier();
    auto source = bytes_of({me.rank, round}, bytes);
    std::vector<std::byte> got(bytes);
    (void)window.get_nb(on.next(), 0, got);
    (void)window.put_nb(on.next(), bytes, source);
    (void)window.get_nb(on.next(), 0, got);
    for (std::size_t i = 0; i < 3 * round; ++i) on.wire().progress();
    window.end_channel(on.next());
    std::ranges::fill(got, guard);
    for (std::byte& byte : source) byte ^= std::byte{0x3c};
    let_everything_arrive(on);
    HMC_CHECK_MSG(untouched(got), "round {}: memory was written after the channel was destroyed", round);
    HMC_CHECK_EQ(strange_bytes(front, {on.previous(), round}), 0U);
    window.close();
  }
}

}  // namespace hmc::conformance
