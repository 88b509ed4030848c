// Small: each input in its owner's line or slot. Large: out of the owner's window, or chunk by chunk out of a ring in
// its staging. Inputs are combined in rank order, all at once: results don't depend on how they were cut.
//
// Why nothing is overwritten that somebody still reads: lines and slots as Board says. A chunk of the ring is written
// again when all have published `finished` for the step that used it; who reads nothing has published the last step's
// at once. The first chunk is staged when all have arrived, so have left the last call; a later call that stages
// earlier waits for `finished` (staging_in_use_until). An input in a window is its caller's again when all have
// finished. An output that is the input is written where its chunk has been staged before, and such an input is never
// read in its window.
#include "collectives/direct/pull.hpp"

#include <algorithm>
#include <cstring>

namespace hmc::collectives {

using base::Status;
using schedule::Collective;

namespace {

constexpr std::size_t ring_slots = 4;

/// Of a block: small enough that giver and taker overlap, large enough that flags don't matter.
constexpr std::size_t staged_at_once(std::size_t block) noexcept {
  return block <= std::size_t{128} << 10 ? std::size_t{32} << 10 : std::size_t{64} << 10;
}

/// Below this, waiting for each chunk costs more than what a schedule does.
constexpr std::size_t least_chunk = 1024;

/// An input is a block for each rank.
bool has_parts(Collective collective) noexcept {
  return collective == Collective::scatter || collective == Collective::alltoall ||
         collective == Collective::reduce_scatter;
}
std::size_t parts_of(const DirectTeam& team, Collective collective) noexcept {
  return has_parts(collective) ? static_cast<std::size_t>(team.size()) : 1;
}

/// Of a block: a slot of the ring holds one of each part, in whole elements and lines.
std::size_t chunk_of(const DirectTeam& team, std::size_t parts, std::size_t block, std::size_t element) noexcept {
  const std::size_t most = std::min(team.staging_bytes() / ring_slots / parts, staged_at_once(block));
  return most / line_bytes * line_bytes / element * element;
}

class Pull {
 public:
  Pull(DirectTeam& team, const Given& given) noexcept
      : team_(team),
        given_(given),
        collective_(given.call.collective),
        rank_(team.rank()),
        size_(team.size()),
        parts_(parts_of(team, collective_)),
        block_(given.bytes()),
        in_(static_cast<const std::byte*>(given.input)),
        out_(static_cast<std::byte*>(given.output)) {}

  Status run() noexcept {
    if (const Status status = team_.begin(given_.signature); !status.ok()) return status;
    return block_ <= slot_bytes / parts_ ? small() : large();
  }

 private:
  // ---- who gives, who takes from whom
  bool is_root() const noexcept { return rank_ == given_.call.root; }
  bool gives() const noexcept {
    switch (collective_) {
      case Collective::gather:
      case Collective::reduce: return !is_root();
      case Collective::scatter: return is_root();
      case Collective::scan:
      case Collective::exscan: return rank_ < size_ - 1;
      default: return size_ > 1;
    }
  }
  bool has_result() const noexcept {
    switch (collective_) {
      case Collective::gather:
      case Collective::reduce: return is_root();
      case Collective::exscan: return rank_ > 0;
      default: return true;
    }
  }
  bool takes_from(int peer) const noexcept {
    if (peer == rank_ || !has_result()) return false;
    switch (collective_) {
      case Collective::scatter: return peer == given_.call.root;
      case Collective::scan:
      case Collective::exscan: return peer < rank_;
      default: return true;
    }
  }
  bool takes_from_all() const noexcept {
    return collective_ != Collective::scatter && collective_ != Collective::scan && collective_ != Collective::exscan;
  }
  int next(int i) const noexcept { return rank_ + i < size_ ? rank_ + i : rank_ + i - size_; }
  /// Which of an input's parts is mine.
  std::size_t my_part() const noexcept { return parts_ == 1 ? 0 : static_cast<std::size_t>(rank_); }
  const std::byte* own_input() const noexcept { return in_ + my_part() * block_; }

  // ---- what is done with `bytes` from `offset` of every block; sources_ says where they stand
  void consume(std::size_t offset, std::size_t bytes) noexcept {
    if (schedule::reduces(collective_)) return combine(offset, bytes);
    for (int i = 1; i < size_ && bytes > 0; ++i) {
      const int peer = next(i);
      if (takes_from(peer)) std::memcpy(result_of(peer) + offset, source(peer), bytes);
    }
  }
  void combine(std::size_t offset, std::size_t bytes) noexcept {
    const bool prefix = collective_ == Collective::scan || collective_ == Collective::exscan;
    const int end = !prefix ? size_ : collective_ == Collective::scan ? rank_ + 1 : rank_;
    if (rank_ < end) team_.ins[static_cast<std::size_t>(rank_)] = own_input() + offset;
    void* const to = out_ + offset;
    reduce(given_.reduction, &to, 1, team_.ins.data(), end, bytes / given_.call.element_bytes, team_.scratch);
  }
  const void*& source(int peer) const noexcept { return team_.ins[static_cast<std::size_t>(peer)]; }
  std::byte* result_of(int peer) const noexcept {
    return collective_ == Collective::scatter ? out_ : out_ + static_cast<std::size_t>(peer) * block_;
  }
  /// What I have of my own result, where no reduction puts it there.
  void keep_own() noexcept {
    if (schedule::reduces(collective_) || !has_result() || block_ == 0) return;
    if (collective_ == Collective::scatter && !is_root()) return;
    if (std::byte* const own = result_of(rank_); own != own_input()) std::memcpy(own, own_input(), block_);
  }

