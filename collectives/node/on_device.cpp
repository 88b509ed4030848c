#include "collectives/node/on_device.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/device/kernel_reach.hpp"

namespace hmc::collectives {

using base::Status;

namespace {

constexpr std::size_t border_bytes = 4096;

Placement place(const rma::Core& core, const void* buffer) noexcept {
  Placement placement;
  placement.offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(buffer) - core.data());
  placement.device_window = static_cast<std::uint32_t>(core.id() + 1);
  return placement;
}

}  // namespace

DeviceReduction::DeviceReduction(DirectTeam& team, const ReduceCall& call, Op op, const Buffers& buffers)
    : team_(team), call_(call), op_(op) {
  if (call.kernel == nullptr || static_cast<int>(op) >= op_count) return;
  const auto around = [&](const void* buffer, std::size_t bytes) {
    return team.fabric().device_window_around(buffer, bytes, team.id());
  };
  rma::Core* const in = around(buffers.in, buffers.in_bytes);
  if (in == nullptr) return;
  const rma::KernelReach& from = in->kernel_reach();
  if (!from.why_not().empty()) return;
  if (buffers.out_bytes > 0) {
    out_ = around(buffers.out, buffers.out_bytes);
    if (out_ == nullptr) return;
    // One device's kernel reads the inputs and writes the outputs. A window can only be reached by the device of the
    // rank's own part.
    const rma::KernelReach& to = out_->kernel_reach();
    if (!to.why_not().empty() || from.device() != to.device() || &from.kernels() != &to.kernels()) return;
    mine_.out = place(*out_, buffers.out);
  }
  in_ = in;
  mine_.in = place(*in_, buffers.in);
}

Announcement DeviceReduction::shown_by(int rank) const noexcept {
  Announcement theirs = mine_;
  if (rank != team_.rank()) std::memcpy(&theirs, team_.payload(rank), sizeof theirs);
  return theirs;
}

Status DeviceReduction::meet(Signature signature) noexcept {
  if (const Status status = team_.begin(signature); !status.ok()) return status;
  team_.arrive(&mine_, sizeof mine_);
  if (const Status status = team_.wait_arrivals(); !status.ok()) return status;
  for (int rank = 0; rank < team_.size(); ++rank) {
    const Announcement theirs = shown_by(rank);
    if (theirs.in.device_window != mine_.in.device_window || !is_aligned(theirs.in) || !is_aligned(theirs.out))
      return Status::in_progress();
  }
  return {};
}

bool DeviceReduction::outputs_share_a_window() const noexcept {
  for (int rank = 0; rank < team_.size(); ++rank)
    if (shown_by(rank).out.device_window != mine_.out.device_window) return false;
  return true;
}

/// A window over the world is indexed by world rank.
std::byte* DeviceReduction::at(rma::Core& core, int rank, std::uint64_t offset) const {
  return core.kernel_reach().part(core.team_id() == 0 ? team_.world(rank) : rank) + offset;
}
std::byte* DeviceReduction::in(int rank, std::size_t offset) const {
  return at(*in_, rank, shown_by(rank).in.offset + offset);
}
std::byte* DeviceReduction::out(int rank, std::size_t offset) const {
  return at(*out_, rank, shown_by(rank).out.offset + offset);
}
std::byte* DeviceReduction::out_among_inputs(int rank, std::size_t offset) const {
  return at(*in_, rank, shown_by(rank).out.offset + offset);
}

DeviceReduction::Slice DeviceReduction::my_slice(std::size_t elements) const noexcept {
  const auto ranks = static_cast<std::size_t>(team_.size()), me = static_cast<std::size_t>(team_.rank());
  const std::size_t border = border_bytes / call_.element;
  const std::size_t length = ((elements + ranks - 1) / ranks + border - 1) / border * border;
  const std::size_t first = std::min(elements, me * length);
  return {first, std::min(length, elements - first)};
}

Status DeviceReduction::run(std::size_t inputs, std::size_t outputs, std::size_t count) noexcept {
  if (count > 0) {
    const Status status =
        in_->kernel_reach().reduce({team_.ins.data(), inputs}, {team_.outs.data(), outputs}, count, call_.type, op_);
    if (!status.ok()) return team_.fail(status);
  }
  team_.publish(Phase::reduced, team_.tag(0));
  if (const Status status = team_.wait_phases(Phase::reduced, team_.tag(0)); !status.ok()) return status;
  ++team_.fabric().counters.reduced_on_device;
  return {};
}

}  // namespace hmc::collectives
