// Collectives in the order of device streams. Within a node, CUDA streams use stream memory operations (words). The
// background thread handles all other vendors, and calls between nodes.
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/multirank/calls_on_streams.hpp"

namespace {

using hmc::Code;
using hmc::ConnBuffer;
using hmc::DType;
using namespace hmc::spmd;

}  // namespace

// Input copies, calls and output copies are all enqueued before any of them has run, since every copy on the streams is
// delayed.
HMC_SPMD_TEST(CallsOnStreams, call_is_ordered_between_kernels_of_the_stream) {
  on_every_kind(me, [&](const MemoryKind& kind) {
    constexpr std::size_t count = 2500, bytes = count * 4, calls = 4;
    ConnBuffer buffer(0, 2 * calls * bytes, kind.type);
    hmc::Team team = me.runtime->world().duplicate();
    auto* const at = static_cast<std::byte*>(buffer.ptr);
    OnStream first(buffer), second(buffer);
    team.barrier_on(first.native(), at);  // creates the resources of calls on streams
    std::vector<std::vector<std::byte>> inputs, outputs(calls, std::vector<std::byte>(bytes));
    for (std::size_t call = 0; call < calls; ++call)
      inputs.push_back(contribution<float>(me.rank, count, static_cast<int>(call)));
    // A rank that is descheduled while the copies run finds nothing in flight. All ranks then repeat the round.
    std::uint64_t seen_by_all = 0;
    for (int attempt = 0; attempt < 5 && seen_by_all == 0; ++attempt) {
      me.runtime->world().barrier();
      make_late(kind, 3000 + 2000 * me.rank);
      for (std::size_t call = 0; call < calls; ++call) {
        OnStream& on = call % 2 == 0 ? first : second;
        std::byte* const in = at + 2 * call * bytes;
        std::byte* const out = call == 1 ? in : in + bytes;  // one call is in place
        on.copy(in, inputs[call].data(), bytes, hmc::memory::Direction::host_to_device);
        sum_on(team, on, in, out, count);
        on.copy(outputs[call].data(), out, bytes, hmc::memory::Direction::device_to_host);
      }
      const std::uint64_t seen = !is_steered(kind) || first.stream->query().code == Code::in_progress ? 1 : 0;
      first.synchronize();
      second.synchronize();
      me.runtime->world().barrier();
      make_late(kind, 0);
      for (std::size_t call = 0; call < calls; ++call)
        check_sums<float>(outputs[call], me.size, static_cast<int>(call));
      me.runtime->world().allreduce(&seen, &seen_by_all, 1, DType::u64, hmc::min);
    }
    HMC_CHECK_EQ(seen_by_all, 1U);
    team.close();
  });
}

HMC_SPMD_TEST(CallsOnStreams, call_may_be_larger_than_staging) {
  on_every_kind(me, [&](const MemoryKind& kind) {
    constexpr std::size_t count = (9 << 20) / 4 + 3;
    ConnBuffer buffer(0, count * 4, kind.type);
    hmc::Team team = me.runtime->world().duplicate();
    OnStream on(buffer);
    for (int round = 0; round < 2; ++round) {
      const auto mine = contribution<float>(me.rank, count, round);
      HMC_CHECK_EQ(buffer.writeFromCpu(mine.data(), mine.size()), hmc::status_t::SUCCESS);
      sum_on(team, on, buffer.ptr, buffer.ptr, count);
      on.synchronize();
      std::vector<std::byte> got(count * 4);
      HMC_CHECK_EQ(buffer.readToCpu(got.data(), got.size()), hmc::status_t::SUCCESS);
      check_sums<float>(got, me.size, round);
    }
    team.close();
  });
}

// The result must not depend on which slots the algorithm sends from and writes to.
HMC_SPMD_TEST(CallsOnStreams, output_may_be_another_buffer_than_the_input) {
  on_every_kind(me, [&](const MemoryKind& kind) {
    constexpr std::size_t count = 1 << 18;
    ConnBuffer in(0, count * 4, kind.type), out(0, count * 4, kind.type);
    hmc::Team team = me.runtime->world().duplicate();
    OnStream on(in);
    for (int round = 0; round < 6; ++round) {
      const auto mine = contribution<float>(me.rank, count, round);
      HMC_CHECK_EQ(in.writeFromCpu(mine.data(), mine.size()), hmc::status_t::SUCCESS);
      sum_on(team, on, in.ptr, out.ptr, count);
      on.synchronize();
      std::vector<std::byte> got(count * 4);
      HMC_CHECK_EQ(out.readToCpu(got.data(), got.size()), hmc::status_t::SUCCESS);
      check_sums<float>(got, me.size, round);
      HMC_CHECK_EQ(in.readToCpu(got.data(), got.size()), hmc::status_t::SUCCESS);
      HMC_CHECK(got == mine);
    }
    team.close();
  });
}

