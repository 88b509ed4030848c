// StreamPosition: the position of a started collective in a device's stream.
#pragma once

#include "runtime/base/status.hpp"

namespace hmc::collectives {

/// The collective begins when the stream has reached this position. The stream continues when the collective is
/// complete or abandoned. Callers hold Background's lock.
class StreamPosition {
 public:
  virtual ~StreamPosition() = default;
  /// in_progress until the stream has reached the position. Never waits.
  virtual base::Status reached() noexcept = 0;
  virtual void go_on() noexcept = 0;
};

}  // namespace hmc::collectives
