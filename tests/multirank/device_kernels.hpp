// What the tests of devices' own work ask first.
#pragma once

#include <cstdlib>
#include <string_view>

#include "runtime/memory/kernels.hpp"
#include "runtime/memory/kernels/embedded.hpp"
#include "tests/multirank/device_support.hpp"

namespace hmc::spmd {

inline MemoryKind cuda(Me& me) {
  for (const MemoryKind& kind : kinds_of(me))
    if (kind.name == "cuda") return kind;
  skip("no CUDA among --set kinds");
}

/// Ranks that share a node's memory, on a device with kernels: else nothing here is done by devices.
inline bool has_kernels(Me& me, const ConnBuffer& buffer) {
  const memory::Kernels* const kernels = buffer.allocation()->provider->kernels();
  // With the fake compiler, or with kernels in the build for a real CUDA device, there are kernels unless they are
  // switched off. Without this check all tests here would pass without any.
  const char* const from = std::getenv("HMC_DEVICE_KERNELS");
  const bool has_source = drivers_are_fake() ? std::getenv("HMC_NVRTC_LIBRARY") != nullptr
                                             : buffer.memory_type() == MemoryType::NVIDIA_GPU &&
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
