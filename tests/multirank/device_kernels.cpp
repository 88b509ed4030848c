// Reductions that devices perform in each other's windows.
#include <cstring>

#include "tests/multirank/device_kernels.hpp"
#include "tests/multirank/device_sums.hpp"

namespace {

using hmc::ConnBuffer;
using hmc::DType;
using hmc::spmd::check_sums;
using hmc::spmd::contribution;
using hmc::spmd::cuda;
using hmc::spmd::has_kernels;
using hmc::spmd::MemoryKind;
using hmc::spmd::Mixed;

template <typename T> void reduce_in_windows(hmc::spmd::TestRank& me, Mixed& mixed, std::size_t count, int round) {
  hmc::Team& world = me.runtime->world();
  auto* const at = static_cast<std::byte*>(mixed.buffer.ptr);
  const std::size_t out = 1 << 18;
  mixed.write(0, contribution<T>(me.rank, count, round));
  world.allreduce(at, at + out, count, hmc::dtype_of<T>(), hmc::sum);
  check_sums<T>(mixed.bytes(out, count * sizeof(T)), me.size, round);
  mixed.write(0, contribution<T>(me.rank, count, round + 1));
  world.allreduce(at, at, count, hmc::dtype_of<T>(), hmc::sum);  // in place
  check_sums<T>(mixed.bytes(0, count * sizeof(T)), me.size, round + 1);
}

}  // namespace

HMC_SPMD_TEST(DeviceKernels, devices_carry_out_an_allreduce_in_device_windows) {
  for (const MemoryKind& kind : hmc::spmd::kinds_of(me)) {
    if (kind.name != "cuda" && kind.name != "hip") continue;
    Mixed mixed(me, kind, 1 << 19);
    const auto before = me.runtime->counters().reduced_on_device;
    reduce_in_windows<float>(me, mixed, 5000, 1);
    reduce_in_windows<std::uint8_t>(me, mixed, 40'001, 3);
    reduce_in_windows<double>(me, mixed, 20'000, 5);
    reduce_in_windows<std::int64_t>(me, mixed, 700, 7);
    const std::uint64_t done = me.runtime->counters().reduced_on_device - before;
    constexpr std::uint64_t calls = 4 * 2;  // each size, out of place and in place
    HMC_CHECK_EQ(done, has_kernels(me, mixed.buffer) ? calls : 0);
    mixed.window.close();
  }
}

// One rank's buffers are in host memory or outside windows: all ranks detect it, and the hosts reduce.
HMC_SPMD_TEST(DeviceKernels, hosts_reduce_if_one_rank_has_no_device_window) {
  constexpr std::size_t count = 3000;
  Mixed mixed(me, cuda(me), 1 << 19);
  ConnBuffer alone(0, count * 4, cuda(me).type);
  std::vector<float> host(count);
  for (int round = 0; round < 6; ++round) {
    const auto mine = contribution<float>(me.rank, count, round);
    void* at = mixed.buffer.ptr;
    mixed.write(0, mine);
    const bool is_odd_one = me.rank == round % me.size;
    if (is_odd_one && round % 2 == 0) {
      std::memcpy(host.data(), mine.data(), mine.size());
      at = host.data();
    } else if (is_odd_one) {
      HMC_CHECK_EQ(alone.writeFromCpu(mine.data(), mine.size()), hmc::status_t::SUCCESS);
      at = alone.ptr;
    }
    const auto before = me.runtime->counters().reduced_on_device;
    me.runtime->world().allreduce(at, at, count, DType::f32, hmc::sum);
    HMC_CHECK_EQ(me.runtime->counters().reduced_on_device, before);
    std::vector<std::byte> got(mine.size());
    if (at == host.data()) std::memcpy(got.data(), host.data(), got.size());
    if (at == alone.ptr) HMC_CHECK_EQ(alone.readToCpu(got.data(), got.size()), hmc::status_t::SUCCESS);
    check_sums<float>(is_odd_one ? got : mixed.bytes(0, mine.size()), me.size, round);
  }
  mixed.window.close();
}

// The device of a window's own part reaches the window. A kernel on another device has no access to its inputs.
HMC_SPMD_TEST(DeviceKernels, hosts_reduce_if_input_and_output_are_on_different_devices) {
  if (!hmc::spmd::drivers_are_fake()) hmc::spmd::skip("for two devices");
  constexpr std::size_t count = 5000;
  ConnBuffer in(0, count * 4, cuda(me).type), out(1, count * 4, cuda(me).type);
  hmc::Team& world = me.runtime->world();
  hmc::Window ins = hmc::Window::create(world, in), outs = hmc::Window::create(world, out);
  HMC_CHECK_EQ(in.writeFromCpu(contribution<float>(me.rank, count, 2).data(), count * 4), hmc::status_t::SUCCESS);
  const auto before = me.runtime->counters().reduced_on_device;
  world.allreduce(in.ptr, out.ptr, count, DType::f32, hmc::sum);
  HMC_CHECK_EQ(me.runtime->counters().reduced_on_device, before);
  std::vector<std::byte> got(count * 4);
  HMC_CHECK_EQ(out.readToCpu(got.data(), got.size()), hmc::status_t::SUCCESS);
  check_sums<float>(got, me.size, 2);
  outs.close();
  ins.close();
}

HMC_SPMD_TEST(UserContext, context_of_each_rank_is_readable_by_all_ranks) {
  hmc::Team& world = me.runtime->world();
  hmc::Window window = hmc::Window::create(world, 100);
  std::vector<std::byte> out(hmc::Window::context_bytes);
  HMC_CHECK_THROWS(hmc::Code::invalid_argument, window.get_context(0, 0, out.data(), 1));
  window.open_context(world);
  HMC_CHECK_THROWS(hmc::Code::invalid_argument, window.open_context(world));
  for (int round = 0; round < 3; ++round) {
    const auto pattern = [&](int rank) {
      return hmc::spmd::made({rank, static_cast<std::uint64_t>(round)}, hmc::Window::context_bytes);
    };
    window.set_context(0, pattern(me.rank).data(), hmc::Window::context_bytes);
    world.barrier();
    for (int rank = 0; rank < me.size; ++rank) {
      window.get_context(rank, 0, out.data(), out.size());
      HMC_CHECK(out == pattern(rank));
    }
    window.get_context(me.next(), 65'000, out.data(), 536);
    HMC_CHECK(std::memcmp(out.data(), pattern(me.next()).data() + 65'000, 536) == 0);
    world.barrier();
  }
  HMC_CHECK_THROWS(hmc::Code::out_of_range, window.set_context(65'536, out.data(), 1));
  window.close();
}
