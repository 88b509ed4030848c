#include "runtime/device/kernel_reach.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/device/device_channel.hpp"
#include "runtime/memory/kernels.hpp"
#include "runtime/rma/window_core.hpp"

namespace hmc::rma {

KernelReach::KernelReach(const WindowCore& core) {
  std::string from;
  why_not_ = find(core);
  if (why_not_.empty()) from = kernels_->origin(device_);
  core.fabric().log.info("kernels over window {}: {}", core.id(), why_not_.empty() ? from : "none, " + why_not_);
}
KernelReach::~KernelReach() = default;

std::string KernelReach::find(const WindowCore& core) {
  if (core.peers().size() > most_inputs) return fmt::format("more than {} ranks", most_inputs);
  const memory::Provider* provider = nullptr;
  std::vector<memory::Allocation*> allocations;
  for (std::size_t rank = 0; rank < core.peers().size(); ++rank) {
    const WindowPeer& peer = core.peers()[rank];
    const DeviceMemory* const mapped = peer.on_device ? static_cast<DeviceChannel*>(peer.channel)->mapped() : nullptr;
    if (mapped == nullptr) return fmt::format("rank {}'s part isn't device memory that is mapped here", peer.world);
    if (provider == nullptr) provider = mapped->owner().provider;
    if (mapped->owner().provider != provider) return fmt::format("rank {}'s device is another vendor's", peer.world);
    allocations.push_back(mapped->allocation().get());
  }
  kernels_ = provider->kernels();
  if (kernels_ == nullptr) return fmt::format("HMC has no kernels for {} devices", provider->name());
  device_ = allocations[static_cast<std::size_t>(core.rank())]->device;
  if (std::string why = kernels_->why_not(device_); !why.empty()) return why;
  for (memory::Allocation* const each : allocations) {
    if (!each->let_reach(device_))
      return fmt::format("device {} doesn't reach device {}'s memory", device_, each->device);
    parts_.push_back(each->address);
  }
  try {
    stream_ = provider->make_stream(device_);
  } catch (const Error& error) {
    return error.detail().message;
  }
  return {};
}

base::Status KernelReach::reduce(std::span<const void* const> ins, std::span<void* const> outs, std::size_t count,
                                 DType type, Op op) noexcept {
  memory::ReduceArguments call{};
  std::copy(ins.begin(), ins.end(), call.ins);
  std::copy(outs.begin(), outs.end(), call.outs);
  call.in_count = static_cast<int>(ins.size());
  call.out_count = static_cast<int>(outs.size());
  call.op = static_cast<int>(op);
  call.count = count;
  const base::Status started = kernels_->reduce(device_, type, call, stream_->native());
  const base::Status finished = stream_->synchronize();
  return started.ok() ? finished : started;
}

}  // namespace hmc::rma
