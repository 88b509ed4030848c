// Arguments of the test kernels.
#pragma once

#include <hmc/device_handle.hpp>

struct RingArguments {
  hmc::DeviceHandle window;
  const void* source;         ///< source of a put, destination of a get; on this device
  unsigned long long bytes;   ///< size of source
  unsigned long long to;      ///< offset in the next rank's part
  unsigned long long signal;  ///< offset of the signal word
  unsigned long long value;
  unsigned long long width;    ///< fake driver: threads per row of the block; 0: all in one row
  unsigned long long* report;  ///< words in device memory; each kernel defines them
};
