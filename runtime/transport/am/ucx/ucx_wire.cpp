#include "runtime/transport/am/ucx/ucx_wire.hpp"

#include "runtime/transport/am/ucx/library.hpp"
#include "runtime/transport/am/ucx/ucx_link.hpp"

namespace hmc::transport {

std::unique_ptr<am::AmWire> make_ucx_wire(const am::Options& options, const std::string& transports) {
  return std::make_unique<am::AmWire>(options, std::make_unique<ucx::UcxLink>(options.size, transports, options.log));
}

std::unique_ptr<Wire> make_ucx_wire(const WireContext& context) {
  return make_ucx_wire(am::options_of(context), context.one_machine ? "^sm" : "");
}

std::string ucx_description() { return ucx::Library::describe(); }

}  // namespace hmc::transport
