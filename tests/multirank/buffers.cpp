// Buffers in a window's symmetric heap. They have the same offset on every rank, peers reach them, and collectives use
// them in place.
#include <memory>

#include "tests/multirank/device_support.hpp"

namespace {

using hmc::Buffer;
using hmc::spmd::MemoryKind;
using hmc::spmd::Mixed;

/// Element i of a rank's data in a round.
std::uint64_t number(int rank, std::size_t i, std::uint64_t round) {
  return static_cast<std::uint64_t>(rank) * 1'000'003 + i * 17 + round * 7919;
}
std::vector<std::uint64_t> numbers(int rank, std::size_t count, std::uint64_t round) {
  std::vector<std::uint64_t> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = number(rank, i, round);
  return made;
}
std::vector<std::uint64_t> all_of(const Buffer<std::uint64_t>& buffer) {
  const auto view = buffer.get_host_accessible();
  buffer.synchronize();
  return {view.get(), view.get() + buffer.size()};
}
/// Compares this rank's offset with rank 0's.
void check_same_offset(hmc::spmd::TestRank& me, std::uint64_t mine) {
  std::uint64_t theirs = mine;
  me.runtime->world().broadcast(&theirs, sizeof theirs, 0);
  HMC_CHECK_EQ(theirs, mine);
}

}  // namespace

HMC_SPMD_TEST(Buffers, put_and_get_use_the_buffer_offset_in_a_window) {
  hmc::spmd::over_every_pair(me, [&](MemoryKind kind, std::uint64_t round) {
    constexpr std::size_t count = 3000;
    Mixed mixed(me, kind, 1 << 17);
    (void)mixed.window.alloc(100);
    const Buffer<char> before(mixed.window, 77);
    Buffer<std::uint64_t> inbox(mixed.window, count);
    check_same_offset(me, inbox.offset());
    HMC_CHECK_EQ(reinterpret_cast<std::byte*>(inbox.data()), mixed.window.data() + inbox.offset());
    me.runtime->world().barrier();
    const auto sent = numbers(me.rank, count, round);
    mixed.window.put(me.next(), inbox.offset(), sent.data(), count * 8);
    me.runtime->world().barrier();
    HMC_CHECK(all_of(inbox) == numbers(me.previous(), count, round));
    std::vector<std::uint64_t> got(count);
    mixed.window.get(me.next(), inbox.offset(), got.data(), count * 8);
    HMC_CHECK(got == sent);
    me.runtime->world().barrier();
    mixed.window.close();
  });
}

HMC_SPMD_TEST(Buffers, buffers_in_a_window_are_reduced_in_place) {
  hmc::spmd::over_every_pair(me, [&](MemoryKind kind, std::uint64_t round) {
    constexpr std::size_t count = 2500;
    Mixed mixed(me, kind, 1 << 17);
    Buffer<std::uint64_t> buffer(mixed.window, numbers(me.rank, count, round).data(), count);
    me.runtime->world().allreduce(buffer.data(), buffer.data(), count, hmc::DType::u64, hmc::sum);
    const auto sums = all_of(buffer);
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t sum = 0;
      for (int rank = 0; rank < me.size; ++rank) sum += number(rank, i, round);
      HMC_CHECK_EQ(sums[i], sum);
    }
    me.runtime->world().barrier();
    mixed.window.close();
  });
}

// Every rank makes the same calls. A freed range is allocated again.
HMC_SPMD_TEST(Buffers, buffers_in_a_window_resize_equally_on_all_ranks) {
  hmc::Window window = hmc::Window::create(me.runtime->world(), 1 << 16);
  std::vector<std::uint64_t> expected;
  {
    Buffer<std::uint64_t> buffer(window);
    for (std::uint64_t round = 0; round < 12; ++round) {
      const auto more = numbers(me.rank, 40 + 5 * round, round);
      buffer.append(more.data(), more.size());
      expected.insert(expected.end(), more.begin(), more.end());
      if (buffer.place().heap != nullptr) check_same_offset(me, buffer.offset());
      if (round % 4 == 1) buffer.move(hmc::Allocator::host_new);
      if (round % 4 == 2) buffer.move(window);
      if (round % 4 == 3) buffer = Buffer<std::uint64_t>(buffer);
    }
    HMC_CHECK(all_of(buffer) == expected);
    const Buffer<std::uint64_t> stolen(window, std::move(buffer));
    HMC_CHECK(all_of(stolen) == expected);
  }
  const Buffer<std::byte> all(window, window.bytes());  // the whole window is free again
  HMC_CHECK_EQ(all.offset(), 0U);
  me.runtime->world().barrier();
  window.close();
}

// A handle that one rank holds longer doesn't hold the range: offsets would differ between ranks.
HMC_SPMD_TEST(Buffers, kept_handle_does_not_keep_the_window_allocation) {
  hmc::Window window = hmc::Window::create(me.runtime->world(), 1 << 12);
  auto buffer = std::make_unique<Buffer<int>>(window, 100);
  const auto kept = me.rank == 0 ? buffer->get_host_accessible() : nullptr;
  buffer.reset();
  check_same_offset(me, Buffer<int>(window, 100).offset());
  HMC_CHECK_EQ(Buffer<int>(window, 100).offset(), 0U);
  me.runtime->world().barrier();
  window.close();
}
