// The device functions of HMC's older library, for the vendor for which the program is compiled: ENABLE_CUDA,
// ENABLE_ROCM or ENABLE_MUSA. Without one, and for Cambricon, they return UNSUPPORT: this library selects devices by
// itself, so programs need none of them.
#pragma once

#include <cstdint>
#include <string>

#include <hmc.h>
#include <hmc/older/src/utils/log.h>

#if defined(ENABLE_CUDA)
#define HMC_OLDER_GPU(name) cuda##name
#elif defined(ENABLE_ROCM)
#define HMC_OLDER_GPU(name) hip##name
#elif defined(ENABLE_MUSA)
#define HMC_OLDER_GPU(name) musa##name
#endif

namespace hmc {

#if defined(HMC_OLDER_GPU)
namespace older_detail {
inline status_t status_of(const char* call, HMC_OLDER_GPU(Error_t) error) {
  if (error == HMC_OLDER_GPU(Success)) return status_t::SUCCESS;
  logError("%s failed with error code %d", call, static_cast<int>(error));
  return status_t::ERROR;
}
}  // namespace older_detail
#define HMC_OLDER_RETURN(name, ...) return older_detail::status_of(#name, HMC_OLDER_GPU(name)(__VA_ARGS__))
#else
#define HMC_OLDER_RETURN(name, ...) return status_t::UNSUPPORT
#endif

inline status_t gpuInit() { HMC_OLDER_RETURN(Free, nullptr); }
inline status_t gpuSetDevice(int device_id) {
  (void)device_id;
  HMC_OLDER_RETURN(SetDevice, device_id);
}
inline status_t gpuGetDeviceCount(int* device_count) {
  (void)device_count;
  HMC_OLDER_RETURN(GetDeviceCount, device_count);
}
inline status_t gpuGetDeviceMemory(std::uint64_t* free_size, std::uint64_t* total_size) {
  (void)free_size, (void)total_size;
  HMC_OLDER_RETURN(MemGetInfo, free_size, total_size);
}
/// The text has at most 15 characters.
inline status_t gpuGetPcieBusId(std::string* bus_id, int device_id) {
  char text[16] = "";
  (void)device_id;
  const auto get = [&]() -> status_t { HMC_OLDER_RETURN(DeviceGetPCIBusId, text, sizeof text, device_id); };
  const status_t status = get();
  if (status == status_t::SUCCESS) *bus_id = text;
  return status;
}
template <typename T> status_t gpuGetDevice(T* dev, int mlu_ordinal = 0) {
  (void)dev, (void)mlu_ordinal;
  HMC_OLDER_RETURN(GetDevice, dev);
}
// These vendors have no contexts that a program manages.
template <typename T> status_t gpuSetCtx(T&) { return status_t::UNSUPPORT; }
template <typename T, typename D> status_t gpuCreateContext(T*, D) { return status_t::UNSUPPORT; }
template <typename T> status_t gpuFreeContext(T) { return status_t::UNSUPPORT; }

#undef HMC_OLDER_RETURN

}  // namespace hmc
