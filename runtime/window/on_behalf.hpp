// Rounds of an exchange on behalf of a user's call: they say so in this rank's line while they last, and in the
// call's name what went wrong.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/exchange.hpp"
#include "runtime/window/fabric.hpp"

namespace hmc::window {

/// What is made or closed while it lives belongs to this call of the user's, and bears its name, as do all windows and
/// teams within it that the user doesn't know of: of those that nest, the outermost one's. `what`, and `number` of
/// those that ranks may mix up, is what they compare.
class OnBehalf {
 public:
  OnBehalf(Fabric& fabric, const char* operation, base::Construction what = base::Construction::other,
           std::uint64_t number = 0) noexcept
      : fabric_(fabric), is_outermost_(fabric.on_behalf_of == nullptr) {
    if (!is_outermost_) return;
    posted_.emplace(fabric.waiter.page().activity(fabric.waiter.local_index()), base::WaitNote{activity_of(what)});
    fabric.on_behalf_of = operation;
    fabric.making = what;
    fabric.making_number = number;
  }
  ~OnBehalf() {
    if (!is_outermost_) return;
    fabric_.on_behalf_of = nullptr;
    fabric_.making = base::Construction::other;
    fabric_.making_number = 0;
  }
  OnBehalf(const OnBehalf&) = delete;
  OnBehalf& operator=(const OnBehalf&) = delete;

 private:
  static base::Activity activity_of(base::Construction what) noexcept {
    switch (what) {
      case base::Construction::window_close:
      case base::Construction::team_close:
      case base::Construction::runtime_close: return base::Activity::closing;
      default: return base::Activity::construction;
    }
  }

  Fabric& fabric_;
  bool is_outermost_;
  std::optional<base::Posted> posted_;
};

/// All ranks of the team throw it in the same call, so no rank has to tell the others of it.
class AgreedError : public Error {
 public:
  using Error::Error;
};

inline const char* operation_of(const Fabric& fabric) noexcept {
  return fabric.on_behalf_of != nullptr ? fabric.on_behalf_of : "construction";
}

/// "rank 3 is in allreduce since 2.1 s; ..." for those of `world_ranks` that are others of this node, whose lines we
/// can read. `word` is how the text calls a rank.
std::string what_ranks_are_in(const Fabric& fabric, std::span<const int> world_ranks, const char* word);

// Within an OnBehalf.
std::vector<base::Bytes> allgather_for(const Fabric& fabric, base::Exchange& exchange, base::ByteView mine,
                                       base::Deadline deadline);
void barrier_for(const Fabric& fabric, base::Exchange& exchange, base::Deadline deadline,
                 base::Activity activity = base::Activity::construction);

/// Where ranks meet to close something. If the world's calls have failed in an earlier one, its ranks meet by the
/// control plane, so that what is left is closed in order. Returns that failure if this rank hears of it only here: to
/// be thrown when all is closed. `unheard`: of an earlier meeting.
[[nodiscard]] std::exception_ptr meet_to_close(const Fabric& fabric, base::Exchange& exchange,
                                               std::exception_ptr unheard = nullptr);

/// A step of a closing that this rank goes on with though it has heard of a failure. Should the step fail, that failure
/// is thrown: who was told of it in a call may have ended, and that death is what came of it, not what went wrong.
template <typename Step> void close_step(const std::exception_ptr& unheard, const Step& step) {
  try {
    step();
  } catch (const Error&) {
    if (unheard != nullptr) std::rethrow_exception(unheard);
    throw;
  }
}

}  // namespace hmc::window
