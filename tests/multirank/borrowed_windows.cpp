// Windows over memory that another library has allocated.
#include <memory>
#include <numeric>
#include <vector>

#include "tests/multirank/device_support.hpp"

namespace {

using hmc::ConnBuffer;
using hmc::MemoryType;
using hmc::Window;
using hmc::spmd::made;
using hmc::spmd::MemoryKind;
using hmc::spmd::Pattern;
using hmc::spmd::TestRank;

constexpr std::size_t guard = 16;

/// Memory of this rank's kind with a guard at both ends, and a ConnBuffer over the part between them.
struct Foreign {
  Foreign(MemoryKind kind, std::size_t bytes) : whole(place_of(kind), bytes + 2 * guard) {}
  static hmc::Place place_of(MemoryKind kind) {
    return kind.type == MemoryType::CPU ? hmc::Allocator::host_malloc : hmc::detail::allocator_for(kind.type);
  }
  ConnBuffer borrow() { return ConnBuffer::borrow(whole.data() + guard, whole.size() - 2 * guard); }
  std::vector<std::byte> bytes(std::size_t offset, std::size_t count) const {
    std::vector<std::byte> got(count);
    whole.get(offset, got.data(), count);
    return got;
  }
  hmc::Buffer<std::byte> whole;
};

}  // namespace

HMC_SPMD_TEST(BorrowedWindows, every_verb_reaches_foreign_memory) {
  hmc::spmd::over_every_pair(me, [&](MemoryKind kind, std::uint64_t round) {
    constexpr std::size_t bytes = 300'000;
    Foreign mine(kind, bytes + 64);
    // Before the window is created: creation keeps the bytes.
    const auto before = made({me.rank, 100 + round}, bytes);
    mine.whole.set(guard, before.data(), bytes);
    Window window = Window::create(me.runtime->world(), mine.borrow());
    HMC_CHECK_EQ(window.bytes(), bytes + 64);
    HMC_CHECK(static_cast<void*>(window.data()) == mine.whole.data() + guard);

    std::vector<std::byte> got(bytes);
    window.get(me.next(), 0, got.data(), bytes);
    HMC_CHECK_CLEAN((Pattern{me.next(), 100 + round}.verify(got)));
    me.runtime->world().barrier();

    const auto sent = made({me.rank, 200 + round}, bytes);
    window.put_signal(me.next(), 0, sent.data(), bytes, bytes + 8, round);
    HMC_CHECK_EQ(window.wait_until(bytes + 8, hmc::Cmp::eq, round), round);
    HMC_CHECK_CLEAN((Pattern{me.previous(), 200 + round}.verify(mine.bytes(guard, bytes))));

    for (int rank = 0; rank < me.size; ++rank)
      window.add<std::uint64_t>(rank, bytes + 16, static_cast<std::uint64_t>(me.rank) + 1);
    window.flush();
    me.runtime->world().barrier();
    const auto count = static_cast<std::uint64_t>(me.size);
    HMC_CHECK_EQ(window.fetch<std::uint64_t>(me.rank, bytes + 16), count * (count + 1) / 2);
    me.runtime->world().barrier();
    window.close();
    HMC_CHECK(mine.bytes(0, guard) == std::vector<std::byte>(guard));
    HMC_CHECK(mine.bytes(guard + bytes + 64, guard) == std::vector<std::byte>(guard));
  });
}

HMC_SPMD_TEST(BorrowedWindows, window_keeps_the_owner) {
  for (const MemoryKind kind : hmc::spmd::kinds_of(me)) {
    bool is_freed = false;
    auto memory = std::make_shared<Foreign>(kind, 4096);
    std::weak_ptr<Foreign> seen = memory;
    {
      std::shared_ptr<void> owner(memory.get(), [memory, &is_freed](void*) mutable {
        memory.reset();
        is_freed = true;
      });
      std::byte* const at = memory->whole.data();
      memory.reset();
      Window window = Window::create(me.runtime->world(), ConnBuffer::borrow(at, 4096, std::move(owner)));
      HMC_CHECK(!is_freed);
      const std::uint64_t word = 70 + static_cast<std::uint64_t>(me.rank);
      window.put(me.next(), 24, &word, sizeof word);
      window.flush();
      me.runtime->world().barrier();
      HMC_CHECK_EQ(window.fetch<std::uint64_t>(me.rank, 24), 70 + static_cast<std::uint64_t>(me.previous()));
      me.runtime->world().barrier();
      window.close();
    }
    HMC_CHECK(is_freed);
    HMC_CHECK(seen.expired());
  }
}

HMC_SPMD_TEST(BorrowedWindows, collectives_accept_borrowed_parts) {
  for (const MemoryKind kind : hmc::spmd::kinds_of(me)) {
    constexpr std::size_t count = 5000;
    Foreign mine(kind, count * sizeof(double));
    std::vector<double> values(count);
    std::iota(values.begin(), values.end(), me.rank * 3.0);
    mine.whole.set(guard, reinterpret_cast<const std::byte*>(values.data()), count * sizeof(double));
    Window window = Window::create(me.runtime->world(), mine.borrow());
    auto* const data = window.local<double>();
    me.runtime->world().allreduce(std::span<const double>(data, count), std::span(data, count), hmc::sum);
    const auto got = mine.bytes(guard, count * sizeof(double));
    for (std::size_t i = 0; i < count; ++i) {
      double value = 0;
      std::memcpy(&value, got.data() + i * sizeof(double), sizeof value);
      HMC_CHECK_EQ(value, me.size * static_cast<double>(i) + 3.0 * me.size * (me.size - 1) / 2);
    }
    window.close();
  }
}
