// A call whose buffers the host can't reach: copies in host memory stand in for them.
#pragma once

#include <cstddef>
#include <memory>

#include "collectives/state/calls.hpp"
#include "runtime/window/device/host_copies.hpp"

namespace hmc::collectives {

struct CallBuffers {
  const void* in;
  std::size_t in_bytes;
  void* out;
  std::size_t out_bytes;
  window::Output output;  ///< what becomes of it
};
CallBuffers buffers_of(const OpenTeam& team, const CollectiveArgs& args);

using Copies = std::unique_ptr<window::HostCopies>;
/// Room for them, and nothing copied yet. Throws Error.
Copies make_room(const OpenTeam& team, const char* operation, const CallBuffers& buffers);
/// Copies what the call reads. Others may be in the call already: who can't copy lets them hear that it won't come, and
/// throws Error.
void take(const OpenTeam& team, const char* operation, const window::HostCopies& copies);
/// Both, as a call begins: they hear of that as well.
Copies stage(const OpenTeam& team, const char* operation, const CallBuffers& buffers);
/// The call is over: the output goes where the caller wanted it. Throws Error.
void finish(const OpenTeam& team, const char* operation, const window::HostCopies& copies);

/// The call, of the copies.
inline CollectiveArgs of_copies(const CollectiveArgs& args, const window::HostCopies& copies) {
  CollectiveArgs staged = args;
  staged.input = copies.in();
  staged.output = copies.out();
  return staged;
}

}  // namespace hmc::collectives
