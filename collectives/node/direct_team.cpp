#include "collectives/node/direct_team.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "collectives/network/schedule_team.hpp"
#include "runtime/rma/operation_scope.hpp"

namespace hmc::collectives {

using base::Status;

namespace {

constexpr std::size_t staging_at_most = std::size_t{16} << 20;

// The rank that is furthest ahead may detect a mismatch first. Its report must include the other ranks' present calls.
static_assert(FailureReport::before >= turns + 2 * Arena::areas);

}  // namespace

DirectTeam::DirectTeam(rma::TeamCore& team, std::string_view private_buffers)
    : team_(team), fabric_(team.fabric()), rank_(team.rank()), size_(team.size()), reads_(private_buffers) {
  const auto size = static_cast<std::size_t>(size_);
  ins.resize(size);
  outs.resize(size);
  in_begins.resize(size);
  out_begins.resize(size);
  slice_ins.reserve(size);
  slice_outs.reserve(size + 1);
}

void DirectTeam::prepare(std::byte* part) const {
  static_assert(Arena::board_offset % alignof(Board) == 0 && sizeof(Board) <= Arena::board_bytes);
  // New arena memory is zero, which is the initial state of all lines. Only the probe needs a value.
  reinterpret_cast<Board*>(part + Arena::board_offset)->probe.memory = reads_.probe();
}

void DirectTeam::join(ScheduleTeam& schedules) {
  schedules_ = &schedules;
  history_ = &schedules.history();
  watch_ = schedules.watch();
  const Arena& arena = schedules.arena();
  for (const rma::WindowPeer& peer : arena.window().peers()) {
    seats_.push_back({reinterpret_cast<Board*>(peer.direct + Arena::board_offset), peer.world, peer.local_index});
    staging_.push_back(peer.direct + arena.bulk_offset());
  }
  board(rank_).probe.reads_next = reads_next() ? 1 : 0;
}

/// Tests the next rank; all_read() combines the tests of all ranks. The kernel compares credentials, the target's
/// dumpable flag, and process namespaces. If each rank can read the next one in the ring, then all have the same
/// credentials and namespace, every flag was tested, and so was every rank's permission to make the call. Tests of all
/// pairs would cost N^2 system calls at the start. Later teams reuse the result.
bool DirectTeam::reads_next() noexcept {
  if (!reads_.wanted()) return false;
  const int next = rank_ + 1 == size_ ? 0 : rank_ + 1;
  rma::FabricPeer::Readable& known = fabric_.peer(world(next)).readable;
  if (known == rma::FabricPeer::Readable::untested)
    known = reads_.try_on(board(next).probe.memory) ? rma::FabricPeer::Readable::yes : rma::FabricPeer::Readable::no;
  return known == rma::FabricPeer::Readable::yes;
}

bool DirectTeam::all_read() noexcept {
  if (all_read_ == Known::unknown) [[unlikely]] {
    for (int peer = 0; peer < size_; ++peer) {
      // Acquire: pairs with the release in arrive. A rank that hasn't arrived at its first call may still be probing.
      if (peer != rank_ && board(peer).arrivals[1].sequence.load(std::memory_order_acquire) == 0) return false;
    }
    all_read_ = Known::yes;
    for (int peer = 0; peer < size_; ++peer)
      if (board(peer).probe.reads_next == 0) all_read_ = Known::no;
  }
  return all_read_ == Known::yes;
}

void DirectTeam::close() {
  if (larger_staging_ != nullptr) larger_staging_->close();
}

Status DirectTeam::fail(const Status& status) noexcept {
  failure_ = status;
  return status;
}

/// Waits until all other ranks are at most turns / 2 calls behind. Then this rank can make turns / 2 more calls without
/// a wait.
[[gnu::noinline]] Status DirectTeam::let_others_catch_up() noexcept {
  const std::uint64_t there = sequence_ + 1 - turns / 2;
  const std::uint64_t called = board(rank_).arrivals[there % lines].history;
  for (int i = 1; i < size_; ++i) {
    if (const Status status = wait_line((rank_ + i) % size_, there, called); !status.ok()) return status;
  }
  all_arrived_ = there;
  return {};
}

void DirectTeam::arrive(const void* payload, std::size_t bytes) noexcept {
  ArrivalLine& line = this->line(rank_);
  line.history = history_word_;
  if (bytes == 8) {
    std::memcpy(line.payload, payload, 8);
  } else if (bytes > 0) {
    std::memcpy(line.payload, payload, bytes);
  }
  // Release: pairs with the acquire in wait_line. Publishes the line, the slot, the staging and earlier direct puts.
  line.sequence.store(sequence_, std::memory_order_release);
  ring_all();
}

void DirectTeam::ring_all() noexcept {
  if (!fabric_.waiter.someone_sleeps()) return;
  for (int i = 1; i < size_; ++i) {
    const int peer = (rank_ + i) % size_;
    fabric_.waiter.ring_sleeper(seats_[static_cast<std::size_t>(peer)].local_index);
  }
}

/// `history`: this rank's history up to call `sequence`.
Status DirectTeam::wait_line(int rank, std::uint64_t sequence, std::uint64_t history) noexcept {
  const ArrivalLine& line = board(rank).arrivals[sequence % lines];
  // Acquire: pairs with the release in arrive.
  const auto arrived = [&]() noexcept { return line.sequence.load(std::memory_order_acquire) >= sequence; };
  const Status status = fabric_.waiter.until(
      {base::activity_of(signature_.collective()), world(rank), sequence, watch_, bytes_}, arrived, fabric_.timeout);
  if (!status.ok()) return status;
  // The line can't change during this read. The peer reuses it for call sequence + lines, and begins that call only
  // after this rank has arrived at sequence + turns + 1. This rank is at most at sequence + turns / 2.
  if (line.history != history) [[unlikely]]
    return Status::failure(Code::mismatch, "ranks called different collectives", world(rank));
  return {};
}

Status DirectTeam::wait_arrival(int rank) noexcept {
  if (rank == rank_) return {};
  const Status status = wait_line(rank, sequence_, history_word_);
  return status.ok() ? status : fail(status);
}

Status DirectTeam::wait_arrivals() noexcept {
  for (int i = 1; i < size_; ++i) {
    const int peer = rank_ + i < size_ ? rank_ + i : rank_ + i - size_;
    if (const Status status = wait_line(peer, sequence_, history_word_); !status.ok()) [[unlikely]]
      return fail(status);
  }
  all_arrived_ = sequence_;
  return {};
}

void DirectTeam::publish(Phase phase, std::uint64_t tag) noexcept {
  // Release: pairs with the acquire in wait_phase. Orders this phase's reads and writes before the tag.
  board(rank_).phases[static_cast<int>(phase)].tag.store(tag, std::memory_order_release);
  ring_all();
}

Status DirectTeam::wait_phase(Phase phase, int rank, std::uint64_t tag) noexcept {
  PhaseLine& line = board(rank).phases[static_cast<int>(phase)];
  // Acquire: pairs with the release in publish.
  const auto reached = [&]() noexcept { return line.tag.load(std::memory_order_acquire) >= tag; };
  const Status status = fabric_.waiter.until(
      {base::activity_of(signature_.collective()), world(rank), sequence_, watch_, bytes_}, reached, fabric_.timeout);
  return status.ok() ? status : fail(status);
}

Status DirectTeam::wait_phases(Phase phase, std::uint64_t tag) noexcept {
  for (int i = 1; i < size_; ++i) {
    if (const Status status = wait_phase(phase, (rank_ + i) % size_, tag); !status.ok()) return status;
  }
  return {};
}

bool DirectTeam::staging_fits(std::size_t bytes) const noexcept {
  return !grows_ || staging_bytes() >= std::min(bytes, staging_at_most);
}

void DirectTeam::grow_staging(std::size_t bytes) {
  // Wait notes and errors show the collective, not the creation of a window.
  const base::ActivityScope posted(fabric_.waiter.page().activity(fabric_.waiter.local_index()),
                                   {base::activity_of(signature_.collective())});
  const rma::OperationScope user(fabric_, name_of(signature_.collective()));
  // At least double the size, so that a program with growing messages reallocates the staging only a few times.
  const std::size_t wanted =
      std::min(std::max(base::round_up(bytes, std::size_t{64} << 10), 2 * staging_bytes()), staging_at_most);
  std::shared_ptr<rma::WindowCore> larger;
  try {
    larger = rma::create_window(team_, wanted, rma::WindowCore::Role::internal);
  } catch (const Error& error) {
    // All ranks get the same error and continue with the present size: calls take more steps.
    if (error.code() != Code::out_of_memory) throw;
    grows_ = false;
    return;
  }
  if (larger_staging_ != nullptr) larger_staging_->close();
  larger_staging_ = std::move(larger);
  for (std::size_t rank = 0; rank < staging_.size(); ++rank) staging_[rank] = larger_staging_->peers()[rank].direct;
  staging_bytes_ = larger_staging_->bytes();
  staging_busy_ = 0;  // all ranks have created the larger staging, so no rank reads the old one
}

Placement DirectTeam::place(const void* buffer, std::size_t bytes) const noexcept {
  const rma::WindowCore* const window = fabric_.windows.around(buffer, bytes, team_.id(), false);
  if (window == nullptr) return {};
  const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(buffer) - window->data());
  return {offset, static_cast<std::uint32_t>(window->id() + 1)};
}

