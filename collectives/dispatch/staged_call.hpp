// A call whose buffers the host can't access: staging copies in host memory replace them.
#pragma once

#include <cstddef>
#include <memory>

#include "collectives/state/calls.hpp"
#include "runtime/device/host_copies.hpp"

namespace hmc::collectives {

struct CallBuffers {
  const void* in;
  std::size_t in_bytes;
  void* out;
  std::size_t out_bytes;
  rma::Output output;  ///< how the output is copied back
};
CallBuffers buffers_of(const OpenTeam& team, const CollectiveArgs& args);

using Copies = std::unique_ptr<rma::HostCopies>;
/// Allocates the copies; copies nothing yet. Throws Error.
Copies make_room(const OpenTeam& team, const char* operation, const CallBuffers& buffers);
/// Copies the input to the host. Other ranks may be in the call already: on failure this rank reports the failure to
/// them, and throws Error.
void take(const OpenTeam& team, const char* operation, const rma::HostCopies& copies);
/// make_room and take, at the start of a call. Failures of both are reported to the other ranks.
Copies stage(const OpenTeam& team, const char* operation, const CallBuffers& buffers);
/// After the call: copies the output to the caller's buffer. Throws Error.
void finish(const OpenTeam& team, const char* operation, const rma::HostCopies& copies);

/// The call with the copies as its buffers.
inline CollectiveArgs of_copies(const CollectiveArgs& args, const rma::HostCopies& copies) {
  CollectiveArgs staged = args;
  staged.input = copies.in();
  staged.output = copies.out();
  return staged;
}

}  // namespace hmc::collectives
