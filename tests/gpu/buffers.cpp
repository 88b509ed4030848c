// Buffers on the driver's own allocators with asynchronous transfers, and in windows on the device.
#include <vector>

#include "tests/multirank/device_support.hpp"

namespace {

using hmc::Allocator;
using hmc::Buffer;
using hmc::TransferMode;

constexpr std::size_t count = std::size_t{1} << 20;

std::vector<int> numbers(int seed) {
  std::vector<int> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = static_cast<int>(i) * 3 + seed;
  return made;
}

bool has_cuda(hmc::spmd::TestRank& me) {
  for (const auto& kind : hmc::spmd::kinds_of(me))
    if (kind.type == hmc::MemoryType::NVIDIA_GPU) return true;
  return false;
}

}  // namespace

// Each Buffer has its own stream. After the call returns, one source is destroyed and another modified at once.
HMC_SPMD_TEST(GpuBuffers, unwaited_transfers_keep_their_order) {
  if (!has_cuda(me)) hmc::spmd::skip("no CUDA device");
  for (const Allocator middle : {Allocator::cuda, Allocator::cuda_async, Allocator::cuda_pinned, Allocator::host_new}) {
    for (int round = 0; round < 5; ++round) {
      Buffer<int> target(Allocator::cuda, TransferMode::async);
      {
        Buffer<int> source(Allocator::cuda, numbers(round).data(), count, TransferMode::async);
        Buffer<int> between(middle, source, TransferMode::async);
        source.assign(numbers(-1).data(), count);
        target.append(between);
        between.assign(numbers(-2).data(), count);
        target.append(source);
      }
      const auto view = target.get_host_accessible();
      target.synchronize();
      const auto first = numbers(round), second = numbers(-1);
      for (std::size_t i = 0; i < count; ++i) {
        HMC_CHECK_EQ(view.get()[i], first[i]);
        HMC_CHECK_EQ(view.get()[count + i], second[i]);
      }
    }
  }
}

HMC_SPMD_TEST(GpuBuffers, buffers_in_a_device_window_are_reduced_in_place) {
  if (!has_cuda(me)) hmc::spmd::skip("no CUDA device");
  hmc::spmd::Mixed mixed(me, {"cuda", hmc::MemoryType::NVIDIA_GPU}, 16 * count);
  Buffer<int> inbox(mixed.window, count), sums(mixed.window, numbers(me.rank).data(), count);
  const Buffer<int> outbox(Allocator::cuda, numbers(10 + me.rank).data(), count);
  me.runtime->world().barrier();
  mixed.window.put(me.next(), inbox.offset(), outbox.data(), count * sizeof(int));
  me.runtime->world().barrier();
  const auto got = inbox.get_host_accessible();
  const auto expected = numbers(10 + me.previous());
  for (std::size_t i = 0; i < count; ++i) HMC_CHECK_EQ(got.get()[i], expected[i]);
  me.runtime->world().allreduce(sums.data(), sums.data(), count, hmc::DType::i32, hmc::sum);
  const auto reduced = sums.get_host_accessible();
  for (std::size_t i = 0; i < count; ++i)
    HMC_CHECK_EQ(reduced.get()[i], me.size * static_cast<int>(i) * 3 + me.size * (me.size - 1) / 2);
  me.runtime->world().barrier();
  mixed.window.close();
}
