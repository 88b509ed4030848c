// Small blocks: in the arrival lines or slots. Large blocks: each rank copies every block from the owner's window or
// private memory, or in chunks from the owner's staging.
#include <algorithm>
#include <cstring>

#include "collectives/node/engine.hpp"

namespace hmc::collectives::node_engine {

using base::Status;

namespace {

constexpr std::size_t allgather_slots = 4;
constexpr std::size_t largest_chunk = std::size_t{128} << 10;  // larger chunks overlap less
constexpr std::size_t staged_before_arrival = std::size_t{16} << 10;

std::byte* block_of(const CollectiveArgs& args, int rank) noexcept {
  return static_cast<std::byte*>(args.output) + static_cast<std::size_t>(rank) * args.bytes();
}

void keep_own(DirectTeam& team, const CollectiveArgs& args) noexcept {
  // In place: the caller's block may already be at its position in the output.
  std::byte* const own = block_of(args, team.rank());
  if (args.bytes() > 0 && own != args.input) std::memcpy(own, args.input, args.bytes());
}

Status allgather_small(DirectTeam& team, const CollectiveArgs& args, bool in_line) noexcept {
  if (!in_line) std::memcpy(team.slot(team.rank()), args.input, args.bytes());
  team.arrive(args.input, in_line ? args.bytes() : 0);
  keep_own(team, args);
  if (const Status status = team.wait_arrivals(); !status.ok()) return status;
  for (int i = 1; i < team.size() && args.bytes() > 0; ++i) {
    const int peer = (team.rank() + i) % team.size();
    std::memcpy(block_of(args, peer), in_line ? team.payload(peer) : team.slot(peer), args.bytes());
  }
  return {};
}

Announcement announcement_of(DirectTeam& team, int rank) noexcept {
  Announcement announcement;
  std::memcpy(&announcement, team.payload(rank), sizeof announcement);
  return announcement;
}

/// Copies chunk `step` of every peer's block from the peer's window or staging. A block in private memory is copied as
/// a whole in step 0. The ring holds the chunks of several steps.
Status step_of(DirectTeam& team, const CollectiveArgs& args, std::size_t step, std::size_t chunk) noexcept {
  const std::size_t offset = step * chunk;
  const std::size_t bytes = std::min(chunk, args.bytes() - offset);
  for (int i = 1; i < team.size(); ++i) {
    const int peer = (team.rank() + i) % team.size();
    const Announcement theirs = announcement_of(team, peer);
    if (theirs.in.is_private()) {  // at once and whole
      if (step > 0) continue;
      if (const Status status = team.read(peer, theirs.in, 0, block_of(args, peer), args.bytes()); !status.ok())
        return status;
      continue;
    }
    if (theirs.in) {
      const std::byte* const source = team.reach(peer, theirs.in);
      if (source == nullptr)
        return team.fail(Status::failure(Code::closed, "a peer's window isn't open here", team.world(peer)));
      std::memcpy(block_of(args, peer) + offset, source + offset, bytes);
      continue;
    }
    if (const Status status = team.wait_phase(Phase::staged, peer, team.tag(step)); !status.ok()) return status;
    std::memcpy(block_of(args, peer) + offset, team.staging(peer) + step % allgather_slots * chunk, bytes);
  }
  team.publish(Phase::finished, team.tag(step));
  return {};
}

Status allgather_stage(DirectTeam& team, const CollectiveArgs& args, std::size_t step, std::size_t chunk) noexcept {
  if (step >= allgather_slots) {
    if (const Status status = team.wait_phases(Phase::finished, team.tag(step - allgather_slots)); !status.ok())
      return status;
  }
  const std::size_t offset = step * chunk;
  std::memcpy(team.staging(team.rank()) + step % allgather_slots * chunk,
              static_cast<const std::byte*>(args.input) + offset, std::min(chunk, args.bytes() - offset));
  team.publish(Phase::staged, team.tag(step));
  return {};
}

bool some_input_is_private(const DirectTeam& team, const Announcement& mine) noexcept {
  for (int rank = 0; rank < team.size(); ++rank) {
    Announcement theirs = mine;
    if (rank != team.rank()) std::memcpy(&theirs, team.payload(rank), sizeof theirs);
    if (!theirs.in.is_in_window()) return true;
  }
  return false;
}

Status allgather_large(DirectTeam& team, const CollectiveArgs& args) noexcept {
  Announcement mine;
  const PrivateBufferMethod method =
      team.choose_method(private_buffer_method(CollectiveKind::allgather, team.size(), args.bytes()), args.bytes());
  mine.in = team.place(args.input, args.bytes());
  if (!mine.in) mine.in = team.show_private(args.input, args.bytes(), method);
  team.count(mine.in);
  const std::size_t chunk = std::min(largest_chunk, team.staging_bytes() / allgather_slots);
  const std::size_t steps = (args.bytes() + chunk - 1) / chunk;
  std::size_t staged = 0;
  if (!mine.in) {
    if (const Status status = team.wait_staging_free(); !status.ok()) return status;
    // Stage a small block before the arrival, so that peers can copy it at once. For a larger block this would delay
    // peers that could already copy other blocks.
    if (args.bytes() <= staged_before_arrival) {
      if (const Status status = allgather_stage(team, args, staged++, chunk); !status.ok()) return status;
    }
  }
  team.arrive(&mine, sizeof mine);
  if (const Status status = team.wait_arrivals(); !status.ok()) return status;

  team.begin_trial();
  if (steps >= DirectTeam::too_many_steps)
    return team.fail(Status::failure(Code::invalid_argument, "blocks that are too large to go chunk by chunk"));
  team.staging_in_use_until(team.tag(steps - 1));
  for (std::size_t step = 0; step < steps; ++step) {
    // Stage one step ahead, so that peers don't wait for the next chunk.
    for (; !mine.in && staged < steps && staged <= step + 1; ++staged) {
      if (const Status status = allgather_stage(team, args, staged, chunk); !status.ok()) return status;
    }
    if (step == 0) keep_own(team, args);
    if (const Status status = step_of(team, args, step, chunk); !status.ok()) return status;
  }
  // The caller may reuse the buffer only after all peers have read it.
  if (mine.in) {
    if (const Status status = team.wait_phases(Phase::finished, team.tag(steps - 1)); !status.ok()) return status;
  }
  if (team.in_trial() && some_input_is_private(team, mine)) team.end_trial(args.bytes());
  return {};
}

}  // namespace

Status allgather(DirectTeam& team, const CollectiveArgs& args) noexcept {
  if (const Status status = team.begin(args.signature, args.bytes()); !status.ok()) return status;
  if (args.bytes() <= slot_bytes) return allgather_small(team, args, args.bytes() <= inline_bytes);
  return allgather_large(team, args);
}

}  // namespace hmc::collectives::node_engine
