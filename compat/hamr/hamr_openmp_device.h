// OpenMP's devices, in code that is compiled for OpenMP. Functions return 0.
#ifndef hamr_openmp_device_h
#define hamr_openmp_device_h

#include <hamr_config.h>

#if defined(HAMR_ENABLE_OPENMP)
#include <omp.h>

namespace hamr {

inline int get_openmp_device_identifier(int& dev_id) {
  dev_id = 0;
  return 0;
}
inline int get_openmp_host_identifier(int& dev_id) {
  dev_id = omp_get_initial_device();
  return 0;
}
inline int get_active_openmp_device(int& dev_id) {
  dev_id = omp_get_default_device();
  return 0;
}
inline int set_active_openmp_device(int dev_id) {
  omp_set_default_device(dev_id);
  return 0;
}
/// OpenMP can't tell the device of an address: -1.
inline int get_openmp_device(const void*, int& device_id) {
  device_id = 0;
  return -1;
}

/// The device is the default one in this scope.
class activate_openmp_device {
 public:
  explicit activate_openmp_device(int id) : before_(omp_get_default_device()) { omp_set_default_device(id); }
  ~activate_openmp_device() { omp_set_default_device(before_); }
  activate_openmp_device(const activate_openmp_device&) = delete;
  activate_openmp_device& operator=(const activate_openmp_device&) = delete;

 private:
  int before_;
};

}  // namespace hamr

#endif
#endif
