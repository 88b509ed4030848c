// The wires of this build, and those that a job takes.
#pragma once

#include <memory>
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
/// What this build and machine have, in the order of preference; opens nothing.
std::vector<WireInfo> list_wires();

/// The wire that ranks of different nodes take by themselves. `one_machine`: the nodes are pretended.
std::string_view wire_between_nodes(bool one_machine);

/// The wires that this job needs, best first: only the forced one if HMC_TRANSPORT names one. Throws
/// Error{unavailable} if a forced or needed wire can't be had.
std::vector<std::unique_ptr<transport::Wire>> make_wires(const transport::WireContext& context);

}  // namespace hmc::job
