// Atomics: the effect of each operation, and atomicity with each other and with the target's own.
#include <algorithm>
#include <atomic>
#include <limits>
#include <thread>

#include "tests/conformance/fixture.hpp"

namespace hmc::conformance {

namespace {

std::uint64_t masked(std::uint64_t value, int width) { return width == 4 ? value & 0xffffffffU : value; }

/// The expected value of the word after the operation.
std::uint64_t model(AtomicOp op, std::uint64_t old, std::uint64_t operand, std::uint64_t compare) {
  switch (op) {
    case AtomicOp::fetch_add:
    case AtomicOp::add: return old + operand;
    case AtomicOp::swap:
    case AtomicOp::set: return operand;
    case AtomicOp::compare_swap: return old == compare ? operand : old;
    case AtomicOp::fetch: return old;
    case AtomicOp::band:
    case AtomicOp::fetch_and: return old & operand;
    case AtomicOp::bor:
    case AtomicOp::fetch_or: return old | operand;
    case AtomicOp::bxor:
    case AtomicOp::fetch_xor: return old ^ operand;
  }
  return old;
}

constexpr AtomicOp all_ops[] = {AtomicOp::fetch_add, AtomicOp::swap,      AtomicOp::compare_swap, AtomicOp::fetch,
                                AtomicOp::set,       AtomicOp::add,       AtomicOp::band,         AtomicOp::bor,
                                AtomicOp::bxor,      AtomicOp::fetch_and, AtomicOp::fetch_or,     AtomicOp::fetch_xor};

std::uint64_t read(const Window& window, std::uint64_t offset, int width) {
  if (width == 8) return std::atomic_ref(*window.word(offset)).load();
  return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(window.mine().data() + offset)).load();
}

}  // namespace

HMC_SPMD_TEST(Atomics, each_operation_changes_only_its_word) {
  Fixture on(me);
  // Each rank has two words at every peer, with a guard on either side.
  const std::uint64_t base = 64 * static_cast<std::uint64_t>(me.rank);
  Window window(on, 64 * static_cast<std::uint64_t>(me.size));
  std::ranges::fill(window.mine(), std::byte{0x5a});
  on.barrier();
  for (const int width : {4, 8}) {
    const std::uint64_t at = base + (width == 4 ? 12 : 24);
    for (const int peer : on.peers()) {
      std::uint64_t held = masked(0x123456789abcdef0U + static_cast<std::uint64_t>(me.rank), width);
      (void)window.atomic(peer, at, AtomicOp::set, width, held);
      std::uint64_t operand = 0xfedcba9876543210U;
      for (const AtomicOp op : all_ops) {
        for (const bool match : {true, false}) {
          operand = operand * 6364136223846793005U + 1442695040888963407U;
          const std::uint64_t compare = match ? held : held + 1;
          on.fence();
          const std::uint64_t old = window.atomic(peer, at, op, width, operand, compare);
          if (transport::returns_value(op)) HMC_CHECK_EQ(masked(old, width), held);
          held = masked(model(op, held, masked(operand, width), masked(compare, width)), width);
          on.fence();
          HMC_CHECK_EQ(masked(window.atomic(peer, at, AtomicOp::fetch, width, 0), width), held);
        }
      }
    }
  }
  on.settle();
  for (const int peer : on.peers())
    for (const std::uint64_t at : {8U, 16U, 20U, 32U})
      HMC_CHECK_EQ(static_cast<int>(window.mine()[64 * static_cast<std::uint64_t>(peer) + at]), 0x5a);
  window.close();
}

/// A wire may execute an atomic of 4 bytes as one of the 8 bytes around it.
HMC_SPMD_TEST(Atomics, last_word_of_a_region_may_have_four_bytes) {
  Fixture on(me);
  Window window(on, 12);
  std::ranges::fill(window.mine(), std::byte{0x5a});
  on.barrier();
  std::uint64_t added = 0;  // the ranks that this rank reaches are those that reach it
  for (const int peer : on.peers()) {
    added += static_cast<std::uint64_t>(peer) + 1;
    (void)window.atomic(peer, 8, AtomicOp::add, 4, static_cast<std::uint64_t>(me.rank) + 1);
  }
  on.settle();
  HMC_CHECK_EQ(read(window, 8, 4), masked(0x5a5a5a5aU + added, 4));
  HMC_CHECK_EQ(static_cast<int>(window.mine()[7]), 0x5a);
  on.barrier();
}

HMC_SPMD_TEST(Atomics, fetch_add_returns_every_number_once) {
  Fixture on(me);
  constexpr std::uint64_t each = 300;
  Window window(on, 64);
  on.barrier();
  for (const int width : {4, 8}) {
    const std::uint64_t at = width == 4 ? 4 : 16;
    const int target = on.peers().front();
    std::vector<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < each; ++i) seen.push_back(window.atomic(target, at, AtomicOp::fetch_add, width, 1));
    HMC_CHECK(std::ranges::is_sorted(seen));
    on.settle();
    if (me.rank == target) HMC_CHECK_EQ(read(window, at, width), each * on.peers().size());
    // Each rank marks the values that it got; if a value was returned twice, another one stays unmarked.
    Window marks(on, each * static_cast<std::uint64_t>(me.size));
    for (const std::uint64_t number : seen) {
      const std::byte mark{1};
      marks.put(target, number, std::span(&mark, 1));
    }
    on.settle();
    if (me.rank == target)
      HMC_CHECK_EQ(std::ranges::count(marks.mine(), std::byte{1}),
                   static_cast<std::ptrdiff_t>(each * on.peers().size()));
    marks.close();
  }
  window.close();
}

