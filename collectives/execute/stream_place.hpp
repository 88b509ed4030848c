// StreamPlace: where a started collective stands in a device's stream.
#pragma once

#include "runtime/base/status.hpp"

namespace hmc::collectives {

/// It begins once the stream has come there, and lets the stream go on when it is over or given up. Under Background's
/// lock.
class StreamPlace {
 public:
  virtual ~StreamPlace() = default;
  /// in_progress while the stream hasn't come there. Never waits.
  virtual base::Status reached() noexcept = 0;
  virtual void go_on() noexcept = 0;
};

}  // namespace hmc::collectives
