// The device-side API in user kernels.
#include "tests/gpu/user_kernels.hpp"
#include "tests/multirank/device_support.hpp"

namespace {

using hmc::ConnBuffer;
using hmc::gpu::UserKernels;
using hmc::spmd::made;
using hmc::spmd::Mixed;

constexpr std::size_t to = 4096, signal_at = 64, report_at = 1 << 16, source_at = 1 << 17;

/// The window's parts are of kind `parts`. The kernel runs on this rank's CUDA device.
void put_and_take(hmc::spmd::TestRank& me, hmc::spmd::MemoryKind parts, std::size_t bytes, std::uint64_t round) {
  Mixed mixed(me, parts, report_at);
  mixed.window.open_context(me.runtime->world());
  const std::uint64_t mine = 100 + static_cast<std::uint64_t>(me.rank) * round;
  mixed.window.set_context(0, &mine, sizeof mine);
  me.runtime->world().barrier();

  ConnBuffer scratch(0, 1 << 18, hmc::MemoryType::NVIDIA_GPU);
  auto* const at = static_cast<std::byte*>(scratch.ptr);
  UserKernels kernels(me, *scratch.allocation()->provider);
  HMC_CHECK_EQ(scratch.writeFromCpu(made({me.rank, round}, bytes).data(), bytes, source_at), hmc::status_t::SUCCESS);
  RingArguments call{};
  call.window = mixed.window.device_handle();
  call.source = at + source_at;
  call.bytes = bytes;
  call.to = to;
  call.signal = signal_at;
  call.value = round;
  call.report = reinterpret_cast<unsigned long long*>(at + report_at);
  kernels.run("hmc_test_ring", call);
  std::uint64_t report[4] = {}, sum = 0;
  HMC_CHECK_EQ(scratch.readToCpu(report, sizeof report, report_at), hmc::status_t::SUCCESS);
  for (int rank = 0; rank < me.size; ++rank) sum += 100 + static_cast<std::uint64_t>(rank) * round;
  HMC_CHECK_EQ(report[0], 1U);
  HMC_CHECK_EQ(report[1], sum);
  HMC_CHECK_EQ(report[2], static_cast<std::uint64_t>(me.size));
  HMC_CHECK_EQ(report[3], static_cast<std::uint64_t>(me.rank));

  // A host that sees the kernel's signal also sees the bytes.
  HMC_CHECK_EQ(mixed.window.wait_until(signal_at, hmc::Cmp::ge, round), round);
  const int left = (me.rank + me.size - 1) % me.size;
  const auto sent = made({left, round}, bytes);
  HMC_CHECK(mixed.bytes(to, bytes) == sent);
  kernels.run("hmc_test_take", call);
  std::vector<std::byte> taken(bytes);
  HMC_CHECK_EQ(scratch.readToCpu(taken.data(), bytes, source_at), hmc::status_t::SUCCESS);
  HMC_CHECK(taken == sent);
  HMC_CHECK_EQ(scratch.readToCpu(report, sizeof report, report_at), hmc::status_t::SUCCESS);
  HMC_CHECK_EQ(report[0], 1U);
  HMC_CHECK_EQ(report[1], round);
  HMC_CHECK_EQ(report[2], 1U);
  HMC_CHECK_EQ(report[3], static_cast<std::uint64_t>(sent[0]));
  me.runtime->world().barrier();
  mixed.window.close();
}

/// All threads of a block and of each warp take part, for any block shape.
void put_by_groups(hmc::spmd::TestRank& me, unsigned threads, unsigned width, std::uint64_t round) {
  constexpr std::size_t bytes = 3001, apart = 4096;  // odd size: 16-byte pieces and single bytes
  Mixed mixed(me, {"cuda", hmc::MemoryType::NVIDIA_GPU}, 8 * apart);
  ConnBuffer scratch(0, 1 << 18, hmc::MemoryType::NVIDIA_GPU);
  auto* const at = static_cast<std::byte*>(scratch.ptr);
  UserKernels kernels(me, *scratch.allocation()->provider);
  HMC_CHECK_EQ(scratch.writeFromCpu(made({me.rank, round}, bytes).data(), bytes, source_at), hmc::status_t::SUCCESS);
  mixed.write(0, std::vector<std::byte>(8 * apart, std::byte{0x5A}));
  me.runtime->world().barrier();
  RingArguments call{};
  call.window = mixed.window.device_handle();
  call.source = at + source_at;
  call.bytes = bytes;
  call.to = 0;
  call.value = apart;
  call.width = width;
  call.report = reinterpret_cast<unsigned long long*>(at + report_at);
  kernels.run("hmc_test_groups", call, 1, threads);
  std::uint64_t ok = 0;
  HMC_CHECK_EQ(scratch.readToCpu(&ok, sizeof ok, report_at), hmc::status_t::SUCCESS);
  HMC_CHECK_EQ(ok, 1U);
  me.runtime->world().barrier();
  const unsigned warps = (threads + 31) / 32;
  const auto sent = made({me.previous(), round}, bytes);
  for (unsigned group = 0; group <= warps; ++group)  // the block, then its warps
    HMC_CHECK_MSG(mixed.bytes(group * apart, bytes) == sent, "group {} of a block of {} threads", group, threads);
  me.runtime->world().barrier();
  mixed.window.close();
}

}  // namespace

HMC_SPMD_TEST(DeviceApi, group_copies_lose_no_byte_in_partial_warps) {
  put_by_groups(me, 40, 0, 1);
  put_by_groups(me, 7, 0, 2);
  if (!hmc::gpu::driver_runs_host_kernels()) return;  // HMC launches blocks of one dimension
  put_by_groups(me, 32, 16, 3);                       // (16, 2)
  put_by_groups(me, 40, 8, 4);
}

HMC_SPMD_TEST(DeviceApi, handle_for_a_missing_device_is_rejected) {
  Mixed mixed(me, {"cpu", hmc::MemoryType::CPU}, 4096);
  const int count = hmc::memory::provider_for(hmc::MemoryType::NVIDIA_GPU).kernels()->vendor().device_count();
  for (const int device : {-1, count}) {
    bool refused = false;
    try {
      (void)mixed.window.device_handle(hmc::MemoryType::NVIDIA_GPU, device);
    } catch (const hmc::Error& error) {
      refused = error.code() == hmc::Code::invalid_argument;
    }
    HMC_CHECK_MSG(refused, "device {}", device);
  }
  me.runtime->world().barrier();
  mixed.window.close();
}

HMC_SPMD_TEST(DeviceApi, kernels_put_signal_and_read_contexts_in_every_window) {
  const hmc::spmd::MemoryKind cuda{"cuda", hmc::MemoryType::NVIDIA_GPU}, cpu{"cpu", hmc::MemoryType::CPU};
  std::uint64_t round = 0;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{37}, std::size_t{4096}, std::size_t{30'000}})
    for (const auto& parts : {cuda, cpu, me.rank % 2 == 0 ? cuda : cpu}) put_and_take(me, parts, bytes, ++round);
}
