// Devices: the device side of a rank. OpenStreams: a team's work on device streams, which Runtime::close waits for.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/base/status.hpp"

namespace hmc::rma {

class DeviceAccess;
class WindowCore;

class OpenStreams {
 public:
  OpenStreams(const OpenStreams&) = delete;
  OpenStreams& operator=(const OpenStreams&) = delete;
  /// Waits, at most for the job's timeout, for the work of earlier calls in this rank's streams. This rank makes no
  /// further calls on streams. When all ranks have returned, their memory may be freed.
  virtual base::Status complete_streams() noexcept = 0;
  /// Called after complete_streams(). Returns an error if the ranks' calls differ or a call failed on a rank, unless
  /// this rank has already reported it to its user.
  virtual base::Status compare() const noexcept = 0;

 protected:
  OpenStreams() = default;
  ~OpenStreams() = default;
};

/// runtime/device implements it, the fabric owns it. One thread at a time.
class Devices {
 public:
  virtual ~Devices() = default;
  /// The device side of a window, which outlives it.
  virtual std::unique_ptr<DeviceAccess> access(WindowCore& core) = 0;

  // ---- the streams of all teams
  void add(OpenStreams& streams) { streams_.push_back(&streams); }
  void remove(const OpenStreams& streams) noexcept { std::erase(streams_, &streams); }
  std::span<OpenStreams* const> open_streams() const noexcept { return streams_; }

 private:
  std::vector<OpenStreams*> streams_;
};

}  // namespace hmc::rma
