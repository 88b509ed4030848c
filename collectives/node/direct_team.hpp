// DirectTeam: a team in which all ranks can access each other's windows by load and store. Board: the memory that a
// rank shares with the others; only the owner writes a line.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/args/signature.hpp"
#include "collectives/mismatch/history.hpp"
#include "collectives/network/schedule_team.hpp"
#include "collectives/node/private_buffers.hpp"
#include "runtime/base/status.hpp"
#include "runtime/rma/window_core.hpp"
#include "runtime/transport/shm/peer_reads.hpp"

namespace hmc::collectives {

inline constexpr std::size_t line_bytes = 64;
inline constexpr std::size_t inline_bytes = 48;  ///< payload inside the arrival line
inline constexpr std::size_t slot_bytes = 4096;  ///< payload of one call's slot

/// Arrival of a rank at collective number `sequence`. `history` is a hash of all calls up to this one. `history` and
/// `payload` are plain fields. The release store of `sequence` publishes them; it pairs with the acquire load of a
/// waiting rank. Aligned to two lines, because processors prefetch lines in pairs.
struct alignas(2 * line_bytes) ArrivalLine {
  std::atomic<std::uint64_t> sequence{0};
  std::uint64_t history = 0;
  std::byte payload[inline_bytes] = {};
};

/// Steps inside a large collective. Tags are monotonic: ranks wait for a tag with >=.
enum class Phase : int { staged, reduced, finished };
inline constexpr int phase_count = 3;

struct alignas(line_bytes) PhaseLine {
  std::atomic<std::uint64_t> tag{0};
};

/// The probe of a rank's memory, the result of its probes, and rank 0's decisions for all. `memory` and
/// `reads_next` are plain fields:
/// - The owner writes `memory` before the ranks agree that the team's window is open. Peers read it afterwards.
/// - The owner writes `reads_next` before its first arrival. Peers read it after they have seen that arrival.
struct alignas(line_bytes) ProbeLine {
  transport::ReadProbe memory;
  std::uint32_t reads_next = 0;  ///< 1: this rank can read the memory of the next rank: see reads_next()
  /// The decisions of MethodTrials. Used only on rank 0's board. Relaxed: a rank that sees a decision late uses the
  /// previous method once more.
  std::atomic<std::uint64_t> decided{0};
};

/// Number of slots per rank. Calls use them in rotation. A rank that waits for no peer may be this many calls ahead of
/// the others. Before the next call it waits for them.
inline constexpr std::size_t turns = 32;

/// Call s reuses the slot of call s - turns. A rank writes the slot only after all ranks have arrived at call
/// s - turns + 1; then all ranks have returned from call s - turns. There are twice as many lines as slots, so that a
/// rank that is behind can still compare the lines of its call.
inline constexpr std::size_t lines = 2 * turns;
struct Board {
  ArrivalLine arrivals[lines];  // first: a call finds its line without adding an offset
  PhaseLine phases[phase_count];
  ProbeLine probe;
  alignas(line_bytes) std::byte slots[turns][slot_bytes];
};

class ScheduleTeam;

/// The location of a buffer for its peers: in a window or in the owner's private memory. Converts to false if the
/// buffer is staged.
struct Placement {
  static constexpr std::uint32_t private_memory = ~std::uint32_t{0};

  std::uint64_t offset = 0;  ///< in private memory: the address in the owner's process
  std::uint32_t window = 0;  ///< id + 1
  /// Set instead of `window`: id + 1 of a window over device memory in which this rank's device can reduce. Only
  /// kernels use it; host code treats the buffer as staged.
  std::uint32_t device_window = 0;
  explicit operator bool() const noexcept { return window != 0; }
  bool is_private() const noexcept { return window == private_memory; }
  bool is_in_window() const noexcept { return window != 0 && window != private_memory; }
};

/// Payload of the arrival line of a large allreduce and of each reduction that this rank's device can run. If every
/// rank's device can run the reduction, the devices run it. Otherwise the hosts run it with copies of device buffers.
struct Announcement {
  Placement in;
  Placement out;
  std::uint64_t in_slot = 0;  ///< always 0; the field at this offset in the payload of pull.cpp
};

/// The boards and the staging of one team, and the steps that every collective by load and store uses. A failure is
/// permanent: afterwards the ranks may be at different calls, so every later call returns the same status.
/// One thread at a time.
class DirectTeam {
 public:
  static constexpr std::size_t staging_at_start = std::size_t{512} << 10;

