// DeviceHandle: the description of a window for kernels. It is plain data, passed to a kernel by value. The kernel
// constructs a DeviceWindow (<hmc/hmc_device.cuh>) from it.
#pragma once

namespace hmc {

/// The addresses of a window's parts on one device. Created by Window::device_handle.
struct DeviceHandle {
  struct Part {
    unsigned char* address;        ///< the first byte of the rank's part; null if the device can't access it
    unsigned long long bytes;      ///< the size of the rank's part
    const unsigned char* context;  ///< the rank's user context; null if there is none
  };
  int rank = -1;
  int size = 0;
  const Part* parts = nullptr;  ///< by rank, in device memory
  /// If not null, the device can access all parts, all parts have the size `bytes`, and rank r's part is at
  /// base + r * stride.
  unsigned char* base = nullptr;
  unsigned long long stride = 0;
  unsigned long long bytes = 0;
};

}  // namespace hmc
