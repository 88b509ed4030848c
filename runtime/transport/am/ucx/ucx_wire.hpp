// The ucx wire: UCX active messages between nodes, over the network that UCX detects.
#pragma once

#include <memory>
#include <string>

#include "runtime/transport/am/am_wire.hpp"
#include "runtime/transport/wire_context.hpp"

namespace hmc::transport {

/// Loads UCX. `transports`: a value for UCX_TLS ("tcp", "^sm"), unless the user has set UCX_TLS; empty: UCX chooses.
/// Throws Error{unavailable} if UCX is missing or finds no network. README.md explains why the wire uses messages
/// instead of UCX's put and get.
std::unique_ptr<am::AmWire> make_ucx_wire(const am::Options& options, const std::string& transports);
/// Uses the job's settings. If all ranks are on one machine, UCX's shared memory is disabled, because it isn't a
/// network.
std::unique_ptr<Wire> make_ucx_wire(const WireContext& context);
/// The version found, or the reason why UCX is unavailable; loads UCX.
std::string ucx_description();

}  // namespace hmc::transport
