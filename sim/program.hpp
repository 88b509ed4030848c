// Program: the steps of many ranks, compact enough for a million ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "collectives/schedule/schedule.hpp"
#include "sim/model.hpp"

namespace hmc::sim {

namespace schedule = hmc::collectives::schedule;

/// Builds one rank's schedule in `out`, which is empty.
using ScheduleSource = std::function<void(int rank, schedule::Schedule& out)>;

/// More steps than the limit allows.
struct TooLarge : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class ProgramOpKind : std::uint32_t { put, wait, flush_local, work };

/// The properties of a step that determine its time. Consecutive copies, reductions and folds are one `work`.
struct ProgramOp {
  std::uint64_t value;  ///< bytes of a put, picoseconds of work
  std::uint32_t peer;
  std::uint32_t slot_and_kind;

  ProgramOpKind kind() const { return static_cast<ProgramOpKind>(slot_and_kind & 3U); }
  std::uint32_t slot() const { return slot_and_kind >> 2; }
};
static_assert(sizeof(ProgramOp) == 16);

/// The steps of ranks [first, first + count).
class Program {
 public:
  Program(int first, int count, const ScheduleSource& build, const Model& model, std::uint64_t max_ops);

  int first() const { return first_; }
  int count() const { return static_cast<int>(begins_.size()); }
  std::span<const ProgramOp> ops(int index) const { return begins_[static_cast<std::size_t>(index)]; }
  /// The slots of all ranks are in one array; a rank's slots begin here.
  std::uint64_t slots_begin(int index) const { return slots_[static_cast<std::size_t>(index)]; }
  std::uint64_t slots() const { return slots_.back(); }

 private:
  void translate(const schedule::Schedule& schedule, const Model& model, std::vector<ProgramOp>& out) const;
  std::span<const ProgramOp> keep(const std::vector<ProgramOp>& ops);

  int first_;
  std::uint64_t total_ops_ = 0;
  std::vector<std::span<const ProgramOp>> begins_;
  std::vector<std::uint64_t> slots_;
  std::vector<std::unique_ptr<ProgramOp[]>> chunks_;
  std::size_t chunk_left_ = 0;
  ProgramOp* chunk_next_ = nullptr;
};

}  // namespace hmc::sim
