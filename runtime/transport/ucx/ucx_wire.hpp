// The ucx wire: between nodes, by UCX's active messages over whatever network it finds.
#pragma once

#include <memory>
#include <string>

#include "runtime/transport/am/am_wire.hpp"
#include "runtime/transport/wire_context.hpp"

namespace hmc::transport {

/// Loads UCX. `transports`: what UCX_TLS would say, unless the user says it ("tcp", "^sm"); empty: UCX chooses.
/// Throws Error{unavailable} where it can't be had or finds no network. README.md says why messages and not UCX's own
/// put and get.
std::unique_ptr<am::AmWire> make_ucx_wire(const am::Options& options, const std::string& transports);
/// As the job needs it: ranks of one machine don't take UCX's shared memory for a network.
std::unique_ptr<Wire> make_ucx_wire(const WireContext& context);
/// The version found, or why there is none; loads UCX.
std::string ucx_description();

}  // namespace hmc::transport
