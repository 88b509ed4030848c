// Collectives with buffers in device memory, inside and outside windows.
#include <algorithm>
#include <cstring>

#include "tests/multirank/device_names.hpp"
#include "tests/multirank/device_words.hpp"

namespace {

using hmc::spmd::element;
using hmc::spmd::mine;
using hmc::spmd::Words;

/// Small counts, counts that the direct forms split, and counts that schedules split.
constexpr std::size_t counts[] = {1, 40, 5000};

}  // namespace

HMC_SPMD_TEST(DeviceCollectives, broadcast_allgather_and_allreduce_are_correct) {
  hmc::Team& world = me.runtime->world();
  const auto size = static_cast<std::size_t>(me.size);
  over_every_pair(me, [&](MemoryKind kind, std::uint64_t round) {
    for (const std::size_t count : counts) {
      Words in(kind, count), out(kind, count * size), sum(kind, count);
      const int root = static_cast<int>(round) % me.size;
      in.write(mine(me.rank, count, round));
      world.allgather(in.at(), out.at(), count * 8);
      world.allreduce(in.at(), sum.at(), count, hmc::DType::u64, hmc::sum);
      std::vector<std::uint64_t> sums(count), everyone;
      for (int rank = 0; rank < me.size; ++rank) {
        const auto theirs = mine(rank, count, round);
        everyone.insert(everyone.end(), theirs.begin(), theirs.end());
        for (std::size_t i = 0; i < count; ++i) sums[i] += theirs[i];
      }
      HMC_CHECK(out.read() == everyone);
      HMC_CHECK(sum.read() == sums);
      // In place: the block at its offset in the output, the vector in the output buffer.
      std::vector<std::uint64_t> empty(count * size);
      out.write(empty);
      out.write(mine(me.rank, count, round + 1), static_cast<std::size_t>(me.rank) * count);
      world.allgather(out.at(static_cast<std::size_t>(me.rank) * count), out.at(), count * 8);
      std::vector<std::uint64_t> expected;
      for (int rank = 0; rank < me.size; ++rank) {
        const auto block = mine(rank, count, round + 1);
        expected.insert(expected.end(), block.begin(), block.end());
      }
      HMC_CHECK(out.read() == expected);
      world.allreduce(in.at(), in.at(), count, hmc::DType::u64, hmc::sum);
      HMC_CHECK(in.read() == sums);
      world.broadcast(sum.at(), count * 8, root);
      in.write(mine(me.rank, count, round + 2));
      world.broadcast(in.at(), count * 8, root);
      HMC_CHECK(in.read() == mine(root, count, round + 2));
    }
  });
}

HMC_SPMD_TEST(DeviceCollectives, other_collectives_are_correct) {
  hmc::Team& world = me.runtime->world();
  const auto size = static_cast<std::size_t>(me.size), rank = static_cast<std::size_t>(me.rank);
  over_every_pair(me, [&](MemoryKind kind, std::uint64_t round) {
    constexpr std::size_t count = 70;
    const int root = static_cast<int>(round) % me.size;
    Words block(kind, count), all(kind, count * size), got(kind, count), gathered(kind, count * size);
    block.write(mine(me.rank, count, round));
    std::vector<std::uint64_t> everyone, sums(count), prefix(count);
    for (int each = 0; each < me.size; ++each) {
      const auto theirs = mine(each, count, round);
      everyone.insert(everyone.end(), theirs.begin(), theirs.end());
      for (std::size_t i = 0; i < count; ++i) {
        sums[i] += theirs[i];
        if (each <= me.rank) prefix[i] += theirs[i];
      }
    }
    world.gather(block.at(), gathered.at(), count * 8, root);
    if (me.rank == root) HMC_CHECK(gathered.read() == everyone);
    world.reduce(block.at(), got.at(), count, hmc::DType::u64, hmc::sum, root);
    if (me.rank == root) HMC_CHECK(got.read() == sums);
    world.scan(block.at(), got.at(), count, hmc::DType::u64, hmc::sum);
    HMC_CHECK(got.read() == prefix);
    world.exscan(block.at(), got.at(), count, hmc::DType::u64, hmc::sum);
    for (std::size_t i = 0; i < count && me.rank > 0; ++i) prefix[i] -= element(me.rank, i, round);
    HMC_CHECK(got.read() == prefix);  // exscan leaves rank 0's output unchanged: the result of scan

    all.write(everyone);
    world.scatter(all.at(), got.at(), count * 8, root);
    HMC_CHECK(got.read() == mine(me.rank, count, round));
    world.reduce_scatter(all.at(), got.at(), count, hmc::DType::u64, hmc::sum);
    auto times = mine(me.rank, count, round);
    for (auto& word : times) word *= size;
    HMC_CHECK(got.read() == times);
    // Block b of rank r is rank (r + b) % size's data.
    std::vector<std::uint64_t> turned(everyone);
    std::rotate(turned.begin(), turned.begin() + static_cast<std::ptrdiff_t>(rank * count), turned.end());
    all.write(turned);
    world.alltoall(all.at(), gathered.at(), count * 8);
    std::vector<std::uint64_t> expected;
    for (std::size_t each = 0; each < size; ++each) {
      const auto theirs = mine(static_cast<int>((each + rank) % size), count, round);
      expected.insert(expected.end(), theirs.begin(), theirs.end());
    }
    HMC_CHECK(gathered.read() == expected);
    // A v-form leaves the gaps between its blocks unchanged.
    std::vector<std::size_t> lengths(size, 3), places(size);
    for (std::size_t each = 0; each < size; ++each) places[each] = each * 5;
    Words gaps(kind, 5 * size);
    gaps.write(std::vector<std::uint64_t>(5 * size, 99));
    world.allgatherv(block.at(), gaps.at(), lengths, places, 8);
    const auto filled = gaps.read();
    for (std::size_t i = 0; i < filled.size(); ++i)
      HMC_CHECK_EQ(filled[i], i % 5 < 3 ? element(static_cast<int>(i / 5), i % 5, round) : 99U);
  });
}

