#include "runtime/transport/rdma/verbs_wire.hpp"

#include <fmt/format.h>

#include <algorithm>

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
  options.lost_host_s = base::Env::lost_host_s();
  options.waiter = context.waiter;
  if (context.log != nullptr) options.log = *context.log;
  return std::make_unique<rdma::RdmaWire>(options);
}

std::unique_ptr<OpenWire> make_open_verbs_wire(const base::Env& env, int most_peers, int queue_pairs,
                                               const base::Log& log) {
  // The peer has offered its address over a connection that works, so it answers soon or never.
  constexpr std::int64_t longest_connect_ns = 10'000'000'000;
  rdma::Options options;
  options.rank = -1;
  options.size = most_peers;
  options.device = env.rdma_device;
  options.gid_index = env.rdma_gid;
  options.queue_pairs = std::clamp(queue_pairs, 1, most_queue_pairs);
  options.timeout_ns = longest_connect_ns;
  options.lost_host_s = base::Env::lost_host_s();
  options.log = log;
  return std::make_unique<rdma::RdmaWire>(options);
}

VerbsState verbs_state() {
  try {
    const base::Env env = base::Env::from_process();
    const rdma::Device device(env.rdma_device, env.rdma_gid, base::Log(base::LogLevel::error));
    return {true, fmt::format("{}; device memory is staged through the host: {}", device.description(),
                              device.why_no_device_memory())};
  } catch (const Error& error) {
    return {false, error.detail().message};
  }
}

}  // namespace hmc::transport
