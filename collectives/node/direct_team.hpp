// DirectTeam: a team whose ranks all reach each other by load and store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/args/signature.hpp"
#include "collectives/mismatch/history.hpp"
#include "collectives/node/board.hpp"
#include "collectives/node/method_trials.hpp"
#include "collectives/node/private_buffer_method.hpp"
#include "runtime/base/status.hpp"
#include "runtime/rma/window_core.hpp"
#include "runtime/transport/shm/peer_reads.hpp"

namespace hmc::collectives {

class ScheduleTeam;

/// Where peers find a buffer: in a window, or in its owner's private memory. False if neither: the buffer is staged.
struct Placement {
  static constexpr std::uint32_t private_memory = ~std::uint32_t{0};

  std::uint64_t offset = 0;  ///< in private memory: the address in the owner's process
  std::uint32_t window = 0;  ///< id + 1
  /// Instead of `window`: id + 1 of a window over device memory that this rank's device can reduce in. Only kernels use
  /// it; to hosts the buffer is staged.
  std::uint32_t device_window = 0;
  explicit operator bool() const noexcept { return window != 0; }
  bool is_private() const noexcept { return window == private_memory; }
};

/// Payload of the arrival line of a large allreduce, and of each reduction that this rank's device can run. The devices
/// run the reduction if all ranks' devices can. Else the call continues on the hosts, with copies of device buffers.
struct Announcement {
  Placement in;
  Placement out;
  std::uint64_t in_slot = 0;  ///< as in pull's payload
};

/// The arena (boards) and the staging of one team, and the steps that every direct collective consists of. Failures are
/// sticky: after one, the team's ranks may be at different calls, so every later call returns the same status. One
/// thread at a time.
class DirectTeam {
 public:
  static constexpr std::size_t staging_at_start = std::size_t{512} << 10;

  /// `private_buffers`: HMC_COLL_PRIVATE.
  DirectTeam(rma::TeamCore& team, std::string_view private_buffers);
  /// Creates this rank's board in its part of the team's arena, while the arena is created.
  void prepare(std::byte* part) const;
  /// Connects to the arena of the team's schedules and to the state that it shares with them. Called before the first
  /// call.
  void join(ScheduleTeam& schedules);
  void close();

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  /// World rank, as statuses and wait notes use it.
  int world(int rank) const noexcept { return seats_[static_cast<std::size_t>(rank)].world; }
  rma::Fabric& fabric() const noexcept { return fabric_; }
  std::uint64_t id() const noexcept { return team_.id(); }  ///< team id on this rank

  // ---- arrival: once per call
  /// Begins the next collective. Waits until its lines may be written; then this rank owns slot(rank()).
  base::Status begin(Signature signature) noexcept;
  std::byte* slot(int rank) const noexcept { return board(rank).slots[sequence_ % turns]; }
  /// Publishes this rank's arrival with up to inline_bytes of payload. Earlier writes to its slot or staging are
  /// visible to a rank that sees the arrival.
  void arrive(const void* payload, std::size_t bytes) noexcept;
  base::Status wait_arrival(int rank) noexcept;
  base::Status wait_arrivals() noexcept;
  const std::byte* payload(int rank) const noexcept { return line(rank).payload; }

  // ---- phases: steps of this call
  std::uint64_t tag(std::uint64_t step) const noexcept { return (sequence_ << step_bits) + step; }
  /// Upper limit of a call's steps: more would collide with the next call's tags.
  static constexpr std::uint64_t too_many_steps = std::uint64_t{1} << 20;
  void publish(Phase phase, std::uint64_t tag) noexcept;
  base::Status wait_phase(Phase phase, int rank, std::uint64_t tag) noexcept;
  base::Status wait_phases(Phase phase, std::uint64_t tag) noexcept;

  // ---- staging
  std::byte* staging(int rank) const noexcept { return staging_[static_cast<std::size_t>(rank)]; }
  std::size_t staging_bytes() const noexcept { return staging_bytes_; }
  /// True if the staging holds `bytes` or has its maximum size.
  bool staging_fits(std::size_t bytes) const noexcept;
  /// Collective, inside a call at which all ranks have arrived. Requires that no staging is in use. Throws Error. On
  /// lack of memory the size stays unchanged.
  void grow_staging(std::size_t bytes);
  /// Waits until the peers have read what earlier calls left in this rank's staging.
  base::Status wait_staging_free() noexcept { return wait_phases(Phase::finished, staging_busy_); }
  /// Peers read from stagings until all ranks have published `finished` with this tag.
  void staging_in_use_until(std::uint64_t tag) noexcept { staging_busy_ = tag; }

  // ---- windows
  Placement place(const void* buffer, std::size_t bytes) const noexcept;
  /// Offers a buffer that lies in no window for reading from this rank's memory. Empty, so that the buffer is staged,
  /// if a rank of the team can't read it or if `way` and the trials prefer staging. `block`: the most that one peer
  /// reads; with try_both, equal on all ranks.
  Placement show_private(const void* buffer, std::size_t bytes, std::size_t block, PrivateBufferMethod way) noexcept;
  /// Counts an input: read in place, read from private memory, or staged.
  void count(const Placement& shown) noexcept;
  /// Start and end of a timed data movement, for blocks passed to show_private. Starts when all ranks have arrived.
  void begin_trial() noexcept;
  void end_trial() noexcept;
  /// Copies from a peer's private memory.
  base::Status read(int rank, const Placement& placement, std::size_t offset, void* to, std::size_t bytes) noexcept;
  /// The placement's address in this process; null if the window isn't open here.
  std::byte* reach(int rank, const Placement& placement) const noexcept;

  /// Stores the status as the team's failure and returns it.
  base::Status fail(const base::Status& status) noexcept;

  // scratch of the collectives, so that the steady state doesn't allocate memory
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
  bool reads_all() noexcept;
  bool all_read() noexcept;
  void ring_all() noexcept;
  base::Status let_others_catch_up() noexcept;
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
  std::uint64_t history_word_ = 0;  // up to the current call
  History* history_ = nullptr;
  ScheduleTeam* schedules_ = nullptr;
  base::Watch* watch_ = nullptr;
  base::Status failure_;
  transport::PeerReads reads_;
  enum class Answer { unknown, yes, no } all_read_ = Answer::unknown;
  MethodTrials ways_;
  struct Trial {
    std::size_t block = 0;  // 0: no trial
    bool reads = false;
    std::int64_t before = 0;  // cost of reading before all arrive: the check of this rank's own buffer
    std::int64_t begin = 0;
  } trial_;
  std::vector<Seat> seats_;
  std::vector<std::byte*> staging_;
  std::size_t staging_bytes_ = staging_at_start;
  std::shared_ptr<rma::WindowCore> larger_staging_;  // null while the staging is in the arena
};

}  // namespace hmc::collectives
