// The wires of this build.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/env.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/node_link.hpp"
#include "runtime/base/wait.hpp"
#include "runtime/transport/wire.hpp"

namespace hmc::transport {

struct WireInfo {
  std::string name;
  bool available = false;
  std::string why;
};
/// What this build and machine have, in the order of preference; opens nothing.
std::vector<WireInfo> list_wires();

/// The wire that ranks of different nodes take by themselves. `one_machine`: the nodes are pretended.
std::string_view wire_between_nodes(bool one_machine);

/// What a wire may need of its job.
struct WireContext {
  int rank = 0;
  int size = 1;
  int local_index = 0;
  bool several_nodes = false;  ///< some peer is on another (pretended) node
  bool one_machine = true;     ///< all ranks share a kernel, so "network" must not mean shared memory
  bool one_network = false;    ///< all ranks share a machine and its loopback interface
  base::NodeLink* node_link = nullptr;
  base::Waiter* waiter = nullptr;
  const base::Log* log = nullptr;
  const base::Env* env = nullptr;
};

/// The wires that this job needs, best first: only the forced one if HMC_TRANSPORT names one. Throws
/// Error{unavailable} if a forced or needed wire can't be had.
std::vector<std::unique_ptr<Wire>> make_wires(const WireContext& context);

}  // namespace hmc::transport
