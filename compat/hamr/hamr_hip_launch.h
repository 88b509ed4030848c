// Launches of HIP kernels over flat arrays, in code that hipcc compiles. Functions return 0 and throw hmc::Error.
#ifndef hamr_hip_launch_h
#define hamr_hip_launch_h

#include <hamr_launch.h>

#if defined(__HIPCC__) || defined(__HIP__)
#include <cstddef>

#include <hip/hip_runtime.h>

namespace hamr {

/// The element of this thread.
inline __device__ unsigned long thread_id_to_array_index() {
  return threadIdx.x + blockDim.x * (blockIdx.x + blockIdx.y * static_cast<unsigned long>(gridDim.x) +
                                     blockIdx.z * static_cast<unsigned long>(gridDim.x) * gridDim.y);
}
inline __device__ int index_is_valid(unsigned long index, unsigned long max_index) { return index < max_index; }

/// device_id -1: the current device.
inline int get_launch_props(int device_id, int* block_grid_max, int& warp_size, int& max_warps_per_block) {
  const auto check = [](hipError_t result) {
    detail::check_launch(result == hipSuccess, "hamr::get_launch_props", hipGetErrorString(result));
  };
  if (device_id < 0) check(hipGetDevice(&device_id));
  int threads = 0;
  check(hipDeviceGetAttribute(&block_grid_max[0], hipDeviceAttributeMaxGridDimX, device_id));
  check(hipDeviceGetAttribute(&block_grid_max[1], hipDeviceAttributeMaxGridDimY, device_id));
  check(hipDeviceGetAttribute(&block_grid_max[2], hipDeviceAttributeMaxGridDimZ, device_id));
  check(hipDeviceGetAttribute(&warp_size, hipDeviceAttributeWarpSize, device_id));
  check(hipDeviceGetAttribute(&threads, hipDeviceAttributeMaxThreadsPerBlock, device_id));
  max_warps_per_block = threads / warp_size;
  return 0;
}

inline int partition_thread_blocks(std::size_t array_size, int warps_per_block, int warp_size, int* block_grid_max,
                                   dim3& block_grid, int& n_blocks, dim3& thread_grid) {
  const detail::grid grid = detail::partition(array_size, warps_per_block, warp_size, block_grid_max);
  block_grid = dim3(grid.x, grid.y, grid.z);
  thread_grid = dim3(grid.threads, 1, 1);
  n_blocks = grid.blocks;
  return 0;
}
inline int partition_thread_blocks(int device_id, std::size_t array_size, int warps_per_block, dim3& block_grid,
                                   int& n_blocks, dim3& thread_grid) {
  int most[3] = {}, warp_size = 0, most_warps = 0;
  get_launch_props(device_id, most, warp_size, most_warps);
  return partition_thread_blocks(array_size, warps_per_block, warp_size, most, block_grid, n_blocks, thread_grid);
}

}  // namespace hamr

#endif
#endif
