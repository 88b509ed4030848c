// Small messages: in the root's line or slot. Large messages: the other ranks copy from the root's window or private
// memory, or from a ring of chunks in its staging while the root fills the next chunks.
#include <algorithm>
#include <cstring>

#include "collectives/node/engine.hpp"

namespace hmc::collectives::node_engine {

using base::Status;

namespace {

constexpr std::size_t broadcast_slots = 8;

/// Chunks are small enough that readers and root overlap, large enough that the cost of the flags is negligible.
std::size_t chunk_of(std::size_t bytes, std::size_t staging) noexcept {
  return std::min(staging / broadcast_slots,
                  bytes <= (std::size_t{128} << 10) ? std::size_t{16} << 10 : std::size_t{64} << 10);
}

[[gnu::noinline]] Status receive_small(DirectTeam& team, const CollectiveArgs& args, bool in_line) noexcept {
  team.arrive(nullptr, 0);
  if (const Status status = team.wait_arrival(args.call.root); !status.ok()) return status;
  if (args.bytes() > 0)
    std::memcpy(args.output, in_line ? team.payload(args.call.root) : team.slot(args.call.root), args.bytes());
  return {};
}

Status from_window(DirectTeam& team, const CollectiveArgs& args) noexcept {
  const std::uint64_t tag = team.tag(0);
  if (team.rank() == args.call.root)
    return team.wait_phases(Phase::finished, tag);  // the caller may reuse the buffer afterwards
  Announcement root;
  std::memcpy(&root, team.payload(args.call.root), sizeof root);
  if (root.in.is_private()) {
    if (const Status status = team.read(args.call.root, root.in, 0, args.output, args.bytes()); !status.ok())
      return status;
    team.publish(Phase::finished, tag);
    return {};
  }
  const std::byte* const source = team.reach(args.call.root, root.in);
  if (source == nullptr)
    return team.fail(Status::failure(Code::closed, "the root's window isn't open here", team.world(args.call.root)));
  std::memcpy(args.output, source, args.bytes());
  team.publish(Phase::finished, tag);
  return {};
}

Status broadcast_stage(DirectTeam& team, const CollectiveArgs& args, std::size_t chunk, std::size_t i) noexcept {
  if (i >= broadcast_slots) {
    if (const Status status = team.wait_phases(Phase::finished, team.tag(i - broadcast_slots)); !status.ok())
      return status;
  }
  const std::size_t offset = i * chunk;
  std::memcpy(team.staging(args.call.root) + i % broadcast_slots * chunk,
              static_cast<const std::byte*>(args.input) + offset, std::min(chunk, args.bytes() - offset));
  team.publish(Phase::staged, team.tag(i));
  return {};
}

Status ring_root(DirectTeam& team, const CollectiveArgs& args, std::size_t chunk) noexcept {
  const std::size_t chunks = (args.bytes() + chunk - 1) / chunk;
  for (std::size_t i = 1; i < chunks; ++i) {
    if (const Status status = broadcast_stage(team, args, chunk, i); !status.ok()) return status;
  }
  return {};
}

Status ring_reader(DirectTeam& team, const CollectiveArgs& args, std::size_t chunk) noexcept {
  const std::size_t chunks = (args.bytes() + chunk - 1) / chunk;
  for (std::size_t i = 0; i < chunks; ++i) {
    if (const Status status = team.wait_phase(Phase::staged, args.call.root, team.tag(i)); !status.ok()) return status;
    const std::size_t offset = i * chunk;
    std::memcpy(static_cast<std::byte*>(args.output) + offset,
                team.staging(args.call.root) + i % broadcast_slots * chunk, std::min(chunk, args.bytes() - offset));
    team.publish(Phase::finished, team.tag(i));
  }
  return {};
}

[[gnu::noinline]] Status broadcast_large(DirectTeam& team, const CollectiveArgs& args) noexcept {
  const bool is_root = team.rank() == args.call.root;
  const std::size_t chunk = chunk_of(args.bytes(), team.staging_bytes());
  Announcement mine;
  if (is_root) {
    mine.in = team.place(args.input, args.bytes());
    if (!mine.in)
      mine.in = team.show_private(args.input, args.bytes(),
                                  private_buffer_method(CollectiveKind::broadcast, team.size(), args.bytes()));
    team.count(mine.in);
    if (!mine.in) {
      if (const Status status = team.wait_staging_free(); !status.ok()) return status;
      // Stage the first chunk before the arrival, so that peers can copy it at once.
      if (const Status status = broadcast_stage(team, args, chunk, 0); !status.ok()) return status;
    }
  }
  team.arrive(&mine, sizeof mine);
  if (const Status status = team.wait_arrival(args.call.root); !status.ok()) return status;
  Announcement root = mine;
  if (!is_root) std::memcpy(&root, team.payload(args.call.root), sizeof root);
  if (root.in) return from_window(team, args);
  if (args.bytes() / chunk >= DirectTeam::too_many_steps - 1)
    return team.fail(Status::failure(Code::invalid_argument, "a buffer outside of windows that is too large to stage"));
  // The root reads no staging, so it publishes `finished` at once. Later calls wait for this tag of all ranks.
  if (is_root) team.publish(Phase::finished, team.tag((args.bytes() - 1) / chunk));
  team.staging_in_use_until(team.tag((args.bytes() - 1) / chunk));
  return is_root ? ring_root(team, args, chunk) : ring_reader(team, args, chunk);
}

}  // namespace

Status broadcast(DirectTeam& team, const CollectiveArgs& args) noexcept {
  if (const Status status = team.begin(args.signature, args.bytes()); !status.ok()) return status;
  const std::size_t bytes = args.bytes();
  if (bytes > slot_bytes) return broadcast_large(team, args);
  const bool in_line = bytes <= inline_bytes;
  if (team.rank() != args.call.root) return receive_small(team, args, in_line);
  if (!in_line) std::memcpy(team.slot(args.call.root), args.input, bytes);
  team.arrive(args.input, in_line ? bytes : 0);
  return {};
}

}  // namespace hmc::collectives::node_engine
