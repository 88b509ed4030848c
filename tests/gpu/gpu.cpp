// Buffers on the driver's own allocators.
#include <cstdio>
#include <vector>

#include "tests/multirank/device_support.hpp"

namespace {

using hmc::Buffer;

hmc::spmd::MemoryKind device_kind(hmc::spmd::TestRank& me) {
  for (const auto& kind : hmc::spmd::kinds_of(me))
    if (kind.type != hmc::MemoryType::CPU) return kind;
  hmc::spmd::skip("no device among --set kinds");
}

}  // namespace

// Each step reads its input through its own allocator and modifies it on the host.
HMC_SPMD_TEST(Gpu, buffers_keep_elements_across_all_driver_allocators) {
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
      const auto back = Buffer<double>(from, there).get_host_accessible();  // moved and converted
      for (std::size_t i = 0; i < doubled.size(); ++i) HMC_CHECK_EQ(back.get()[i], static_cast<double>(2 + i));
    }
  }
}
