// The tcp wire: active messages over TCP sockets, between nodes.
#pragma once

#include <memory>

#include "runtime/transport/am/am_wire.hpp"
#include "runtime/transport/wire_context.hpp"

namespace hmc::transport {

/// Throws Error{unavailable} if no sockets can be created.
std::unique_ptr<am::AmWire> make_tcp_wire(const am::Options& options);
std::unique_ptr<Wire> make_tcp_wire(const WireContext& context);

}  // namespace hmc::transport
