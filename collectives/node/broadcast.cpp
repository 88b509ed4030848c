// Small: in the root's line or slot. Large: the other ranks copy from the root's window, or from a ring of chunks in
// the root's staging while the root fills the next chunks.
#include <algorithm>
#include <cstring>

#include "collectives/node/broadcast.hpp"

namespace hmc::collectives {

using base::Status;

namespace {

constexpr std::size_t broadcast_slots = 8;

/// Chunks are small enough that readers and root overlap, large enough that the flags' cost doesn't matter.
std::size_t chunk_of(std::size_t bytes, std::size_t staging) noexcept {
  return std::min(staging / broadcast_slots,
                  bytes <= (std::size_t{128} << 10) ? std::size_t{16} << 10 : std::size_t{64} << 10);
}

Status small(DirectTeam& team, const BroadcastCall& call, bool in_line) noexcept {
  if (team.rank() == call.root) {
    if (!in_line) std::memcpy(team.slot(call.root), call.data, call.bytes);
    team.arrive(call.data, in_line ? call.bytes : 0);
    return {};
  }
  team.arrive(nullptr, 0);
  if (const Status status = team.wait_arrival(call.root); !status.ok()) return status;
  if (call.bytes > 0) std::memcpy(call.data, in_line ? team.payload(call.root) : team.slot(call.root), call.bytes);
  return {};
}

Status from_window(DirectTeam& team, const BroadcastCall& call) noexcept {
  const std::uint64_t tag = team.tag(0);
  if (team.rank() == call.root) return team.wait_phases(Phase::finished, tag);  // then the caller may reuse the buffer
  Announcement root;
  std::memcpy(&root, team.payload(call.root), sizeof root);
  if (root.in.is_private()) {
    if (const Status status = team.read(call.root, root.in, 0, call.data, call.bytes); !status.ok()) return status;
    team.publish(Phase::finished, tag);
    return {};
  }
  const std::byte* const source = team.reach(call.root, root.in);
  if (source == nullptr)
    return team.fail(Status::failure(Code::closed, "the root's window isn't open here", team.world(call.root)));
  std::memcpy(call.data, source, call.bytes);
  team.publish(Phase::finished, tag);
  return {};
}

Status stage(DirectTeam& team, const BroadcastCall& call, std::size_t chunk, std::size_t i) noexcept {
  if (i >= broadcast_slots) {
    if (const Status status = team.wait_phases(Phase::finished, team.tag(i - broadcast_slots)); !status.ok())
      return status;
  }
  const std::size_t offset = i * chunk;
  std::memcpy(team.staging(call.root) + i % broadcast_slots * chunk, static_cast<std::byte*>(call.data) + offset,
              std::min(chunk, call.bytes - offset));
  team.publish(Phase::staged, team.tag(i));
  return {};
}

Status ring_root(DirectTeam& team, const BroadcastCall& call, std::size_t chunk) noexcept {
  const std::size_t chunks = (call.bytes + chunk - 1) / chunk;
  for (std::size_t i = 1; i < chunks; ++i) {
    if (const Status status = stage(team, call, chunk, i); !status.ok()) return status;
  }
  return {};
}

Status ring_reader(DirectTeam& team, const BroadcastCall& call, std::size_t chunk) noexcept {
  const std::size_t chunks = (call.bytes + chunk - 1) / chunk;
  for (std::size_t i = 0; i < chunks; ++i) {
    if (const Status status = team.wait_phase(Phase::staged, call.root, team.tag(i)); !status.ok()) return status;
    const std::size_t offset = i * chunk;
    std::memcpy(static_cast<std::byte*>(call.data) + offset, team.staging(call.root) + i % broadcast_slots * chunk,
                std::min(chunk, call.bytes - offset));
    team.publish(Phase::finished, team.tag(i));
  }
  return {};
}

Status large(DirectTeam& team, const BroadcastCall& call) noexcept {
  const bool is_root = team.rank() == call.root;
  const std::size_t chunk = chunk_of(call.bytes, team.staging_bytes());
  Announcement mine;
  if (is_root) {
    mine.in = team.place(call.data, call.bytes);
    if (!mine.in)
      mine.in = team.show_private(call.data, call.bytes, call.bytes,
                                  private_way(schedule::Collective::broadcast, team.size(), call.bytes));
    team.count(mine.in);
    if (!mine.in) {
      if (const Status status = team.wait_staging_free(); !status.ok()) return status;
      // A rank that sees the root's arrival finds the first chunk staged.
      if (const Status status = stage(team, call, chunk, 0); !status.ok()) return status;
    }
  }
  team.arrive(&mine, sizeof mine);
  if (const Status status = team.wait_arrival(call.root); !status.ok()) return status;
  Announcement root = mine;
  if (!is_root) std::memcpy(&root, team.payload(call.root), sizeof root);
  if (root.in) return from_window(team, call);
  if (call.bytes / chunk >= DirectTeam::too_many_steps - 1)
    return team.fail(Status::failure(Code::invalid_argument, "a buffer outside of windows that is too large to stage"));
  // The root reads nothing: it publishes `finished` at once, for ranks that later wait for all.
  if (is_root) team.publish(Phase::finished, team.tag((call.bytes - 1) / chunk));
  team.staging_in_use_until(team.tag((call.bytes - 1) / chunk));
  return is_root ? ring_root(team, call, chunk) : ring_reader(team, call, chunk);
}

}  // namespace

Status broadcast_direct(DirectTeam& team, const BroadcastCall& call) noexcept {
  if (const Status status = team.begin(call.signature()); !status.ok()) return status;
  if (call.bytes <= slot_bytes) return small(team, call, call.bytes <= inline_bytes);
  return large(team, call);
}

}  // namespace hmc::collectives