  // ---- small
  Status small() noexcept {
    const std::size_t bytes = parts_ * block_;
    const bool in_line = bytes <= inline_bytes;
    if (gives() && !in_line) std::memcpy(team_.slot(rank_), in_, bytes);
    team_.arrive(in_, gives() && in_line ? bytes : 0);
    if (!has_result()) return {};
    keep_own();
    if (const Status status = wait_arrivals(); !status.ok()) return status;
    for (int i = 1; i < size_; ++i) {
      const int peer = next(i);
      source(peer) = (in_line ? team_.payload(peer) : team_.slot(peer)) + my_part() * block_;
    }
    consume(0, block_);
    return {};
  }
  Status wait_arrivals() noexcept {
    if (takes_from_all()) return team_.wait_arrivals();
    for (int i = 1; i < size_; ++i) {
      if (!takes_from(next(i))) continue;
      if (const Status status = team_.wait_arrival(next(i)); !status.ok()) return status;
    }
    return {};
  }

  // ---- large
  Status large() noexcept {
    const bool overwritten = given_.call.in_place && collective_ != Collective::scatter;
    if (gives()) {
      if (!overwritten) mine_.in = team_.place(in_, parts_ * block_);
      Counters& counters = team_.fabric().counters;
      ++(mine_.in ? counters.buffers_in_place : counters.buffers_staged);
    }
    team_.arrive(&mine_, sizeof mine_);
    if (const Status status = team_.wait_arrivals(); !status.ok()) return status;

    chunk_ = chunk_of(team_, parts_, block_, given_.call.element_bytes);
    steps_ = (block_ + chunk_ - 1) / chunk_;
    const std::uint64_t last = team_.tag(steps_ - 1);
    team_.staging_in_use_until(last);
    if (!has_result()) team_.publish(Phase::finished, last);
    if (const Status status = step_by_step(); !status.ok()) return status;
    return mine_.in ? team_.wait_phases(Phase::finished, last) : Status{};
  }

  std::size_t length(std::size_t step) const noexcept { return std::min(chunk_, block_ - step * chunk_); }
  std::byte* staged(int rank, std::size_t step, std::size_t part) const noexcept {
    return team_.staging(rank) + (step % ring_slots * parts_ + part) * chunk_;
  }

  Status step_by_step() noexcept {
    const bool stages = gives() && !mine_.in;
    std::size_t done = 0;
    for (std::size_t step = 0; step < steps_; ++step) {
      // The ring is kept one step ahead, so that peers find the next chunk when they are done with this one.
      for (; stages && done < steps_ && done <= step + 1; ++done) {
        if (const Status status = stage(done); !status.ok()) return status;
      }
      if (!has_result()) continue;
      if (step == 0) keep_own();
      if (const Status status = await_sources(step); !status.ok()) return status;
      consume(step * chunk_, length(step));
      team_.publish(Phase::finished, team_.tag(step));
    }
    return {};
  }

  Status stage(std::size_t step) noexcept {
    if (step >= ring_slots) {
      if (const Status status = team_.wait_phases(Phase::finished, team_.tag(step - ring_slots)); !status.ok())
        return status;
    }
    for (std::size_t part = 0; part < parts_; ++part) {
      // Nobody but me takes my own part.
      if (parts_ > 1 && part == static_cast<std::size_t>(rank_)) continue;
      std::memcpy(staged(rank_, step, part), in_ + part * block_ + step * chunk_, length(step));
    }
    team_.publish(Phase::staged, team_.tag(step));
    return {};
  }

  Status await_sources(std::size_t step) noexcept {
    for (int i = 1; i < size_; ++i) {
      const int peer = next(i);
      if (!takes_from(peer)) continue;
      Announcement theirs;
      std::memcpy(&theirs, team_.payload(peer), sizeof theirs);
      if (!theirs.in) {
        if (const Status status = team_.wait_phase(Phase::staged, peer, team_.tag(step)); !status.ok()) return status;
        source(peer) = staged(peer, step, my_part());
        continue;
      }
      const std::byte* const input = team_.reach(peer, theirs.in);
      if (input == nullptr)
        return team_.fail(Status::failure(Code::closed, "a peer's window isn't open here", team_.world(peer)));
      source(peer) = input + my_part() * block_ + step * chunk_;
    }
    return {};
  }

  DirectTeam& team_;
  const Given& given_;
  Collective collective_;
  int rank_;
  int size_;
  std::size_t parts_;
  std::size_t block_;  // bytes
  const std::byte* in_;
  std::byte* out_;
  Announcement mine_;
  std::size_t chunk_ = 0;
  std::size_t steps_ = 0;
};

}  // namespace

bool pulls(const DirectTeam& team, const Given& given) noexcept {
  switch (given.call.collective) {
    case Collective::gather:
    case Collective::scatter:
    case Collective::alltoall:
    case Collective::reduce:
    case Collective::reduce_scatter:
    case Collective::scan:
    case Collective::exscan: break;
    default: return false;
  }
  if (given.call.irregular()) return false;
  // All ranks come to the same answer: these are the same everywhere.
  const std::size_t parts = parts_of(team, given.call.collective);
  const std::size_t block = given.bytes();
  if (block <= slot_bytes / parts) return true;
  const std::size_t chunk = chunk_of(team, parts, block, given.call.element_bytes);
  return chunk >= std::min(block, least_chunk) && block / chunk < DirectTeam::too_many_steps - 1;
}

Status pull(DirectTeam& team, const Given& given) noexcept { return Pull(team, given).run(); }

}  // namespace hmc::collectives
