// CUDA's devices, in code that nvcc compiles. Functions return 0 and throw hmc::Error.
#ifndef hamr_cuda_device_h
#define hamr_cuda_device_h

#include <hamr_config.h>

#if defined(HAMR_ENABLE_CUDA)
#include <cuda_runtime.h>

#include <hmc/error.hpp>
#include <hmc/place.hpp>

namespace hamr {

inline int get_cuda_device_identifier(int& dev_id) {
  dev_id = 0;
  return 0;
}
inline int get_cuda_host_identifier(int& dev_id) {
  dev_id = -1;
  return 0;
}
inline int get_active_cuda_device(int& dev_id) {
  if (const cudaError_t result = cudaGetDevice(&dev_id); result != cudaSuccess)
    throw hmc::Error(hmc::Code::error, "hamr::get_active_cuda_device", cudaGetErrorString(result));
  return 0;
}
inline int set_active_cuda_device(int dev_id) {
  if (const cudaError_t result = cudaSetDevice(dev_id); result != cudaSuccess)
    throw hmc::Error(hmc::Code::error, "hamr::set_active_cuda_device", cudaGetErrorString(result));
  return 0;
}
/// The device of an address; -1 for host memory, page-locked memory included.
inline int get_cuda_device(const void* ptr, int& device_id) {
  const hmc::Place place = hmc::Place::of(ptr);
  const bool on_device = place.allocator == hmc::Allocator::cuda || place.allocator == hmc::Allocator::cuda_managed;
  device_id = on_device ? place.device : -1;
  return 0;
}

/// The device is current in this scope.
class activate_cuda_device {
 public:
  explicit activate_cuda_device(int id) {
    get_active_cuda_device(before_);
    if (id >= 0) set_active_cuda_device(id);
  }
  ~activate_cuda_device() { (void)cudaSetDevice(before_); }
  activate_cuda_device(const activate_cuda_device&) = delete;
  activate_cuda_device& operator=(const activate_cuda_device&) = delete;

 private:
  int before_ = 0;
};

}  // namespace hamr

#endif
#endif