HMC_SPMD_TEST(Atomics, adds_of_all_ranks_to_all_ranks_sum_up) {
  Fixture on(me);
  constexpr std::uint64_t each = 500;
  Window window(on, 64);
  on.barrier();
  for (std::uint64_t i = 0; i < each; ++i) {
    for (const int peer : on.peers()) {
      (void)window.atomic(peer, 0, AtomicOp::add, 8, static_cast<std::uint64_t>(me.rank) + 1);
      (void)window.atomic(peer, 8, AtomicOp::add, 4, std::numeric_limits<std::uint32_t>::max());  // -1
      (void)window.atomic(peer, 16, AtomicOp::bxor, 8, (i * 8191) << (4 * me.rank));
      (void)window.atomic(peer, 24, AtomicOp::bor, 4, 1U << (i % 4 + 4 * static_cast<unsigned>(me.rank % 8)));
    }
  }
  on.settle();
  std::uint64_t sum = 0, mixed = 0, bits = 0;
  for (const int peer : on.peers()) {
    sum += each * (static_cast<std::uint64_t>(peer) + 1);
    for (std::uint64_t i = 0; i < each; ++i) mixed ^= (i * 8191) << (4 * peer);
    bits |= 0xfULL << (4 * static_cast<unsigned>(peer % 8));
  }
  HMC_CHECK_EQ(read(window, 0, 8), sum);
  HMC_CHECK_EQ(read(window, 8, 4), masked(0 - each * on.peers().size(), 4));
  HMC_CHECK_EQ(read(window, 12, 4), 0U);
  HMC_CHECK_EQ(read(window, 16, 8), mixed);
  HMC_CHECK_EQ(read(window, 24, 4), bits);
  on.barrier();
  window.close();
}

HMC_SPMD_TEST(Atomics, compare_swap_implements_a_lock) {
  Fixture on(me);
  constexpr std::uint64_t each = 40;
  Window window(on, 64);
  on.barrier();
  const int target = on.peers().front();
  const std::uint64_t me_plus_1 = static_cast<std::uint64_t>(me.rank) + 1;
  for (std::uint64_t i = 0; i < each; ++i) {
    while (window.atomic(target, 0, AtomicOp::compare_swap, 8, me_plus_1, 0) != 0) std::this_thread::yield();
    // A plain read-modify-write under the lock: updates are lost if two ranks hold the lock.
    std::uint64_t count = 0;
    window.get(target, 8, std::as_writable_bytes(std::span(&count, 1)));
    ++count;
    window.put(target, 8, std::as_bytes(std::span(&count, 1)));
    on.flush(target);
    HMC_CHECK_EQ(window.atomic(target, 0, AtomicOp::swap, 8, 0), me_plus_1);
  }
  on.settle();
  if (me.rank == target) HMC_CHECK_EQ(read(window, 8, 8), each * on.peers().size());
  on.barrier();
  window.close();
}

HMC_SPMD_TEST(Atomics, swap_returns_every_value_once) {
  Fixture on(me);
  constexpr std::uint64_t each = 300;
  Window window(on, 64 + 8 * static_cast<std::uint64_t>(me.size));
  on.barrier();
  const int target = on.peers().front();
  std::uint64_t given = 0, taken = 0;
  for (std::uint64_t i = 1; i <= each; ++i) {
    const std::uint64_t mine = (i << 8) + static_cast<std::uint64_t>(me.rank);
    given += mine;
    taken += window.atomic(target, 0, AtomicOp::swap, 8, mine);
  }
  const std::uint64_t balance = given - taken;
  (void)window.atomic(target, 8, AtomicOp::add, 8, balance);
  on.settle();
  // The sum of what was added and not taken must be in the words.
  if (me.rank == target) HMC_CHECK_EQ(read(window, 8, 8), read(window, 0, 8));
  on.barrier();
  window.close();
}

HMC_SPMD_TEST(Atomics, local_operations_are_atomic_with_remote_ones) {
  Fixture on(me);
  if (!on.wire().capabilities().atomic_with_cpu) spmd::skip("the device's atomics aren't atomic with the CPU's");
  constexpr std::uint64_t each = 2000;
  Window window(on, 64);
  on.barrier();
  const int target = on.peers().front();
  auto* const narrow = reinterpret_cast<std::uint32_t*>(window.mine().data() + 8);
  for (std::uint64_t i = 0; i < each; ++i) {
    if (me.rank == target) {
      for (int k = 0; k < 8; ++k) {
        std::atomic_ref(*window.word(0)).fetch_add(1);
        std::atomic_ref(*narrow).fetch_add(1);
      }
      if (i % 16 == 0) on.wire().progress();
    } else if (i % 8 == 0) {
      (void)window.atomic(target, 0, AtomicOp::fetch_add, 8, 1);
      (void)window.atomic(target, 8, AtomicOp::fetch_add, 4, 1);
    } else {
      (void)window.atomic(target, 0, AtomicOp::add, 8, 1);
      (void)window.atomic(target, 8, AtomicOp::add, 4, 1);
    }
  }
  on.settle();
  if (me.rank == target) {
    const std::uint64_t sum = each * (8 + on.peers().size() - 1);
    HMC_CHECK_EQ(read(window, 0, 8), sum);
    HMC_CHECK_EQ(read(window, 8, 4), sum);
  }
  on.barrier();
  window.close();
}

}  // namespace hmc::conformance
