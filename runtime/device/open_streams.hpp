// OpenStreams: a team's work on device streams that Runtime::close waits for. Also the checks common to all
// implementations of such calls.
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "runtime/memory/pointer_lookup.hpp"
#include "runtime/rma/team_core.hpp"

namespace hmc::rma {

/// Registered in Fabric::open_streams while it is open.
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

/// Returns invalid_argument if the buffer is memory of a device other than `owner`'s.
base::Status lies_with(const memory::Owner& owner, const void* buffer) noexcept;

/// Collective. Each rank passes the reason why it can't execute calls on streams, or an empty text. Returns the reason
/// of the lowest such rank; empty if all ranks can.
std::string first_objection(TeamCore& team, const std::string& mine);
/// Error{unsupported}.
[[noreturn]] void throw_objection(const Fabric& fabric, const std::string& objection);

/// Time limit for streams that no longer wait for a peer.
inline constexpr std::chrono::seconds soon_over{2};
/// Polls until `done()` is true; returns false at the limit. Doesn't use the job's Waiter, so destructors may call it.
template <typename Done> bool comes_true(std::chrono::nanoseconds within, Done&& done) noexcept {
  const auto limit = base::Deadline::after(within);
  while (!done()) {
    if (limit.expired()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

}  // namespace hmc::rma
