// The wires that this build has, and the wires that a job uses.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/transport/wire.hpp"
#include "runtime/transport/wire_context.hpp"

namespace hmc::job {

struct WireInfo {
  std::string name;
  bool available = false;
  std::string why;
};
/// The wires of this build and machine, in order of preference. Doesn't open a device or a library.
std::vector<WireInfo> list_wires();

/// The default wire between nodes. `one_machine`: the nodes are emulated.
std::string_view wire_between_nodes(bool one_machine);

/// HMC_TLS=1: the key of the wires' connections. Throws Error{invalid_config} without HMC_SECRET.
std::optional<base::TlsKey> tls_key(const base::Env& env);

/// The wires that this job needs, in order of preference. Only HMC_TRANSPORT's wire if that is set. Throws
/// Error{unavailable} if a wire that is needed, or forced by HMC_TRANSPORT, isn't available.
std::vector<std::unique_ptr<transport::Wire>> make_wires(const transport::WireContext& context);

/// The network wires of an Endpoint, in order of preference: those of `names` that are available. `why_not` gets a line
/// for each other one. Throws Error{unavailable} if none is. `channels`: queue pairs per peer of the verbs wire, over
/// which it distributes large transfers. The other wires have one connection per peer: one thread of each side moves
/// their bytes, so more connections don't add bandwidth.
std::vector<std::unique_ptr<transport::OpenWire>> make_open_wires(const std::vector<std::string>& names, int most_peers,
                                                                  std::size_t channels, const base::Log& log,
                                                                  std::vector<std::string>& why_not);

}  // namespace hmc::job
