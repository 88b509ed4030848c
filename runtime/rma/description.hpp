// Description: the properties of a rank's part, which all ranks exchange when they create a window.
#pragma once

#include <cstdint>
#include <vector>

#include <hmc/error.hpp>

#include "runtime/base/bytes.hpp"

namespace hmc::rma {

/// The failure if the rank has no part, the part's size, and a key per wire.
struct Description {
  ErrorDetail failure;  // code success: none
  std::uint64_t bytes = 0;
  std::uint64_t next_id = 0;
  std::vector<base::Bytes> keys;
  base::Bytes device;        // a DeviceOffer if the part is device memory
  std::uint64_t share = 0;   // number of the round that passes descriptors; a node's first rank sets it
  std::vector<int> helpers;  // in the second exchange: world ranks whose agents this rank needs
};

}  // namespace hmc::rma
