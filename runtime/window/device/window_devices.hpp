// The implementation of DeviceAccess.
#pragma once

#include <memory>

#include "runtime/window/device_access.hpp"

namespace hmc::window {

/// `core` outlives the result.
std::unique_ptr<DeviceAccess> make_device_access(Core& core);

}  // namespace hmc::window
