// Launches of HIP kernels over flat arrays, in code that hipcc compiles. Functions return 0 and throw hmc::Error.
#ifndef hamr_hip_launch_h
#define hamr_hip_launch_h

#include <hamr_launch.h>

#if defined(__HIPCC__) || defined(__HIP__)
#include <hip/hip_runtime.h>

#include <hamr_launch_blocks.h>

namespace hamr {

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

}  // namespace hamr

#endif
#endif
