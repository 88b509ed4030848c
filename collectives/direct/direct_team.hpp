// DirectTeam: a team whose ranks all reach each other by load and store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/args/signature.hpp"
#include "collectives/direct/board.hpp"
#include "collectives/direct/private_way.hpp"
#include "collectives/direct/tried_ways.hpp"
#include "collectives/execute/history.hpp"
#include "runtime/base/status.hpp"
#include "runtime/transport/shm/peer_reads.hpp"
#include "runtime/window/core.hpp"

namespace hmc::collectives {

class ScheduleTeam;

/// Where peers find a buffer: in a window, or in its owner's memory. Else nowhere: it goes through staging.
struct Placement {
  static constexpr std::uint32_t private_memory = ~std::uint32_t{0};

  std::uint64_t offset = 0;  ///< in private memory, the address there
  std::uint32_t window = 0;  ///< id + 1
  /// In its stead, id + 1 of a device's window: this rank's device can reduce there. Kernels find it; to hosts it is
  /// staged.
  std::uint32_t device_window = 0;
  explicit operator bool() const noexcept { return window != 0; }
  bool is_private() const noexcept { return window == private_memory; }
};

/// What rides in the arrival line of a large allreduce, and of each reduction that this rank's device can do: if all
/// ranks' can, the devices do it, and if not, the hosts.
struct Announcement {
  Placement in;
  Placement out;
  std::uint64_t in_slot = 0;  ///< as pull reads it
};
/// What a rank answers whose device would reduce, while another rank's won't: nothing has happened.
inline bool is_for_host(const base::Status& status) noexcept { return status.code == Code::in_progress; }

/// The arena (boards) and the staging of one team, and the few steps that every direct collective is
/// made of. Failures stick: after one, the team's ranks may be at different calls, so every later call
/// gives the same status. One thread at a time.
class DirectTeam {
 public:
  /// `private_buffers`: HMC_COLL_PRIVATE.
  DirectTeam(window::TeamCore& team, std::string_view private_buffers);
  void close();
  /// What it shares with the team's schedules, before the first call.
  void join(ScheduleTeam& schedules) noexcept;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  /// What statuses and notes of waits name.
  int world(int rank) const noexcept { return seats_[static_cast<std::size_t>(rank)].world; }
  window::Fabric& fabric() const noexcept { return fabric_; }
  std::uint64_t id() const noexcept { return team_.id(); }  ///< of the team, here

  // ---- arrival: once per call
  /// Begins the next collective: waits until its lines may be written, so that slot() is mine.
  base::Status begin(Signature signature) noexcept;
  std::byte* slot(int rank) const noexcept { return board(rank).slots[sequence_ % turns]; }
  /// Shows that I have arrived, with up to inline_bytes of payload; what I wrote to slot() or staging
  /// before is visible to who sees it.
  void arrive(const void* payload, std::size_t bytes) noexcept;
  base::Status wait_arrival(int rank) noexcept;
  base::Status wait_arrivals() noexcept;
  const std::byte* payload(int rank) const noexcept { return line(rank).payload; }

  // ---- phases: steps of this call
  std::uint64_t tag(std::uint64_t step) const noexcept { return (sequence_ << step_bits) + step; }
  /// A call of this many steps would run into the next one's tags.
  static constexpr std::uint64_t too_many_steps = std::uint64_t{1} << 20;
  void publish(Phase phase, std::uint64_t tag) noexcept;
  base::Status wait_phase(Phase phase, int rank, std::uint64_t tag) noexcept;
  base::Status wait_phases(Phase phase, std::uint64_t tag) noexcept;

  // ---- staging
  std::byte* staging(int rank) const noexcept { return staging_[static_cast<std::size_t>(rank)]; }
  std::size_t staging_bytes() const noexcept { return staging_window_->bytes(); }
  /// It holds `bytes`, or is as large as it can become.
  bool staging_fits(std::size_t bytes) const noexcept;
  /// Collective, inside a call that all have arrived at: throws Error. Nothing may be in the staging. Where there is no
  /// memory it stays as it is.
  void grow_staging(std::size_t bytes);
  /// Until the peers have taken what they read from my staging in earlier calls.
  base::Status wait_staging_free() noexcept { return wait_phases(Phase::finished, staging_busy_); }
  /// From now until all have published `finished` with this tag, peers read from stagings.
  void staging_in_use_until(std::uint64_t tag) noexcept { staging_busy_ = tag; }

  // ---- windows
  Placement place(const void* buffer, std::size_t bytes) const noexcept;
  /// Of a buffer that lies in no window, where all of the team can read it out of my memory, and shall.
  /// `block`: what one peer takes at most, and if both ways are tried the same on all ranks. Else nothing: it is
  /// staged.
  Placement show_private(const void* buffer, std::size_t bytes, std::size_t block, PrivateWay way) noexcept;
  /// Of an input, what became of it: peers take it where it lies, or it is staged.
  void count(const Placement& shown) noexcept;
  /// Around the moving of blocks that show_private was asked of: from when all are there.
  void begin_trial() noexcept;
  void end_trial() noexcept;
  /// Copies out of a peer's private memory.
  base::Status read(int rank, const Placement& placement, std::size_t offset, void* to, std::size_t bytes) noexcept;
  /// The placement's address as I reach it; null if there is no such window here.
  std::byte* reach(int rank, const Placement& placement) const noexcept;

  /// Remembers and returns.
  base::Status fail(const base::Status& status) noexcept;

  // scratch of the collectives, so that the steady state doesn't allocate
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
  void map_staging();
  void try_reads() noexcept;
  bool all_read() noexcept;
  void ring_all() noexcept;
  base::Status let_others_catch_up() noexcept;
  base::Status wait_line(int rank, std::uint64_t sequence, std::uint64_t history) noexcept;

  window::TeamCore& team_;
  window::Fabric& fabric_;
  int rank_;
  int size_;
  std::uint64_t sequence_ = 0;     // of the present call
  std::uint64_t all_arrived_ = 0;  // a sequence at which I have seen everyone
  std::uint64_t staging_busy_ = 0;
  bool grows_ = true;
  Signature signature_;             // of the present call
  std::uint64_t history_word_ = 0;  // up to it
  History* history_ = nullptr;
  ScheduleTeam* schedules_ = nullptr;
  base::Watch* watch_ = nullptr;
  base::Status failure_;
  transport::PeerReads reads_;
  enum class Answer { unknown, yes, no } all_read_ = Answer::unknown;
  TriedWays ways_;
  struct Trial {
    std::size_t block = 0;  // 0: none
    bool reads = false;
    std::int64_t before = 0;  // what reading costs before all are there: the look at my own buffer
    std::int64_t begin = 0;
  } trial_;
  std::vector<Seat> seats_;
  std::vector<std::byte*> staging_;
  std::shared_ptr<window::Core> arena_;
  std::shared_ptr<window::Core> staging_window_;
};

}  // namespace hmc::collectives