  /// `private_buffers`: HMC_COLL_PRIVATE.
  DirectTeam(rma::TeamCore& team, std::string_view private_buffers);
  /// Initializes this rank's board in `part`, its part of the team's arena. Called during creation of the arena.
  void prepare(std::byte* part) const;
  /// Attaches to the arena, the history and the failure state of `schedules`. Must run before the first collective.
  void join(ScheduleTeam& schedules);
  void close();

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  /// Returns the world rank of a team rank. Statuses and wait notes contain world ranks.
  int world(int rank) const noexcept { return seats_[static_cast<std::size_t>(rank)].world; }
  rma::Fabric& fabric() const noexcept { return fabric_; }
  std::uint64_t id() const noexcept { return team_.id(); }  ///< team id on this rank

  // ---- arrival: once per call
  /// Begins the next collective. Waits until this rank may write its line and its slot, slot(rank()).
  /// `bytes`: of the call's vector or block, for reports of a long wait.
  [[gnu::always_inline]] base::Status begin(Signature signature, std::uint64_t bytes) noexcept;
  std::byte* slot(int rank) const noexcept { return board(rank).slots[sequence_ % turns]; }
  /// Publishes this rank's arrival with up to inline_bytes of payload. A rank that sees the arrival also sees earlier
  /// writes to this rank's slot and staging.
  void arrive(const void* payload, std::size_t bytes) noexcept;
  base::Status wait_arrival(int rank) noexcept;
  base::Status wait_arrivals() noexcept;
  const std::byte* payload(int rank) const noexcept { return line(rank).payload; }

  // ---- phases: steps of this call
  std::uint64_t tag(std::uint64_t step) const noexcept { return (sequence_ << step_bits) + step; }
  /// The number of steps of a call must be less than this. Otherwise its tags overlap with the next call's tags.
  static constexpr std::uint64_t too_many_steps = std::uint64_t{1} << 20;
  void publish(Phase phase, std::uint64_t tag) noexcept;
  base::Status wait_phase(Phase phase, int rank, std::uint64_t tag) noexcept;
  base::Status wait_phases(Phase phase, std::uint64_t tag) noexcept;

  // ---- staging
  std::byte* staging(int rank) const noexcept { return staging_[static_cast<std::size_t>(rank)]; }
  std::size_t staging_bytes() const noexcept { return staging_bytes_; }
  /// True if the staging holds `bytes` or has its maximum size.
  bool staging_fits(std::size_t bytes) const noexcept;
  /// Collective. Requires that all ranks have arrived at the present call and that no rank uses a staging. Throws
  /// Error. If memory is insufficient, the size doesn't change.
  void grow_staging(std::size_t bytes);
  /// Waits until the peers have finished reading this rank's staging for earlier calls.
  base::Status wait_staging_free() noexcept { return wait_phases(Phase::finished, staging_busy_); }
  /// Peers may read from stagings until all ranks have published `finished` with this tag.
  void staging_in_use_until(std::uint64_t tag) noexcept { staging_busy_ = tag; }

