// What the test's kernels take.
#pragma once

#include <hmc/device_handle.hpp>

struct RingArguments {
  hmc::DeviceHandle window;
  const void* source;         ///< what is put, and where a get goes to: of this device
  unsigned long long bytes;   ///< of it
  unsigned long long to;      ///< where in the next rank's part
  unsigned long long signal;  ///< where the word after it is
  unsigned long long value;
  unsigned long long width;    ///< threads in a row of the block on the fake driver; 0: all
  unsigned long long* report;  ///< words of this device's, as each kernel says
};
