// Schedule: the steps of one rank of a collective, as data. The runtime executes it, hmc-verify proves it and hmc-sim
// replays it. Call: the arguments on which it depends. Algorithm: a function that builds the schedules of a collective.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <hmc/types.hpp>

namespace hmc::collectives::schedule {

/// The team: `size` ranks, with `per_node` consecutive ranks on each node (the last node may have fewer).
struct Shape {
  int size = 1;
  int per_node = 1;
  bool shares_memory = false;  ///< every rank can read every other rank's scratch by loads

  int node_of(int rank) const { return rank / per_node; }
  int nodes() const { return (size + per_node - 1) / per_node; }
  friend bool operator==(const Shape&, const Shape&) = default;
};

/// Equal on all ranks, except the counts of alltoallv, which each rank passes for itself. Counts are elements.
///
/// `count` is the size of one rank's block in gather, scatter, allgather, alltoall and reduce_scatter, and of the
/// whole vector in the others. A v-form passes `counts` instead, one per rank; the caller keeps them alive.
/// Block r then begins at displacements[r] of the larger buffer, or after block r-1 without displacements.
///
/// alltoallv: counts[r] elements go to rank r, receive_counts[r] come from rank r. `largest` is the largest count of
/// any pair. It is equal on all ranks.
///
/// In place, the buffers overlap as in MPI:
///  - allgather, and gather at the root: the input is the rank's own block of the output;
///  - scatter at the root: the output is the root's own block of the input;
///  - broadcast and reduce at the root, all others on every rank: input and output begin at the same address.
struct Call {
  CollectiveKind collective = CollectiveKind::barrier;
  DType type = DType::u8;
  Op op = Op::sum;
  std::uint32_t element_bytes = 1;
  bool commutative = true;
  bool deterministic = false;  ///< the result's bits depend only on the contributions and the team size
  bool in_place = false;
  int root = 0;
  std::uint64_t count = 0;
  std::span<const std::uint64_t> counts{};
  std::span<const std::uint64_t> displacements{};
  std::span<const std::uint64_t> receive_counts{};
  std::span<const std::uint64_t> receive_displacements{};
  std::uint64_t largest = 0;
  std::uint64_t segment_bytes = 0;  ///< segment size of pipelines; 0: the algorithm's default
  int radix = 0;                    ///< of k-nomial algorithms; 0: the algorithm's default

  bool irregular() const { return !counts.empty(); }
};

/// Sizes of the caller's buffers, displacements included.
std::uint64_t input_bytes(const Shape& shape, const Call& call, int rank);
std::uint64_t output_bytes(const Shape& shape, const Call& call, int rank);

enum class StepBuffer : std::uint8_t {
  input,    ///< of the caller; read-only (unless the call is in place)
  output,   ///< of the caller
  scratch,  ///< of the schedule; peers put into it and get from it
};

enum class StepKind : std::uint8_t {
  /// Copies `bytes` from (from_buffer, from) to (scratch, to) of `peer`, then raises the peer's signal `slot`. Returns
  /// at once. The source may be read until the message is delivered or until the next flush_local. If bytes == 0, it
  /// is only a signal.
  put,
  wait,  ///< waits until `peer` has raised this rank's signal `slot`
  /// Copies `bytes` from (scratch, from) of `peer` to (to_buffer, to). Requires Shape::shares_memory. Signals order it
  /// after the last write to these bytes, and each later write after it.
  get,
  flush_local,  ///< waits until all puts of this rank have read their sources
  copy,         ///< copies `bytes` from (from_buffer, from) to (to_buffer, to)
  reduce,       ///< to = to op from; with `reversed`: to = from op to. For avg: sum
  /// to = c[0] op c[1] op ... c[inputs-1], where c[i] begins at (from_buffer, from + i * stride()). One kernel call,
  /// which rounds once and also divides for avg
  fold,
  scale,  ///< divides (to_buffer, to, bytes) by the team's size: the last step of an avg that was summed by reduce
};

struct Step {
  StepKind kind = StepKind::flush_local;
  StepBuffer from_buffer = StepBuffer::input;
  StepBuffer to_buffer = StepBuffer::output;
  bool reversed = false;
  std::uint32_t inputs = 0;
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

/// True if `copy` copies the whole sum that `sum` has computed. The runtime executes two such consecutive steps by one
/// kernel call, which stores the sum in both places.
inline bool is_copy_of_sum(const Step& copy, const Step& sum) {
  return copy.kind == StepKind::copy && (sum.kind == StepKind::reduce || sum.kind == StepKind::fold) &&
         copy.from_buffer == sum.to_buffer && copy.from == sum.to && copy.bytes == sum.bytes;
}

/// One rank's steps, executed in order.
///  - At the start, scratch and slots are unused. The executor uses several areas in rotation.
///  - Each slot is raised at most once.
///  - At the end, all puts are locally complete, and the rank has waited for every message to it. Other ranks may
///    still get from its scratch, until they have finished the call.
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

/// The number of receive buffers of alltoall:pairwise. Each holds one segment.
inline constexpr std::uint64_t alltoall_cells = 16;

/// The tuning parameters that an algorithm supports: segment size, radix.
struct Tunable {
  bool segments = false;
  bool radix = false;
};

/// The memory of a rank that a schedule needs for peers' puts and gets.
struct ScratchSize {
  std::uint64_t scratch = 0;
  std::uint32_t slots = 0;
};

class Builder;       // builder.hpp
class CriticalPath;  // cost.hpp

/// Support for any call of the collective.
constexpr bool supports_all(const Shape&, const Call&) { return true; }

/// One row of the registry. An algorithm builds one rank's schedule without the other ranks' schedules. All functions
/// are pure.
struct Algorithm {
  std::string_view name;
  CollectiveKind collective = CollectiveKind::barrier;
  bool keeps_order = true;     ///< correct for operations that don't commute
  bool deterministic = false;  ///< reduces nothing, or folds all contributions in rank order
  bool hierarchical = false;   ///< for per_node > 1
  bool gets = false;           ///< requires Shape::shares_memory
  Tunable tuned_by{};
  bool (*supports)(const Shape& shape, const Call& call) = supports_all;  ///< conditions beyond the fields above
  /// Appends the steps of builder.rank. build_into() appends the final flush.
  void (*build)(Builder& builder) = nullptr;
  /// An upper bound over all ranks and roots. For a v-form, `count` is an upper bound of its counts.
  ScratchSize (*scratch_size)(const Shape& shape, const Call& call) = nullptr;
  /// Adds the critical path to `path`, in O(log N) time. `count` of a v-form as in scratch_size.
  void (*cost)(CriticalPath& path, const Call& call) = nullptr;

  bool applies(const Shape& shape, const Call& call) const;
  /// Builds the whole schedule. `out` must be empty; its capacity is reused.
  void build_into(const Shape& shape, const Call& call, int rank, Schedule& out) const;
};

Schedule build(const Algorithm& algorithm, const Shape& shape, const Call& call, int rank);

}  // namespace hmc::collectives::schedule
