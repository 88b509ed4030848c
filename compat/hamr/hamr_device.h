// The devices of the technology that this file is compiled for: CUDA, else HIP, else OpenMP, else the host (-1).
#ifndef hamr_device_h
#define hamr_device_h

#include <hamr_config.h>

#if defined(HAMR_ENABLE_CUDA)
#include <hamr_cuda_device.h>
#define HAMR_DEVICE_FUNCTION(before, after) before##cuda##after
#elif defined(HAMR_ENABLE_HIP)
#include <hamr_hip_device.h>
#define HAMR_DEVICE_FUNCTION(before, after) before##hip##after
#elif defined(HAMR_ENABLE_OPENMP)
#include <hamr_openmp_device.h>
#define HAMR_DEVICE_FUNCTION(before, after) before##openmp##after
#endif

namespace hamr {

// Static, because another file of the program may be compiled for another technology.
#if defined(HAMR_DEVICE_FUNCTION)
static inline int get_device_identifier(int& dev_id) { return HAMR_DEVICE_FUNCTION(get_, _device_identifier)(dev_id); }
static inline int get_host_identifier(int& dev_id) { return HAMR_DEVICE_FUNCTION(get_, _host_identifier)(dev_id); }
static inline int get_active_device(int& dev_id) { return HAMR_DEVICE_FUNCTION(get_active_, _device)(dev_id); }
static inline int set_active_device(int dev_id) { return HAMR_DEVICE_FUNCTION(set_active_, _device)(dev_id); }
static inline int get_device(const void* ptr, int& device_id) {
  return HAMR_DEVICE_FUNCTION(get_, _device)(ptr, device_id);
}
using activate_device = HAMR_DEVICE_FUNCTION(activate_, _device);
#undef HAMR_DEVICE_FUNCTION
#else
static inline int get_device_identifier(int& dev_id) { return dev_id = -1, 0; }
static inline int get_host_identifier(int& dev_id) { return dev_id = -1, 0; }
static inline int get_active_device(int& dev_id) { return dev_id = -1, 0; }
static inline int set_active_device(int) { return 0; }
static inline int get_device(const void*, int& device_id) { return device_id = -1, 0; }
struct activate_device {
  explicit activate_device(int) {}
  activate_device(const activate_device&) = delete;
  activate_device& operator=(const activate_device&) = delete;
};
#endif

}  // namespace hamr

#endif
