#include "collectives/device/reduction.hpp"

#include <algorithm>
#include <cstring>

#include "collectives/node/parts.hpp"
#include "runtime/rma/device_access.hpp"

namespace hmc::collectives {

using base::Status;

namespace {

constexpr std::size_t slice_border_bytes = 4096;

Placement place(const rma::WindowCore& core, const void* buffer) noexcept {
  Placement placement;
  placement.offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(buffer) - core.data());
  placement.device_window = static_cast<std::uint32_t>(core.id() + 1);
  return placement;
}

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(a), second = reinterpret_cast<std::uintptr_t>(b);
  return b_bytes > 0 && first < second + b_bytes && second < first + a_bytes;
}

}  // namespace

DeviceReduction::DeviceReduction(DirectTeam& team, const CollectiveArgs& args)
    : team_(team), args_(args), roles_{args.call.collective, team.rank(), team.size(), args.call.root} {
  const schedule::Call& call = args.call;
  if (!reduces(call.collective) || args.reducer.kernel == nullptr) return;
  if (Parts(team, args).block() <= slot_bytes / parts_of(team, call.collective)) return;
  const schedule::Shape shape{team.size(), 1};
  const std::size_t in_bytes = schedule::input_bytes(shape, call, team.rank());
  const std::size_t out_bytes = roles_.has_result() ? schedule::output_bytes(shape, call, team.rank()) : 0;
  const bool has_slices = call.collective == CollectiveKind::allreduce || call.collective == CollectiveKind::reduce;
  if (!(has_slices && call.in_place) && overlap(args.input, in_bytes, args.output, out_bytes)) return;

  const auto around = [&](const void* buffer, std::size_t bytes) {
    return team.fabric().windows.around(buffer, bytes, team.id(), true);
  };
  rma::WindowCore* const in = around(args.input, in_bytes);
  if (in == nullptr) return;
  const rma::KernelAccess& from = in->devices().kernel_access();
  if (!from.why_not().empty()) return;
  if (out_bytes > 0) {
    out_ = around(args.output, out_bytes);
    if (out_ == nullptr) return;
    // The same device must read the inputs and write the outputs. Only the device of this rank's own part can access a
    // window.
    const rma::KernelAccess& to = out_->devices().kernel_access();
    if (!to.why_not().empty() || from.device() != to.device() || &from.kernels() != &to.kernels()) return;
    mine_.out = place(*out_, args.output);
  }
  in_ = in;
  mine_.in = place(*in_, args.input);
}

Announcement DeviceReduction::shown_by(int rank) const noexcept {
  Announcement theirs = mine_;
  if (rank != team_.rank()) std::memcpy(&theirs, team_.payload(rank), sizeof theirs);
  return theirs;
}

Status DeviceReduction::agree(bool& agreed) noexcept {
  agreed = false;
  if (const Status status = team_.begin(args_.signature, args_.bytes()); !status.ok()) return status;
  team_.arrive(&mine_, sizeof mine_);
  if (const Status status = team_.wait_arrivals(); !status.ok()) return status;
  const bool needs_one_output_window = args_.call.collective == CollectiveKind::allreduce;
  for (int rank = 0; rank < team_.size(); ++rank) {
    const Announcement theirs = shown_by(rank);
    if (theirs.in.device_window != mine_.in.device_window || !is_aligned(theirs.in) || !is_aligned(theirs.out))
      return {};
    if (needs_one_output_window && theirs.out.device_window != mine_.out.device_window) return {};
  }
  agreed = true;
  return {};
}

/// Returns the address for this rank's kernels. A window over the world is indexed by world rank.
std::byte* DeviceReduction::at(rma::WindowCore& core, int rank, std::uint64_t offset) const {
  return core.devices().kernel_access().part(core.team_id() == 0 ? team_.world(rank) : rank) + offset;
}

DeviceReduction::Share DeviceReduction::my_slice() const noexcept {
  const auto ranks = static_cast<std::size_t>(team_.size()), me = static_cast<std::size_t>(team_.rank());
  const std::size_t elements = args_.call.count, border = slice_border_bytes / args_.call.element_bytes;
  const std::size_t length = ((elements + ranks - 1) / ranks + border - 1) / border * border;
  const std::size_t first = std::min(elements, me * length);
  return {ranks, first * args_.call.element_bytes, std::min(length, elements - first)};
}

/// Sets the team's outs and outputs_.
DeviceReduction::Share DeviceReduction::my_share() {
  const schedule::Call& call = args_.call;
  const auto ranks = static_cast<std::size_t>(team_.size()), me = static_cast<std::size_t>(team_.rank());
  if (call.collective == CollectiveKind::allreduce) {
    const Share slice = my_slice();
    for (int rank = 0; rank < team_.size(); ++rank)
      team_.outs[static_cast<std::size_t>(rank)] = at(*out_, rank, shown_by(rank).out.offset + slice.from);
    outputs_ = ranks;
    return slice;
  }
  if (const Announcement root = shown_by(call.root);
      call.collective == CollectiveKind::reduce && root.out.device_window == root.in.device_window) {
    const Share slice = my_slice();
    team_.outs[0] = at(*in_, call.root, root.out.offset + slice.from);
    return slice;
  }
  if (!roles_.has_result()) return {ranks};
  const Parts parts(team_, args_);
  const std::size_t count = parts.out_bytes(me) / call.element_bytes;
  if (count == 0) return {ranks};
  const auto inputs = static_cast<std::size_t>(contributions(call.collective, team_.rank(), team_.size()));
  team_.outs[0] = at(*out_, team_.rank(), mine_.out.offset);
  return {inputs, parts.in_begin(me), count};
}

Status DeviceReduction::run() noexcept {
  const Share share = my_share();
  for (std::size_t rank = 0; rank < share.inputs; ++rank) {
    const int from = static_cast<int>(rank);
    team_.ins[rank] = at(*in_, from, shown_by(from).in.offset + share.from);
  }
  if (share.count > 0) {
    const Status status =
        in_->devices().kernel_access().reduce({team_.ins.data(), share.inputs}, {team_.outs.data(), outputs_},
                                              share.count, args_.reducer.type, args_.call.op);
    if (!status.ok()) return team_.fail(status);
  }
  team_.publish(Phase::reduced, team_.tag(0));
  if (const Status status = team_.wait_phases(Phase::reduced, team_.tag(0)); !status.ok()) return status;
  ++team_.fabric().counters.reduced_on_device;
  return {};
}

}  // namespace hmc::collectives
