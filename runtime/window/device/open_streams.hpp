// OpenStreams: what a team's calls on devices' streams leave for Runtime::close to wait for; and what those calls ask
// first, however they are carried out.
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "runtime/memory/pointer_lookup.hpp"
#include "runtime/window/team_core.hpp"

namespace hmc::window {

/// Stands in the fabric's list while it is open.
class OpenStreams {
 public:
  OpenStreams(const OpenStreams&) = delete;
  OpenStreams& operator=(const OpenStreams&) = delete;
  /// What my streams hold has run out, until the job's deadline, and nothing of mine comes any more. Once all ranks
  /// have done so, their memory may go.
  virtual base::Status run_dry() noexcept = 0;
  /// After that: whether all ranks have made the same calls, and none has failed, unless my user knows it.
  virtual base::Status compare() const noexcept = 0;

 protected:
  OpenStreams() = default;
  ~OpenStreams() = default;
};

/// A buffer of another device than `owner`'s isn't one for its streams.
base::Status lies_with(const memory::Owner& owner, const void* buffer) noexcept;

/// Collective. What speaks against calls on streams, of the first rank that has something; empty if nobody has.
std::string first_objection(TeamCore& team, const std::string& mine);
/// Error{unsupported}.
[[noreturn]] void throw_objection(const Fabric& fabric, const std::string& objection);

/// How long streams that nothing holds up any more may take.
inline constexpr std::chrono::seconds soon_over{2};
/// Turns until `done`, without the job's help: destructors wait so too.
template <typename Done> bool comes_true(std::chrono::nanoseconds within, Done&& done) noexcept {
  const auto limit = base::Deadline::after(within);
  while (!done()) {
    if (limit.expired()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

}  // namespace hmc::window
