#include "runtime/transport/wires.hpp"

#include <fmt/format.h>

#include <hmc/error.hpp>

#include "runtime/transport/shm/shm_wire.hpp"
#ifdef HMC_HAVE_UCX
#include "runtime/transport/ucx/ucx_wire.hpp"
#endif

namespace hmc::transport {

namespace {

std::unique_ptr<Wire> make_ucx([[maybe_unused]] const WireContext& context) {
#ifdef HMC_HAVE_UCX
  return make_ucx_wire(context);
#else
  throw Error(Code::unavailable, "wires", "this build has no ucx wire", "build it with libucx-dev installed");
#endif
}

}  // namespace

std::vector<WireInfo> list_wires() {
  std::vector<WireInfo> wires{{"shm", true, "memory of ranks on the same node"}};
#ifdef HMC_HAVE_UCX
  wires.push_back({"ucx", true, ucx_description()});
#else
  wires.push_back({"ucx", false, "built without libucx-dev"});
#endif
  return wires;
}

std::vector<std::unique_ptr<Wire>> make_wires(const WireContext& context) {
  const std::string& forced = context.env->transport;
  std::vector<std::unique_ptr<Wire>> wires;
  if (forced.empty() || forced == "shm")
    wires.push_back(std::make_unique<ShmWire>(context.rank, *context.node_link, *context.waiter));
  if (forced == "ucx" || (forced.empty() && context.several_nodes)) wires.push_back(make_ucx(context));
  return wires;
}

}  // namespace hmc::transport
