// The kernels of device_kernels.cu on CUDA device 0. A real driver runs nvcc's binary. The fake driver runs the same
// source compiled for the host.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "runtime/memory/kernels.hpp"
#include "tests/gpu/kernel_arguments.hpp"
#include "tests/support/spmd.hpp"

namespace hmc::gpu {

/// True if the driver is the fake one, named by HMC_CUDA_LIBRARY or found as libcuda.so.1.
bool driver_runs_host_kernels();

class UserKernels {
 public:
  /// Loads nvcc's binary from `--set kernels=FILE`, by default from the build folder. Skips the test if there is none.
  UserKernels(const spmd::TestRank& me, const memory::Provider& provider);
  ~UserKernels();
  UserKernels(const UserKernels&) = delete;
  UserKernels& operator=(const UserKernels&) = delete;

  /// Returns after the kernel has completed.
  void run(const char* name, RingArguments call, unsigned blocks = 1, unsigned threads = 32);

 private:
  template <typename Call> void check(Call&& call);

  const memory::Provider& provider_;
  const memory::KernelCalls& calls_;
  const memory::Vendor& vendor_;
  void* module_ = nullptr;
  std::map<std::string, void*> functions_;
  std::unique_ptr<memory::Stream> stream_;
};

}  // namespace hmc::gpu
