#include "runtime/transport/rdma/verbs_wire.hpp"

#include <hmc/error.hpp>

#include "runtime/transport/rdma/rdma_wire.hpp"

namespace hmc::transport {

std::unique_ptr<Wire> make_verbs_wire(const WireContext& context) {
  rdma::Options options;
  options.rank = context.rank;
  options.size = context.size;
  options.device = context.env->rdma_device;
  options.gid_index = context.env->rdma_gid;
  options.queue_pairs = context.env->rdma_queue_pairs;
  options.timeout_ns = context.env->timeout.count();
  options.waiter = context.waiter;
  if (context.log != nullptr) options.log = *context.log;
  return std::make_unique<rdma::RdmaWire>(options);
}

VerbsState verbs_state() {
  try {
    const base::Env env = base::Env::from_process();
    return {true, rdma::Device(env.rdma_device, env.rdma_gid, base::Log(base::LogLevel::error)).description()};
  } catch (const Error& error) {
    return {false, error.detail().message};
  }
}

}  // namespace hmc::transport