PrivateBufferMethod DirectTeam::choose_method(PrivateBufferMethod way, std::size_t block) noexcept {
  if (reads_.forced() || way != PrivateBufferMethod::try_both) return way;
  std::atomic<std::uint64_t>& decided = board(0).probe.decided;
  if (rank_ != 0) trials_.follow(decided.load(std::memory_order_relaxed));
  const MethodTrials::Trial next = trials_.next(block);
  if (rank_ == 0) decided.store(trials_.decided(), std::memory_order_relaxed);
  if (next.is_timed && all_read()) {
    trial_.block = block;
    trial_.reads = next.is_new;
  }
  return next.is_new ? PrivateBufferMethod::read : PrivateBufferMethod::stage;
}

Placement DirectTeam::show_private(const void* buffer, std::size_t bytes, PrivateBufferMethod method) noexcept {
  if (bytes == 0 || (!reads_.forced() && method != PrivateBufferMethod::read) || !all_read()) return {};
  const std::int64_t begin = in_trial() ? base::now_ns() : 0;
  if (!reads_.is_readable(buffer, bytes)) {
    trial_ = {};  // an unreadable buffer gives no sample
    return {};
  }
  if (in_trial()) trial_.before = base::now_ns() - begin;
  return {reinterpret_cast<std::uintptr_t>(buffer), Placement::private_memory};
}

