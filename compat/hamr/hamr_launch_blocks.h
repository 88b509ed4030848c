// What launches of CUDA's and HIP's kernels have in common, in code that nvcc or hipcc compiles. hamr_cuda_launch.h and
// hamr_hip_launch.h include it after the vendor's header.
#ifndef hamr_launch_blocks_h
#define hamr_launch_blocks_h

#include <hamr_launch.h>

#if defined(__CUDACC__) || defined(__HIPCC__) || defined(__HIP__)
#include <cstddef>

namespace hamr {

/// The element of this thread.
inline __device__ unsigned long thread_id_to_array_index() {
  return threadIdx.x + blockDim.x * (blockIdx.x + blockIdx.y * static_cast<unsigned long>(gridDim.x) +
                                     blockIdx.z * static_cast<unsigned long>(gridDim.x) * gridDim.y);
}
inline __device__ int index_is_valid(unsigned long index, unsigned long max_index) { return index < max_index; }

/// Of the vendor. device_id -1: the current device.
inline int get_launch_props(int device_id, int* block_grid_max, int& warp_size, int& max_warps_per_block);

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
