// The implementation of DeviceAccess.
#pragma once

#include <memory>

#include "runtime/rma/device_access.hpp"

namespace hmc::device {

/// `core` outlives the result.
std::unique_ptr<rma::DeviceAccess> make_device_access(rma::WindowCore& core);

}  // namespace hmc::device
