// Description: what every rank tells every other of its part of a window that is being made.
#pragma once

#include <cstdint>
#include <vector>

#include <hmc/error.hpp>

#include "runtime/base/bytes.hpp"

namespace hmc::window {

/// Whether it has one, how large, and a key per wire.
struct Description {
  ErrorDetail failure;  // code success: none
  std::uint64_t bytes = 0;
  std::uint64_t next_id = 0;
  std::vector<base::Bytes> keys;
  base::Bytes device;        // a DeviceOffer, where the part is device memory
  std::uint64_t share = 0;   // names a round of descriptors, where the first of a node's ranks says it
  std::vector<int> helpers;  // once all have tried: world ranks whose agents this one needs
};

}  // namespace hmc::window
