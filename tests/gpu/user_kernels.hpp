// The kernels of device_kernels.cu on the CUDA device 0: nvcc's binary on a real driver, the same text compiled for the
// host on the fake one.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "runtime/memory/kernels.hpp"
#include "tests/gpu/kernel_arguments.hpp"
#include "tests/support/spmd.hpp"

namespace hmc::gpu {

/// The driver is the fake one, whether HMC_CUDA_LIBRARY names it or it was found as libcuda.so.1.
bool driver_runs_host_kernels();

class UserKernels {
 public:
  /// `--set kernels=FILE` names nvcc's binary where it isn't in the build folder. Skips the test where there is none.
  UserKernels(const spmd::Me& me, const memory::Provider& provider);
  ~UserKernels();
  UserKernels(const UserKernels&) = delete;
  UserKernels& operator=(const UserKernels&) = delete;

  /// Done when it returns.
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
