// CallsOnStreams: a team's collectives in the order of device streams.
#pragma once

#include "collectives/args/collective_args.hpp"

namespace hmc::collectives {

/// One thread at a time. Calls execute in the order in which they are made, on any streams.
class CallsOnStreams {
 public:
  CallsOnStreams() = default;
  CallsOnStreams(const CallsOnStreams&) = delete;
  CallsOnStreams& operator=(const CallsOnStreams&) = delete;
  virtual ~CallsOnStreams() = default;

  // Throw Error. They don't wait, unless a call fails.
  virtual void allreduce(void* stream, const CollectiveArgs& args) = 0;
  virtual void barrier(void* stream, const void* buffer) = 0;

  /// Collective. First completes the work in the streams, until the job's deadline. Throws Error on every rank if ranks
  /// called different collectives or a call failed, unless all callers have that error already; or if a rank is
  /// missing. The streams continue in every case.
  virtual void close() = 0;
};

}  // namespace hmc::collectives
