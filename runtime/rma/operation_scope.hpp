// OperationScope: attributes the rounds of an exchange to the user's call that needs them.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/exchange.hpp"
#include "runtime/rma/fabric.hpp"

namespace hmc::rma {

/// While it lives, windows and teams that this rank creates or closes belong to the user's call `operation`: the rank's
/// activity line and error texts name it. Scopes nest; only the outermost scope has an effect. The ranks compare `what`
/// and `number` to detect a mismatch.
class OperationScope {
 public:
  OperationScope(Fabric& fabric, const char* operation, base::SetupCall what = base::SetupCall::other,
                 std::uint64_t number = 0) noexcept
      : fabric_(fabric), is_outermost_(fabric.operation.name_ == nullptr) {
    if (!is_outermost_) return;
    const bool closes = what == base::SetupCall::window_close || what == base::SetupCall::team_close ||
                        what == base::SetupCall::runtime_close;
    posted_.emplace(fabric.waiter.page().activity(fabric.waiter.local_index()),
                    base::WaitNote{closes ? base::Activity::closing : base::Activity::setup});
    fabric.operation.name_ = operation;
    fabric.operation.call_ = what;
    fabric.operation.number_ = number;
  }
  ~OperationScope() {
    if (is_outermost_) fabric_.operation = {};
  }
  OperationScope(const OperationScope&) = delete;
  OperationScope& operator=(const OperationScope&) = delete;

 private:
  Fabric& fabric_;
  bool is_outermost_;
  std::optional<base::ActivityScope> posted_;
};

/// The warning about a long wait: the call, the time, and the awaited rank. The control plane adds the missing ranks.
std::string text_of_long_wait(const Fabric& fabric, const base::WaitNote& note, std::chrono::nanoseconds waited);
/// "rank 3 (host vm, pid 123) is in allreduce number 5 of 4096 bytes for 2.1 s; ...". `word`: the text's word for a
/// rank.
std::string what_ranks_are_in(const Fabric& fabric, std::span<const int> world_ranks, const char* word);

// Both are called within an OperationScope.
std::vector<base::Bytes> allgather_for(const Fabric& fabric, base::Exchange& exchange, base::ByteView mine,
                                       base::Deadline deadline);
void barrier_for(const Fabric& fabric, base::Exchange& exchange, base::Deadline deadline,
                 base::Activity activity = base::Activity::setup);

/// The barrier before an object is closed. If an earlier call on the world has failed, its ranks use the control plane
/// for the barrier, so that all remaining objects are closed in order. Returns that failure if no call has reported it
/// on this rank yet. The caller throws it after all objects are closed. `unheard`: the result of an earlier call.
[[nodiscard]] std::exception_ptr barrier_before_close(const Fabric& fabric, base::Exchange& exchange,
                                                      std::exception_ptr unheard = nullptr);

/// One step of a close that continues despite the failure `unheard`. If the step also fails, this throws `unheard`: a
/// peer may have exited after it reported that failure, so the step's error is only a consequence.
template <typename Step> void close_step(const std::exception_ptr& unheard, const Step& step) {
  try {
    step();
  } catch (const Error&) {
    if (unheard != nullptr) std::rethrow_exception(unheard);
    throw;
  }
}

}  // namespace hmc::rma
