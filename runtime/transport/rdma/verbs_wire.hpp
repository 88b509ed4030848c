// The factory of the verbs wire.
#pragma once

#include <memory>
#include <string>

#include "runtime/transport/wire.hpp"
#include "runtime/transport/wire_context.hpp"

namespace hmc::transport {

/// Throws Error{unavailable}, or invalid_config for the settings HMC_RDMA_*.
std::unique_ptr<Wire> make_verbs_wire(const WireContext& context);

/// For hmcinfo: whether the wire can be used on this machine, and its device or the reason.
struct VerbsState {
  bool is_usable = false;
  std::string why;
};
VerbsState verbs_state();

}  // namespace hmc::transport
