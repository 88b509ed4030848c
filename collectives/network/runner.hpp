// Runner: executes one rank's steps as far as possible without waiting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/args/collective_args.hpp"
#include "collectives/network/arena.hpp"
#include "collectives/network/numbering.hpp"
#include "collectives/network/plan.hpp"
#include "runtime/base/status.hpp"
#include "runtime/rma/begin.hpp"

namespace hmc::collectives {

/// A state machine that executes a schedule. It holds the position, the puts whose sources are still in use, and the
/// direct receives into the caller's output. One thread.
class Runner {
 public:
  explicit Runner(const Arena& arena) : arena_(&arena) {}

  /// Prepares for the first step; may throw bad_alloc.
  void load(std::shared_ptr<const Plan> plan, const CollectiveArgs& args, const Turn& turn, const std::byte* input,
            std::byte* output);
  /// If set, each put wakes the target's progress thread, because the target may be computing.
  void nudge_peers(bool nudges) noexcept { nudges_ = nudges; }
  /// Returns ok at the end, in_progress if a step must wait, or the failure. If steps_taken() has changed, steps ran.
  base::Status advance() noexcept;
  std::uint64_t steps_taken() const noexcept { return taken_; }
  /// Team rank of the awaited peer.
  int awaited() const noexcept { return awaited_; }
  void drop_plan() noexcept { plan_.reset(); }
  /// After a failure: stops all access to the caller's buffers.
  void abandon() noexcept;

 private:
  struct Put {
    int peer;
    std::uint64_t ticket;
  };
  base::Status take(const schedule::Step& step) noexcept;
  void copy(const schedule::Step& step) noexcept;
  base::Status get(const schedule::Step& step) noexcept;
  void begin_receives();
  /// Called at the first step that reads the next arrival. If a part of it was received directly, copies the rest. If
  /// nothing was received directly, the copy step copies all.
  void end_receive() noexcept;
  /// The source of a put or copy: in the output, if the bytes were received there directly.
  const std::byte* source_of(const schedule::Step& step) const noexcept;
  void end_receives() noexcept;
  base::Status put(const schedule::Step& step) noexcept;
  base::Status check_signal(const schedule::Step& step) noexcept;
  base::Status check_puts() noexcept;
  void reduce(const schedule::Step& step) noexcept;
  void fold(const schedule::Step& step) noexcept;
  /// Combines `ins_` into the step's target, or into the output instead (Result). If the next step copies the sum to
  /// the output, the kernel stores it in both.
  void combine(const schedule::Step& step, const Reducer& reducer, std::size_t inputs) noexcept;
  /// The target of the next step, if that copies the sum of this one and a kernel that reads `ins_` may store there.
  std::byte* next_copy_of(const schedule::Step& sum, std::size_t inputs) const noexcept;
  std::byte* at(schedule::StepBuffer buffer, std::uint64_t offset) const noexcept {
    return buffers_[static_cast<std::size_t>(buffer)] + offset;
  }

  const Arena* arena_;
  std::shared_ptr<const Plan> plan_;
  std::size_t next_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t number_ = 0;
  std::uint64_t stamp_ = 0;
  static constexpr std::size_t none = ~std::size_t{0};
  std::size_t done_copy_ = none;  ///< the index of a copy that the step before it has executed
  int awaited_ = -1;
  bool nudges_ = false;
  std::byte* buffers_[3] = {};
  std::vector<Put> puts_;
  std::size_t completed_puts_ = 0;
  std::vector<rma::DirectReceive> receives_;  // of the plan's arrivals, in their order
  std::size_t received_ = 0;                  // number of receives that have ended
  Reducer step_;                              // for two inputs: an avg is computed as a sum
  Reducer fold_;                              // for all inputs
  std::vector<const void*> ins_;
  std::vector<std::byte> accumulator_;
};

}  // namespace hmc::collectives
