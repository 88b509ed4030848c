// Launches of CUDA kernels over flat arrays, in code that nvcc compiles. Functions return 0 and throw hmc::Error.
#ifndef hamr_cuda_launch_h
#define hamr_cuda_launch_h

#include <hamr_launch.h>

#if defined(__CUDACC__)
#include <cuda_runtime.h>

#include <hamr_launch_blocks.h>

namespace hamr {

inline int get_launch_props(int device_id, int* block_grid_max, int& warp_size, int& max_warps_per_block) {
  const auto check = [](cudaError_t result) {
    detail::check_launch(result == cudaSuccess, "hamr::get_launch_props", cudaGetErrorString(result));
  };
  if (device_id < 0) check(cudaGetDevice(&device_id));
  int threads = 0;
  check(cudaDeviceGetAttribute(&block_grid_max[0], cudaDevAttrMaxGridDimX, device_id));
  check(cudaDeviceGetAttribute(&block_grid_max[1], cudaDevAttrMaxGridDimY, device_id));
  check(cudaDeviceGetAttribute(&block_grid_max[2], cudaDevAttrMaxGridDimZ, device_id));
  check(cudaDeviceGetAttribute(&warp_size, cudaDevAttrWarpSize, device_id));
  check(cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerBlock, device_id));
  max_warps_per_block = threads / warp_size;
  return 0;
}

}  // namespace hamr

#endif
#endif
