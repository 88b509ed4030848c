// Schedule: the steps of one rank of a collective, as data. The runtime executes it, hmc-verify proves it and hmc-sim
// replays it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "collectives/schedule/call.hpp"

namespace hmc::collectives::schedule {

enum class Buffer : std::uint8_t {
  input,    ///< of the caller; read-only (unless the call is in place)
  output,   ///< of the caller
  scratch,  ///< of the schedule; peers put into it
};

enum class Kind : std::uint8_t {
  /// Copies `bytes` from (from_buffer, from) to (scratch, to) of `peer`, then raises the peer's signal `slot`. Returns
  /// at once. The source may be read until the message is delivered or until the next settle. With bytes == 0 it is
  /// only a signal.
  put,
  wait,    ///< waits until `peer` has raised this rank's signal `slot`
  settle,  ///< waits until all puts of this rank have read their sources
  copy,    ///< copies `bytes` from (from_buffer, from) to (to_buffer, to)
  reduce,  ///< to = to op from; with `reversed`: to = from op to. For avg: sum
  /// to = c[0] op c[1] op ... c[ways-1], where c[i] begins at (from_buffer, from + i * stride()). One kernel call,
  /// which rounds once and also divides for avg
  fold,
  scale,  ///< divides (to_buffer, to, bytes) by the team's size: the last step of an avg that was summed by reduce
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

  /// Only for fold, which has neither peer nor slot.
  std::uint64_t stride() const { return static_cast<std::uint64_t>(peer) << 32 | slot; }
  void set_stride(std::uint64_t stride) {
    peer = static_cast<std::uint32_t>(stride >> 32);
    slot = static_cast<std::uint32_t>(stride);
  }
};
static_assert(sizeof(Step) == 40);

/// One rank's steps, executed in order.
///  - At the start, scratch and slots are unused; the executor rotates through several areas.
///  - Each slot is raised at most once.
///  - At the end, all puts are settled and all messages to this rank were waited for.
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

/// The tuning values of a call that an algorithm uses.
struct Tunable {
  bool segments = false;
  bool radix = false;
};

/// The memory of a rank that a schedule needs for peers' puts.
struct ScratchSize {
  std::uint64_t scratch = 0;
  std::uint32_t slots = 0;
};

class Path;  // cost.hpp

/// An algorithm builds one rank's schedule without the other ranks' schedules. All functions are pure.
struct Algorithm {
  std::string_view name;
  Collective collective;
  bool keeps_order;    ///< correct for operations that don't commute
  bool deterministic;  ///< folds all contributions in rank order
  bool hierarchical;   ///< meant for per_node > 1
  Tunable tuned_by;
  bool (*suits)(const Shape& shape, const Call& call);  ///< conditions beyond the fields above
  /// `out` must be empty; its capacity is reused.
  void (*build_into)(const Shape& shape, const Call& call, int rank, Schedule& out);
  /// An upper bound over all ranks and roots. For a v-form, `count` is an upper bound of its counts.
  ScratchSize (*scratch_size)(const Shape& shape, const Call& call);
  /// Adds the critical path to `path`, in O(log N) time. `count` of a v-form as in scratch_size.
  void (*cost)(Path& path, const Call& call);

  bool applies(const Shape& shape, const Call& call) const;
};

Schedule build(const Algorithm& algorithm, const Shape& shape, const Call& call, int rank);

}  // namespace hmc::collectives::schedule
