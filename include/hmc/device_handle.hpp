// DeviceHandle: a window as kernels see it. Plain data, given to a kernel by value; <hmc/hmc_device.cuh> is what a
// kernel does with it.
#pragma once

namespace hmc {

struct DeviceHandle {
  struct Part {
    unsigned char* address;        ///< of the rank's first byte; null where the device doesn't reach it
    unsigned long long bytes;      ///< of its part
    const unsigned char* context;  ///< the rank's user context; null where there is none
  };
  int rank = -1;
  int size = 0;
  const Part* parts = nullptr;  ///< by rank, in the device's memory
  /// Not null: all parts are reached and have the same `bytes`, and rank r's begins at base + r * stride.
  unsigned char* base = nullptr;
  unsigned long long stride = 0;
  unsigned long long bytes = 0;
};

}  // namespace hmc
