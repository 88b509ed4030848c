// CallsOnStreams: a team's collectives in the order of device streams.
#pragma once

#include "collectives/args/collective_args.hpp"

namespace hmc::collectives {

/// One thread at a time. Calls execute in call order, even on different streams.
class CallsOnStreams {
 public:
  CallsOnStreams() = default;
  CallsOnStreams(const CallsOnStreams&) = delete;
  CallsOnStreams& operator=(const CallsOnStreams&) = delete;
  virtual ~CallsOnStreams() = default;

  // Throw Error. Non-blocking, except after a failure.
  virtual void allreduce(void* stream, const CollectiveArgs& args) = 0;
  virtual void barrier(void* stream, const void* buffer) = 0;

  /// Collective. First waits for the work in the streams, until the job's deadline. The streams continue in every case.
  /// Throws Error on every rank in these cases:
  /// - ranks called different collectives or a call failed, and not all callers have received that error;
  /// - a rank is missing.
  virtual void close() = 0;
};

}  // namespace hmc::collectives
