// HIP's devices, in code that hipcc compiles. Functions return 0 and throw hmc::Error.
#ifndef hamr_hip_device_h
#define hamr_hip_device_h

#include <hamr_config.h>

#if defined(HAMR_ENABLE_HIP)
#include <hip/hip_runtime.h>

#include <hmc/error.hpp>
#include <hmc/place.hpp>

namespace hamr {

inline int get_hip_device_identifier(int& dev_id) {
  dev_id = 0;
  return 0;
}
inline int get_hip_host_identifier(int& dev_id) {
  dev_id = -1;
  return 0;
}
inline int get_active_hip_device(int& dev_id) {
  if (const hipError_t result = hipGetDevice(&dev_id); result != hipSuccess)
    throw hmc::Error(hmc::Code::error, "hamr::get_active_hip_device", hipGetErrorString(result));
  return 0;
}
inline int set_active_hip_device(int dev_id) {
  if (const hipError_t result = hipSetDevice(dev_id); result != hipSuccess)
    throw hmc::Error(hmc::Code::error, "hamr::set_active_hip_device", hipGetErrorString(result));
  return 0;
}
/// The device of an address; -1 for host memory, page-locked memory included.
inline int get_hip_device(const void* ptr, int& device_id) {
  const hmc::Place place = hmc::Place::of(ptr);
  const bool on_device = place.allocator == hmc::Allocator::hip || place.allocator == hmc::Allocator::hip_managed;
  device_id = on_device ? place.device : -1;
  return 0;
}

/// The device is current in this scope.
class activate_hip_device {
 public:
  explicit activate_hip_device(int id) {
    get_active_hip_device(before_);
    if (id >= 0) set_active_hip_device(id);
  }
  ~activate_hip_device() { (void)hipSetDevice(before_); }
  activate_hip_device(const activate_hip_device&) = delete;
  activate_hip_device& operator=(const activate_hip_device&) = delete;

 private:
  int before_ = 0;
};

}  // namespace hamr

#endif
#endif
