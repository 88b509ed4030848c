// Small: everyone sends all to everyone and reduces for itself. Large: in one round slice r goes to rank
// r, in the next each rank sends its reduced slice to all.
#include <algorithm>
#include <cstring>

#include "collectives/allreduce/allreduce.hpp"

namespace hmc::collectives {

using base::Status;

namespace {

using View = std::span<const std::byte>;

Status all_to_all(RoundTeam& team, const ReduceCall& call) noexcept {
  const View mine(static_cast<const std::byte*>(call.in), call.bytes());
  if (const Status status = team.round([&](int) noexcept { return mine; }); !status.ok()) return status;
  for (int rank = 0; rank < team.size(); ++rank)
    team.ins[static_cast<std::size_t>(rank)] = rank == team.rank() ? call.in : team.received(rank);
  void* out = call.out;
  reduce(call, &out, 1, team.ins.data(), team.size(), call.count, team.scratch);
  return {};
}

/// Elements [first, first + count), a slice per rank.
Status slice_wise(RoundTeam& team, const ReduceCall& call, std::size_t first, std::size_t count) noexcept {
  const std::size_t length =
      (count + static_cast<std::size_t>(team.size()) - 1) / static_cast<std::size_t>(team.size());
  const auto begin = [&](int rank) noexcept { return std::min(count, static_cast<std::size_t>(rank) * length); };
  const auto bytes = [&](int rank) noexcept { return std::min(length, count - begin(rank)) * call.element; };
  const auto at = [&](int rank) noexcept { return (first + begin(rank)) * call.element; };
  const auto* const in = static_cast<const std::byte*>(call.in);
  auto* const out = static_cast<std::byte*>(call.out);

  const auto inputs = [&](int peer) noexcept { return View(in + at(peer), bytes(peer)); };
  if (const Status status = team.round(inputs); !status.ok()) return status;
  const int me = team.rank();
  for (int rank = 0; rank < team.size(); ++rank)
    team.ins[static_cast<std::size_t>(rank)] = rank == me ? static_cast<const void*>(in + at(me)) : team.received(rank);
  void* own = out + at(me);
  reduce(call, &own, 1, team.ins.data(), team.size(), bytes(me) / call.element, team.scratch);

  if (const Status status = team.round([&](int) noexcept { return View(out + at(me), bytes(me)); }); !status.ok())
    return status;
  for (int rank = 0; rank < team.size(); ++rank)
    if (rank != me && bytes(rank) > 0) std::memcpy(out + at(rank), team.received(rank), bytes(rank));
  return {};
}

}  // namespace

Status allreduce_rounds(RoundTeam& team, const ReduceCall& call) noexcept {
  if (const Status status = team.begin(call.signature); !status.ok()) return status;
  if (call.bytes() <= std::min<std::size_t>(team.slot_bytes(), 2048)) return all_to_all(team, call);
  const std::size_t piece = team.slot_bytes() / call.element * static_cast<std::size_t>(team.size());
  for (std::size_t first = 0; first < call.count; first += piece) {
    if (const Status status = slice_wise(team, call, first, std::min(piece, call.count - first)); !status.ok())
      return status;
  }
  return {};
}

}  // namespace hmc::collectives
