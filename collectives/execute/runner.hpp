// Runner: takes one rank's steps as far as they go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/args/collective_args.hpp"
#include "collectives/execute/arena.hpp"
#include "collectives/execute/numbering.hpp"
#include "collectives/execute/plan.hpp"
#include "runtime/base/status.hpp"
#include "runtime/window/begin.hpp"

namespace hmc::collectives {

/// A state machine over a schedule: where it is, which puts haven't read their sources yet, and what lands in the
/// caller's output. One thread.
class Runner {
 public:
  explicit Runner(const Arena& arena) : arena_(&arena) {}

  /// Gets ready for the first step; may throw bad_alloc.
  void load(std::shared_ptr<const Plan> plan, const CollectiveArgs& args, const Turn& turn, const std::byte* input,
            std::byte* output);
  /// Whether its peers may compute meanwhile, and have to be nudged.
  void nudge_peers(bool nudges) noexcept { nudges_ = nudges; }
  /// ok at the end, in_progress where it must wait, or what went wrong. It has moved if steps_taken() has.
  base::Status advance() noexcept;
  std::uint64_t steps_taken() const noexcept { return taken_; }
  /// Whom of the team it waits for.
  int awaited() const noexcept { return awaited_; }
  void drop_plan() noexcept { plan_.reset(); }
  /// After a failure: nothing of the caller's is read or written any more.
  void abandon() noexcept;

 private:
  struct Put {
    int peer;
    std::uint64_t ticket;
  };
  base::Status take(const schedule::Step& step) noexcept;
  void copy(const schedule::Step& step) noexcept;
  void begin_receives();
  /// The next one's step is due: what didn't land of it is copied, unless nothing did.
  void end_receive() noexcept;
  /// The source of a put or copy: in the output, if the bytes were received there directly.
  const std::byte* source_of(const schedule::Step& step) const noexcept;
  void end_receives() noexcept;
  base::Status put(const schedule::Step& step) noexcept;
  base::Status look_for(const schedule::Step& step) noexcept;
  base::Status settle() noexcept;
  void reduce(const schedule::Step& step) noexcept;
  void fold(const schedule::Step& step) noexcept;
  std::byte* at(schedule::Buffer buffer, std::uint64_t offset) const noexcept {
    return buffers_[static_cast<std::size_t>(buffer)] + offset;
  }

  const Arena* arena_;
  std::shared_ptr<const Plan> plan_;
  std::size_t next_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t number_ = 0;
  std::uint64_t stamp_ = 0;
  int awaited_ = -1;
  bool nudges_ = false;
  std::byte* buffers_[3] = {};
  std::vector<Put> puts_;
  std::size_t settled_ = 0;
  std::vector<window::DirectReceive> receives_;  // of the plan's arrivals, in their order
  std::size_t received_ = 0;                     // so many are over
  ReduceCall step_;                              // of two: an avg is summed
  ReduceCall fold_;                              // of all
  std::vector<const void*> ins_;
  std::vector<std::byte> accumulator_;
};

}  // namespace hmc::collectives