// Neighbours have devices of different vendors. One side of a call may be in host memory.
HMC_SPMD_TEST(CallsOnStreams, devices_of_all_vendors_join_one_call) {
  std::vector<MemoryKind> kinds;
  on_every_kind(me, [&](const MemoryKind& kind) { kinds.push_back(kind); });
  for (std::size_t shift = 0; shift < kinds.size(); ++shift) {
    const MemoryKind& kind = kinds[(static_cast<std::size_t>(me.rank) + shift) % kinds.size()];
    constexpr std::size_t count = 3000, bytes = count * 4;
    ConnBuffer buffer(0, bytes, kind.type);
    hmc::Team team = me.runtime->world().duplicate();
    OnStream on(buffer);
    // Pinned if the vendor supports it, so that its streams can copy from it.
    const auto pinned = is_steered(kind) || kind.type == hmc::MemoryType::NVIDIA_GPU
                            ? on.provider.allocate(0, bytes, hmc::memory::Backing::pinned)
                            : nullptr;
    std::vector<std::byte> plain(bytes);
    std::byte* const host = pinned != nullptr ? pinned->address : plain.data();
    for (int round = 0; round < 4; ++round) {
      const auto mine = contribution<float>(me.rank, count, round);
      const bool from_host = round % 2 == 1, to_host = round >= 2;
      if (from_host && to_host) continue;  // one side must be in device memory
      std::memcpy(host, mine.data(), bytes);
      HMC_CHECK_EQ(buffer.writeFromCpu(mine.data(), bytes), hmc::status_t::SUCCESS);
      sum_on(team, on, from_host ? host : buffer.ptr, to_host ? host : buffer.ptr, count);
      on.synchronize();
      std::vector<std::byte> got(host, host + bytes);
      if (!to_host) HMC_CHECK_EQ(buffer.readToCpu(got.data(), bytes), hmc::status_t::SUCCESS);
      check_sums<float>(got, me.size, round);
      me.runtime->world().barrier();
    }
    team.close();
  }
}

// Ranks enqueue calls of two teams on two streams in different orders. A wait for one call must not block the other.
HMC_SPMD_TEST(CallsOnStreams, calls_of_two_teams_need_no_common_order) {
  on_every_kind(me, [&](const MemoryKind& kind) {
    constexpr std::size_t count = 1000, bytes = count * 4;
    ConnBuffer buffer(0, 2 * bytes, kind.type);
    hmc::Team teams[] = {me.runtime->world().duplicate(), me.runtime->world().duplicate()};
    OnStream streams[] = {OnStream(buffer), OnStream(buffer)};
    auto* const at = static_cast<std::byte*>(buffer.ptr);
    for (hmc::Team& team : teams) team.barrier_on(streams[0].native(), at);
    streams[0].synchronize();
    const auto mine = contribution<float>(me.rank, 2 * count, 5);
    HMC_CHECK_EQ(buffer.writeFromCpu(mine.data(), mine.size()), hmc::status_t::SUCCESS);
    me.runtime->world().barrier();
    for (std::size_t i = 0; i < 2; ++i) {
      const std::size_t which = (i + static_cast<std::size_t>(me.rank)) % 2;
      sum_on(teams[which], streams[which], at + which * bytes, at + which * bytes, count);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the first call reaches its gate
    }
    for (OnStream& on : streams) on.synchronize();
    std::vector<std::byte> got(2 * bytes);
    HMC_CHECK_EQ(buffer.readToCpu(got.data(), got.size()), hmc::status_t::SUCCESS);
    check_sums<float>(got, me.size, 5);
    for (hmc::Team& team : teams) team.close();
  });
}

// Calls on streams have their own order: a rank may call the team's other collectives in between.
HMC_SPMD_TEST(CallsOnStreams, calls_complete_in_their_own_order) {
  on_every_kind(me, [&](const MemoryKind& kind) {
    constexpr std::size_t count = 700, bytes = count * 4;
    ConnBuffer buffer(0, bytes, kind.type);
    hmc::Team team = me.runtime->world().duplicate();
    OnStream on(buffer);
    team.barrier_on(on.native(), buffer.ptr);
    const auto mine = contribution<float>(me.rank, count, 2);
    HMC_CHECK_EQ(buffer.writeFromCpu(mine.data(), bytes), hmc::status_t::SUCCESS);
    const bool is_late = me.rank % 2 == 1;
    if (!is_late) sum_on(team, on, buffer.ptr, buffer.ptr, count);
    for (int round = 0; round < 20; ++round) {
      int sum = me.rank + round;
      team.allreduce(&sum, &sum, 1, DType::i32, hmc::sum);
      HMC_CHECK_EQ(sum, me.size * (me.size - 1) / 2 + round * me.size);
    }
    if (is_late) sum_on(team, on, buffer.ptr, buffer.ptr, count);
    on.synchronize();
    std::vector<std::byte> got(bytes);
    HMC_CHECK_EQ(buffer.readToCpu(got.data(), bytes), hmc::status_t::SUCCESS);
    check_sums<float>(got, me.size, 2);
    team.close();
  });
}
