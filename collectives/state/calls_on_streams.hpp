// CallsOnStreams: how a team's collectives in the order of devices' streams are carried out.
#pragma once

#include <cstddef>

#include <hmc/types.hpp>

namespace hmc::collectives {

/// One thread at a time. Work put in by several calls runs in the calls' order, on whatever streams.
class CallsOnStreams {
 public:
  CallsOnStreams() = default;
  CallsOnStreams(const CallsOnStreams&) = delete;
  CallsOnStreams& operator=(const CallsOnStreams&) = delete;
  virtual ~CallsOnStreams() = default;

  // Throw Error. Nothing here waits, unless a call fails.
  virtual void allreduce(void* stream, const void* in, void* out, std::size_t count, DType type, Op op) = 0;
  virtual void barrier(void* stream, const void* buffer) = 0;

  /// Collective. What the streams hold comes first, until the job's deadline. Throws Error on every rank where ranks
  /// called different things or one failed, unless all users know it, and where a rank never came; then the streams go
  /// on all the same.
  virtual void close() = 0;
};

}  // namespace hmc::collectives
