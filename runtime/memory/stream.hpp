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
  /// The point is behind all that `stream` holds now.
  virtual base::Status record(Stream& stream) noexcept = 0;
  /// Waits until the recorded point was passed; at once when nothing was recorded.
  virtual base::Status synchronize() noexcept = 0;
  /// in_progress while the point wasn't passed.
  virtual base::Status query() noexcept = 0;
  virtual void* native() const noexcept = 0;
};

/// What a stream stops at until the host opens it: any thread, at the latest when it goes.
class Gate {
 public:
  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  virtual ~Gate() = default;
  virtual void open() noexcept = 0;
};

/// A queue of work on one device. One thread at a time. Destroying it waits for what it holds, unless
/// it is borrowed.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual int device() const noexcept = 0;
  /// The vendor's handle.
  virtual void* native() const noexcept = 0;
  virtual base::Status synchronize() noexcept = 0;
  /// in_progress while it holds work.
  virtual base::Status query() noexcept = 0;
  /// What is put in later waits for the event's recorded point; the host doesn't.
  virtual base::Status wait(Event& event) noexcept = 0;
  /// What is put in later waits until `gate` is opened. See Provider::why_no_gates.
  virtual base::Status stop(std::unique_ptr<Gate>& gate) noexcept = 0;
};

}  // namespace hmc::memory
