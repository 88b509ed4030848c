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
  /// Waits, until the job's deadline, for the work of earlier calls in this rank's streams. Afterwards this rank makes
  /// no further calls on streams. When all ranks have returned from it, their memory may be freed.
  virtual base::Status run_dry() noexcept = 0;
  /// After run_dry(): an error if ranks made different calls or a call failed on a rank, unless this rank's user has
  /// been notified already.
  virtual base::Status compare() const noexcept = 0;

 protected:
  OpenStreams() = default;
  ~OpenStreams() = default;
};

/// invalid_argument if the buffer is memory of another device than `owner`'s.
base::Status lies_with(const memory::Owner& owner, const void* buffer) noexcept;

/// Collective. Returns the reason against calls on streams of the lowest rank that has one; empty if no rank has one.
std::string first_objection(TeamCore& team, const std::string& mine);
/// Error{unsupported}.
[[noreturn]] void throw_objection(const Fabric& fabric, const std::string& objection);

/// Time limit for streams that wait for no peer any more.
inline constexpr std::chrono::seconds soon_over{2};
/// Polls until `done()` is true; false at the limit. Doesn't use the job's Waiter, so destructors may call it.
template <typename Done> bool comes_true(std::chrono::nanoseconds within, Done&& done) noexcept {
  const auto limit = base::Deadline::after(within);
  while (!done()) {
    if (limit.expired()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

}  // namespace hmc::rma
