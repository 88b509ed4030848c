// The factory of the verbs wire.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/env.hpp"
#include "runtime/base/log.hpp"
#include "runtime/transport/wire.hpp"
#include "runtime/transport/wire_context.hpp"

namespace hmc::transport {

/// Throws Error{unavailable}, or invalid_config for the settings HMC_RDMA_*.
std::unique_ptr<Wire> make_verbs_wire(const WireContext& context);

/// A wire for peers outside a job; `queue_pairs` (1 to most_queue_pairs) per peer, for large transfers. Device and GID
/// are those of HMC_RDMA_DEVICE and HMC_RDMA_GID. Throws as make_verbs_wire.
inline constexpr int most_queue_pairs = 8;
std::unique_ptr<OpenWire> make_open_verbs_wire(const base::Env& env, int most_peers, int queue_pairs,
                                               const base::Log& log);

/// For hmcinfo: whether the wire can be used on this machine, and its device or the reason.
struct VerbsState {
  bool is_usable = false;
  std::string why;
};
VerbsState verbs_state();

}  // namespace hmc::transport