  // ---- windows
  Placement place(const void* buffer, std::size_t bytes) const noexcept;
  /// The method for private buffers in this call: `way`, or the choice of the trials if `way` is try_both. Every rank
  /// must call it in the same calls and with the same arguments, also a rank without a private buffer.
  PrivateBufferMethod choose_method(PrivateBufferMethod way, std::size_t block) noexcept;
  /// Offers a private buffer to the peers for direct reads. Returns an empty placement (the buffer is staged) if the
  /// method is staging, or if a rank of the team can't read the buffer.
  Placement show_private(const void* buffer, std::size_t bytes, PrivateBufferMethod method) noexcept;
  /// Counts an input as used in place, read from private memory, or staged.
  void count(const Placement& shown) noexcept;
  /// True if choose_method() selected a trial. Then the call is timed, from begin_trial() after the arrivals to
  /// end_trial().
  bool in_trial() const noexcept { return trial_.block > 0; }
  void begin_trial() noexcept;
  /// `block`: the largest block of this call.
  void end_trial(std::size_t block) noexcept;
  /// Copies from a peer's private memory.
  base::Status read(int rank, const Placement& placement, std::size_t offset, void* to, std::size_t bytes) noexcept;
  /// Returns the placement's address in this process; null if the window isn't open in this process.
  std::byte* reach(int rank, const Placement& placement) const noexcept;

  /// Stores the status as the team's failure and returns it.
  base::Status fail(const base::Status& status) noexcept;

  std::size_t largest_given = 0;  ///< the largest block, in bytes, of the last alltoallv; equal on all ranks

  // Temporary vectors of the collectives. They keep their capacity, so that later calls allocate no memory.
  std::vector<const void*> ins;
  std::vector<void*> outs;
  std::vector<const void*> slice_ins;
  std::vector<void*> slice_outs;
  std::vector<std::size_t> in_begins;
  std::vector<std::size_t> out_begins;
  std::vector<std::byte> scratch;

 private:
  static constexpr unsigned step_bits = 20;
  static_assert(too_many_steps == std::uint64_t{1} << step_bits);
  struct Seat {
    Board* board;
    int world;        ///< rank
    int local_index;  ///< on the node
  };
  Board& board(int rank) const noexcept { return *seats_[static_cast<std::size_t>(rank)].board; }
  ArrivalLine& line(int rank) const noexcept { return board(rank).arrivals[sequence_ % lines]; }
  bool reads_next() noexcept;
  bool all_read() noexcept;
  void ring_all() noexcept;
  [[gnu::cold]] base::Status let_others_catch_up() noexcept;
  base::Status wait_line(int rank, std::uint64_t sequence, std::uint64_t history) noexcept;

  rma::TeamCore& team_;
  rma::Fabric& fabric_;
  int rank_;
  int size_;
  std::uint64_t sequence_ = 0;     // of the current call
  std::uint64_t all_arrived_ = 0;  // a sequence at which this rank has seen all arrivals
  std::uint64_t staging_busy_ = 0;
  bool grows_ = true;
  Signature signature_;             // of the current call
  std::uint64_t bytes_ = 0;         // of the current call
  std::uint64_t history_word_ = 0;  // up to the current call
  History* history_ = nullptr;
  ScheduleTeam* schedules_ = nullptr;
  base::Watch* watch_ = nullptr;
  base::Status failure_;
  transport::PeerReads reads_;
  enum class Known { unknown, yes, no } all_read_ = Known::unknown;
  MethodTrials trials_;
  struct Trial {
    std::size_t block = 0;    // 0: no trial
    bool reads = false;       // the method
    std::int64_t before = 0;  // ns; duration of the check that this rank's buffer is readable
    std::int64_t begin = 0;
  } trial_;
  std::vector<Seat> seats_;
  std::vector<std::byte*> staging_;
  std::size_t staging_bytes_ = staging_at_start;
  std::shared_ptr<rma::WindowCore> larger_staging_;  // null while the staging is in the arena
};

inline base::Status DirectTeam::begin(Signature signature, std::uint64_t bytes) noexcept {
  if (!failure_.ok() || history_->is_over.load(std::memory_order_relaxed)) [[unlikely]]
    return failure_.ok() ? base::Status::failure(Code::closed, "the team has failed") : failure_;
  if (sequence_ - all_arrived_ >= turns - 1) [[unlikely]] {
    if (const base::Status status = let_others_catch_up(); !status.ok()) return fail(status);
  }
  trial_ = {};
  signature_ = signature;
  bytes_ = bytes;
  history_word_ = schedules_->add_to_history(signature);
  ++sequence_;
  if (sequence_ % 16 == 0) fabric_.waiter.publish_cpu();
  return {};
}

}  // namespace hmc::collectives
