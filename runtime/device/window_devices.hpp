// The implementation of DeviceAccess.
#pragma once

#include <memory>

#include "runtime/rma/device_access.hpp"

namespace hmc::rma {

/// `core` outlives the result.
std::unique_ptr<DeviceAccess> make_device_access(WindowCore& core);

}  // namespace hmc::rma
