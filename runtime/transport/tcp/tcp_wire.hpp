// The tcp wire: between nodes, over TCP sockets of our own.
#pragma once

#include <memory>

#include "runtime/transport/am/am_wire.hpp"
#include "runtime/transport/wire_context.hpp"

namespace hmc::transport {

/// Throws Error{unavailable} if there are no sockets to be had.
std::unique_ptr<am::AmWire> make_tcp_wire(const am::Options& options);
std::unique_ptr<Wire> make_tcp_wire(const WireContext& context);

}  // namespace hmc::transport
