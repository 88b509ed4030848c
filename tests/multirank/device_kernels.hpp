// Preconditions of the tests of device kernels.
#pragma once

#include <cstdlib>
#include <string_view>

#include "runtime/memory/kernels.hpp"
#include "runtime/memory/kernels/device_kernels.hpp"
#include "tests/multirank/device_support.hpp"

namespace hmc::spmd {

inline MemoryKind cuda(TestRank& me) {
  for (const MemoryKind& kind : kinds_of(me))
    if (kind.name == "cuda") return kind;
  skip("no CUDA among --set kinds");
}

/// True if devices reduce with kernels: the ranks share one node's memory, and the buffer's device has kernels.
inline bool has_kernels(TestRank& me, const ConnBuffer& buffer) {
  const memory::Kernels* const kernels = buffer.allocation()->provider->kernels();
  // Kernels must exist if the fake compiler is used, or if the build embeds kernels for a real CUDA device, unless
  // HMC_DEVICE_KERNELS disables them. Without this check, every test would pass without running a kernel.
  const char* const from = std::getenv("HMC_DEVICE_KERNELS");
  const bool has_source = drivers_are_fake() ? std::getenv("HMC_NVRTC_LIBRARY") != nullptr
                                             : buffer.mem_type == MemoryType::NVIDIA_GPU &&
                                                   memory::embedded_kernels(MemoryType::NVIDIA_GPU) != nullptr;
  if (has_source && (from == nullptr || std::string_view(from) != "none")) {
    HMC_CHECK(kernels != nullptr);
    HMC_CHECK_EQ(kernels->why_not(0), "");
  }
  const std::string wire = me.runtime->path(me.next()).wire;
  return me.runtime->node_count() == 1 && wire != "ucx" && wire != "tcp" && kernels != nullptr &&
         kernels->why_not(0).empty();
}

}  // namespace hmc::spmd