void DirectTeam::count(const Placement& shown) noexcept {
  Counters& counters = fabric_.counters;
  ++(shown.is_private() ? counters.buffers_read : shown ? counters.buffers_in_place : counters.buffers_staged);
}

void DirectTeam::begin_trial() noexcept {
  if (in_trial()) trial_.begin = base::now_ns();
}

void DirectTeam::end_trial(std::size_t block) noexcept {
  // Of an alltoallv the trial's size is that of an earlier call.
  if (in_trial() && std::bit_width(block) == std::bit_width(trial_.block))
    trials_.record_time(block, trial_.reads, trial_.before + base::now_ns() - trial_.begin);
}

Status DirectTeam::read(int rank, const Placement& placement, std::size_t offset, void* to,
                        std::size_t bytes) noexcept {
  const Status status =
      transport::PeerReads::read(board(rank).probe.memory.process, placement.offset + offset, to, bytes, world(rank));
  if (status.ok()) {
    // If the owner has failed in this call, it may have reused its buffer, and the bytes may be wrong. It publishes its
    // report before it reuses the buffer. Therefore check for the report after the read.
    base::full_fence();
    const Status known = schedules_->check_owner(rank);
    return known.ok() ? known : fail(known);
  }
  const Status aborted = fabric_.waiter.page().aborted();  // an abort of the job states the cause
  return fail(aborted.ok() ? status : aborted);
}

std::byte* DirectTeam::reach(int rank, const Placement& placement) const noexcept {
  const rma::WindowCore* const window = fabric_.windows.find(placement.window - 1);
  if (window == nullptr) return nullptr;
  const int there = window->team_id() == 0 ? world(rank) : rank;
  std::byte* const direct = window->peers()[static_cast<std::size_t>(there)].direct;
  return direct == nullptr ? nullptr : direct + placement.offset;
}

}  // namespace hmc::collectives
