// A collective as data: the steps of one rank. Executed, proved and replayed from the same object.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "collectives/schedule/call.hpp"

namespace hmc::collectives::schedule {

enum class Buffer : std::uint8_t {
  input,    ///< the caller's; only read (unless the call is in place)
  output,   ///< the caller's
  scratch,  ///< the schedule's own; others put into it
};

enum class Kind : std::uint8_t {
  /// `bytes` from (from_buffer, from) to (scratch, to) of `peer`, then raise the peer's signal `slot`. Returns at
  /// once; the source is read some time until the message's delivery or the next settle. Nothing to carry
  /// (bytes == 0) is a signal alone.
  put,
  wait,    ///< until my signal `slot` was raised, by `peer`
  settle,  ///< until all my puts have read their sources
  copy,    ///< `bytes` from (from_buffer, from) to (to_buffer, to)
  reduce,  ///< to = to op from; with `reversed`: to = from op to. avg counts as sum
  /// to = c[0] op c[1] op ... c[ways-1], where c[i] begins at (from_buffer, from + i * stride()), by one kernel
  /// call that rounds once. avg divides here too
  fold,
  scale,  ///< (to_buffer, to, bytes) divided by the team's size: the end of an avg that was summed by reduce
};

struct Step {
  Kind kind = Kind::settle;
  Buffer from_buffer = Buffer::input;
  Buffer to_buffer = Buffer::output;
  bool reversed = false;
  std::uint32_t ways = 0;
  std::uint32_t peer = 0;
  std::uint32_t slot = 0;
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  std::uint64_t bytes = 0;

  /// fold only, which has neither peer nor slot.
  std::uint64_t stride() const { return static_cast<std::uint64_t>(peer) << 32 | slot; }
  void set_stride(std::uint64_t stride) {
    peer = static_cast<std::uint32_t>(stride >> 32);
    slot = static_cast<std::uint32_t>(stride);
  }
};
static_assert(sizeof(Step) == 40);

/// One rank's steps, taken in order. Its scratch and its slots are untouched at its start (the executor keeps
/// several areas in turn); each slot is raised at most once; at its end all its puts are settled and all that
/// was sent to it was waited for.
struct Schedule {
  std::vector<Step> steps;
  std::uint64_t scratch_bytes = 0;
  std::uint32_t slots = 0;

  void clear() {
    steps.clear();
    scratch_bytes = 0;
    slots = 0;
  }
};

/// Which of the call's tuning values an algorithm looks at.
struct Tunable {
  bool segments = false;
  bool radix = false;
};

/// What a schedule takes of a rank's memory for others to put into.
struct ScratchSize {
  std::uint64_t scratch = 0;
  std::uint32_t slots = 0;
};

class Path;  // cost.hpp

/// An algorithm makes one rank's schedule without the others'. All functions are pure.
struct Algorithm {
  std::string_view name;
  Collective collective;
  bool keeps_order;    ///< right for operations that don't commute
  bool deterministic;  ///< folds all contributions in rank order
  bool hierarchical;   ///< made for per_node > 1
  Tunable tuned_by;
  bool (*suits)(const Shape& shape, const Call& call);  ///< what the fields above don't say
  /// Into an empty `out`, whose memory is used again.
  void (*build_into)(const Shape& shape, const Call& call, int rank, Schedule& out);
  /// What the rank that needs most may need, whatever the root. Of a v-form no block is larger than `count`, which
  /// stands in for its counts.
  ScratchSize (*scratch_size)(const Shape& shape, const Call& call);
  /// Goes through the critical path, in a time that grows like log N. Blocks of a v-form as above.
  void (*cost)(Path& path, const Call& call);

  bool applies(const Shape& shape, const Call& call) const;
};

Schedule build(const Algorithm& algorithm, const Shape& shape, const Call& call, int rank);

}  // namespace hmc::collectives::schedule