// Memory of a device window is never treated as memory that peers can load from.
HMC_SPMD_TEST(DeviceCollectives, device_window_is_counted_as_staged) {
  constexpr std::size_t count = 30000;
  over_every_pair(me, [&](MemoryKind kind, std::uint64_t round) {
    if (round % 5 != 1) return;
    hmc::spmd::Mixed mixed(me, kind, 2 * count * 8);
    const auto words = mine(me.rank, count, round);
    mixed.write(0, std::as_bytes(std::span(words)));
    const auto before = me.runtime->counters();
    auto* const in = mixed.window.local<std::uint64_t>();
    me.runtime->world().allreduce(in, in + count, count, hmc::DType::u64, hmc::sum);
    const auto after = me.runtime->counters();
    if (kind.type != hmc::MemoryType::CPU) HMC_CHECK_EQ(after.buffers_in_place, before.buffers_in_place);
    std::vector<std::uint64_t> sums(count);
    for (int rank = 0; rank < me.size; ++rank)
      for (std::size_t i = 0; i < count; ++i) sums[i] += element(rank, i, round);
    const auto got = mixed.bytes(count * 8, count * 8);
    HMC_CHECK(std::memcmp(got.data(), sums.data(), got.size()) == 0);
    me.runtime->world().barrier();
    mixed.window.close();
  });
}

// The staging is kept: a second call of the same size allocates nothing. An output that is wholly overwritten isn't
// read first.
HMC_SPMD_TEST(DeviceCollectives, staging_is_pinned_and_reused_and_copies_only_needed_bytes) {
  if (!hmc::spmd::drivers_are_fake() || !me.options.processes) hmc::spmd::skip("for a fake driver of each rank's own");
  for (const MemoryKind& kind : hmc::spmd::kinds_of(me)) {
    if (kind.type != hmc::MemoryType::NVIDIA_GPU) continue;
    const hmc::spmd::Fake fake(kind.name);
    hmc::Team& world = me.runtime->world();
    constexpr std::size_t count = 40'000;
    Words in(kind, count), out(kind, count * static_cast<std::size_t>(me.size));
    for (int call = 0; call < 3; ++call) {
      in.write(mine(me.rank, count, static_cast<std::uint64_t>(call)));
      const hmc::spmd::Late late(fake, 500);
      fake.arm("");
      world.allgather(in.at(), out.at(), count * 8);
      HMC_CHECK_EQ(fake.times("cuMemcpyDtoHAsync_v2"), 1);
      HMC_CHECK_EQ(fake.times("cuMemcpyHtoDAsync_v2"), 1);
      if (call > 0) HMC_CHECK_EQ(fake.times("cuMemHostAlloc"), 0);
      fake.arm("");
      world.broadcast(in.at(), count * 8, 0);
      HMC_CHECK_EQ(fake.times("cuMemcpyDtoHAsync_v2"), me.rank == 0 ? 1 : 0);
      HMC_CHECK_EQ(fake.times("cuMemcpyHtoDAsync_v2"), me.rank == 0 ? 0 : 1);
      HMC_CHECK(in.read() == mine(0, count, static_cast<std::uint64_t>(call)));
    }
    const auto all = out.read();
    for (int rank = 0; rank < me.size; ++rank)
      for (std::size_t i = 0; i < count; ++i)
        HMC_CHECK_EQ(all[static_cast<std::size_t>(rank) * count + i], element(rank, i, 2));
    world.allgather(in.at(), out.at(), 0);  // zero bytes, from an address that the host couldn't read
  }
}
