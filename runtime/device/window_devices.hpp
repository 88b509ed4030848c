// The implementation of rma::Devices and rma::DeviceAccess.
#pragma once

#include <memory>

#include "runtime/rma/devices.hpp"

namespace hmc::device {

std::unique_ptr<rma::Devices> make_devices();

}  // namespace hmc::device
