// What `./dev gpu-test` runs on a machine with a GPU, beside tests/multirank's device windows: Buffers on the
// driver's own allocators, and how fast a peer's device window is against a plain copy on the device, measured in
// turns in one run. On the fake drivers it shows that it runs; its numbers mean nothing there.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <vector>

#include "tests/multirank/device_support.hpp"

namespace {

using hmc::Buffer;
using hmc::spmd::made;
using hmc::spmd::Mixed;
using hmc::spmd::Pattern;
using Clock = std::chrono::steady_clock;

double seconds_of(auto&& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

hmc::spmd::MemoryKind device_kind(hmc::spmd::Me& me) {
  for (const auto& kind : hmc::spmd::kinds_of(me))
    if (kind.type != hmc::MemoryType::CPU) return kind;
  hmc::spmd::skip("no device among --set kinds");
}

/// One size: each way some times, in turns; then the table's line on rank 0.
void measure(hmc::spmd::Me& me, hmc::spmd::MemoryKind kind, std::size_t bytes, int rounds) {
  Mixed mixed(me, kind, bytes + 64);
  hmc::ConnBuffer local(0, 2 * bytes, kind.type);
  auto* const mine = static_cast<std::byte*>(local.ptr);
  const auto sent = made({me.rank, bytes}, bytes);
  HMC_CHECK_EQ(local.writeFromCpu(sent.data(), bytes), hmc::status_t::SUCCESS);
  std::map<std::string, std::vector<double>> times;
  me.runtime->world().barrier();
  for (int round = 0; round <= rounds && me.rank == 0; ++round) {  // round 0 warms up
    const auto take = [&](const char* way, auto&& work) {
      const double time = seconds_of(work);
      if (round > 0) times[way].push_back(time);
    };
    take("copy", [&] { HMC_CHECK_EQ(local.copyWithin(bytes, 0, bytes), hmc::status_t::SUCCESS); });
    take("put", [&] {
      mixed.window.put(me.next(), 64, mine, bytes);
      mixed.window.flush(me.next());
    });
    take("get", [&] { mixed.window.get(me.next(), 64, mine + bytes, bytes); });
  }
  me.runtime->world().barrier();
  if (me.rank == 1) HMC_CHECK_CLEAN((Pattern{0, bytes}.verify(mixed.bytes(64, bytes))));
  if (me.rank == 0) {
    std::vector<std::byte> back(bytes);
    HMC_CHECK_EQ(local.readToCpu(back.data(), bytes, bytes), hmc::status_t::SUCCESS);
    HMC_CHECK_CLEAN((Pattern{0, bytes}.verify(back)));
    const double copy = median(times["copy"]), put = median(times["put"]), get = median(times["get"]);
    const double gigabytes = static_cast<double>(bytes) / 1e9;
    std::printf("%-10s %12zu B  copy %9.2f us %8.2f GB/s   put %9.2f us %5.2f of it   get %9.2f us %5.2f of it\n",
                mixed.window.path(1).wire.c_str(), bytes, copy * 1e6, gigabytes / copy, put * 1e6, copy / put,
                get * 1e6, copy / get);
    std::fflush(stdout);
  }
  me.runtime->world().barrier();
  mixed.window.close();
}

}  // namespace

// Each hop reads its input where it lies for its own allocator, and changes it by the host.
HMC_SPMD_TEST(gpu, buffers_keep_their_elements_over_every_pair_of_the_drivers_allocators) {
  (void)device_kind(me);
  const hmc::Allocator all[] = {hmc::Allocator::host_new, hmc::Allocator::cuda, hmc::Allocator::cuda_async,
                                hmc::Allocator::cuda_pinned, hmc::Allocator::cuda_managed};
  std::vector<hmc::Allocator> allocators;
  for (const hmc::Allocator each : all) {
    try {
      (void)Buffer<int>(each, 1);
      allocators.push_back(each);
    } catch (const hmc::Error& error) {
      if (me.rank == 0) std::printf("no %s: %s\n", hmc::name_of(each), error.what());
    }
  }
  HMC_CHECK_GE(allocators.size(), 2U);
  for (const hmc::Allocator from : allocators) {
    for (const hmc::Allocator to : allocators) {
      const auto start = Buffer<int>::filled(from, 100'000, 1);
      std::vector<int> doubled(start.size());
      const auto seen = start.get_host_accessible();
      for (std::size_t i = 0; i < doubled.size(); ++i) doubled[i] = seen.get()[i] * 2 + static_cast<int>(i);
      const Buffer<int> there(to, doubled.data(), doubled.size());
      const auto back = Buffer<double>(from, there).get_host_accessible();  // moved and cast
      for (std::size_t i = 0; i < doubled.size(); ++i) HMC_CHECK_EQ(back.get()[i], static_cast<double>(2 + i));
    }
  }
}

HMC_SPMD_TEST(gpu, a_peers_window_against_a_plain_copy) {
  if (me.size < 2) hmc::spmd::skip("for two ranks");
  const auto kind = device_kind(me);
  const std::size_t largest = std::stoul(me.options.setting("largest", "268435456"));
  const int rounds = std::stoi(me.options.setting("rounds", "20"));
  for (std::size_t bytes = 8; bytes <= largest; bytes *= bytes < 65536 ? 16 : 8) measure(me, kind, bytes, rounds);
}
