// Exchange: allgather and barrier for the collective creation and close of teams and windows.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/deadline.hpp"
#include "runtime/base/rank_state.hpp"

namespace hmc::base {

/// The kind of a collective creation or close. The ranks of a team compare it as part of the call signature. Calls that
/// may match across ranks share one value.
enum class SetupCall : std::uint8_t {
  other,        ///< part of a call whose signature is compared separately
  window,       ///< Window::create with a size
  window_over,  ///< Window::create over a buffer of each rank
  window_close,
  context,  ///< Window::open_context
  streams,  ///< the set-up in a team's first call on streams
  team,     ///< split, subset, duplicate, node_team and leaders: one protocol
  team_close,
  runtime_close,
};
/// For an error text: "rank 1 called ...".
constexpr const char* name_of(SetupCall what) noexcept {
  switch (what) {
    case SetupCall::other: break;
    case SetupCall::window: return "Window::create of a size";
    case SetupCall::window_over: return "Window::create over a buffer";
    case SetupCall::window_close: return "Window::close";
    case SetupCall::context: return "Window::open_context";
    case SetupCall::streams: return "preparation of calls on streams";
    case SetupCall::team: return "creation of a team (split, duplicate, ...)";
    case SetupCall::team_close: return "Team::close";
    case SetupCall::runtime_close: return "Runtime::close";
  }
  return "creation or close of a team or window";
}

/// Cold path: throws hmc::Error. All ranks make the same calls in the same order.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  /// The bytes of all ranks, indexed by rank. Lengths may differ.
  virtual std::vector<Bytes> allgather(ByteView mine, Deadline deadline) = 0;
  virtual void barrier(Deadline deadline) = 0;
  /// What these ranks are doing, for an error text; entries may be missing. Only of the control plane. Waits at most
  /// half a second.
  virtual std::vector<RankState> states(const std::vector<int>& ranks) {
    (void)ranks;
    return {};
  }
  /// True if the ranks can no longer exchange data through this object.
  virtual bool has_failed() const noexcept { return false; }
  /// After a round that threw: true if an earlier call is the cause, and not a mismatch in this call.
  virtual bool failed_before() const noexcept { return false; }
};

}  // namespace hmc::base
