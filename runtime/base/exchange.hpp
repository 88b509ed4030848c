// Exchange: what ranks need to tell each other while they make or close something together.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/deadline.hpp"

namespace hmc::base {

/// What they make or close. Small, since it rides in what ranks of a team compare of their calls; so calls of several
/// names that ranks may mix are one.
enum class SetupCall : std::uint8_t {
  other,        ///< within a call that ranks compare by itself
  window,       ///< of so many bytes
  window_over,  ///< over each rank's own memory, of whatever kind
  window_close,
  context,  ///< Window::open_context
  streams,  ///< by the first call on streams
  team,     ///< by split, subset, duplicate, node_team or leaders, which are one protocol
  team_close,
  runtime_close,
};
/// In an error: "rank 1 called ...".
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

/// Cold path: these throw hmc::Error. Every rank calls the same ones in the same order.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  /// Everyone's bytes, by rank. Lengths may differ.
  virtual std::vector<Bytes> allgather(ByteView mine, Deadline deadline) = 0;
  virtual void barrier(Deadline deadline) = 0;
  /// Its ranks can't tell each other anything here any more.
  virtual bool has_failed() const noexcept { return false; }
  /// After a round that threw: because of an earlier call, not of what ranks called in this one.
  virtual bool failed_before() const noexcept { return false; }
};

}  // namespace hmc::base
