// Stream and Event: order of work on a device.
#pragma once

#include <memory>

#include "runtime/base/status.hpp"

namespace hmc::memory {

class Stream;

/// A point in a stream. One thread at a time.
class Event {
 public:
  virtual ~Event() = default;
  /// Records the point after all work that is queued in `stream` now.
  virtual base::Status record(Stream& stream) noexcept = 0;
  /// Waits until the stream has passed the recorded point. Returns at once if nothing was recorded.
  virtual base::Status synchronize() noexcept = 0;
  /// in_progress until the stream has passed the point.
  virtual base::Status query() noexcept = 0;
  virtual void* native() const noexcept = 0;
};

/// Blocks a stream until open(). Any thread may call open(); the destructor also opens the gate.
class Gate {
 public:
  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  virtual ~Gate() = default;
  virtual void open() noexcept = 0;
};

/// A queue of work on one device. One thread at a time. The destructor waits for the queued work, unless the stream is
/// borrowed.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual int device() const noexcept = 0;
  /// The vendor's handle.
  virtual void* native() const noexcept = 0;
  virtual base::Status synchronize() noexcept = 0;
  /// Returns in_progress while the stream has unfinished work.
  virtual base::Status query() noexcept = 0;
  /// Work queued later waits for the event's recorded point. If the stream is a device's, the host doesn't wait.
  virtual base::Status wait(Event& event) noexcept = 0;
  /// Work queued later waits until `gate` is opened. See Provider::why_no_gates.
  virtual base::Status stop(std::unique_ptr<Gate>& gate) noexcept = 0;
};

}  // namespace hmc::memory
