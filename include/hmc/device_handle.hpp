// DeviceHandle: a window as kernels see it. Plain data, passed to a kernel by value, which uses it by
// <hmc/hmc_device.cuh>.
#pragma once

namespace hmc {

/// The ranks' parts of a window at the addresses that one device uses. From Window::device_handle.
struct DeviceHandle {
  struct Part {
    unsigned char* address;        ///< the first byte of the rank's part; null if the device can't access it
    unsigned long long bytes;      ///< the size of the rank's part
    const unsigned char* context;  ///< the rank's user context; null if there is none
  };
  int rank = -1;
  int size = 0;
  const Part* parts = nullptr;  ///< by rank, in device memory
  /// If not null: the device can access all parts, they have the same size, and rank r's starts at base + r * stride.
  unsigned char* base = nullptr;
  unsigned long long stride = 0;
  unsigned long long bytes = 0;
};

}  // namespace hmc
