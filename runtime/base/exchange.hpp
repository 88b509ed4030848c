// Exchange: the ranks' exchange of data in collective creation and close.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/deadline.hpp"

namespace hmc::base {

/// The object of a collective creation or close. It is part of the call signature that the ranks of a team compare, so
/// it is small. Calls that ranks may mix have one value.
enum class SetupCall : std::uint8_t {
  other,        ///< within a call whose signature is compared separately
  window,       ///< of a size
  window_over,  ///< over each rank's own memory of any kind
  window_close,
  context,  ///< Window::open_context
  streams,  ///< in the first call on streams
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
  return "what makes or closes a team or window";
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
  /// The ranks can't exchange data here any more.
  virtual bool has_failed() const noexcept { return false; }
  /// After a round that threw: the cause is an earlier call, not a mismatch in this one.
  virtual bool failed_before() const noexcept { return false; }
};

}  // namespace hmc::base
