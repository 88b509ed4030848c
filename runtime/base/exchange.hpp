// Exchange: what collective construction needs of the control plane.
#pragma once

#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/deadline.hpp"

namespace hmc::base {

/// Cold path: these throw hmc::Error. Every rank calls the same ones in the same order.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  /// Everyone's bytes, by rank. Lengths may differ.
  virtual std::vector<Bytes> allgather(ByteView mine, Deadline deadline) = 0;
  virtual void barrier(Deadline deadline) = 0;
};

}  // namespace hmc::base
