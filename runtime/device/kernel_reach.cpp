#include "runtime/device/kernel_reach.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/segment.hpp"
#include "runtime/device/device_path.hpp"
#include "runtime/memory/device_stream.hpp"
#include "runtime/memory/kernels.hpp"
#include "runtime/rma/window_core.hpp"

namespace hmc::device {

KernelReach::KernelReach(const rma::WindowCore& core, const DeviceChannels& channels) {
  std::string from;
  why_not_ = find(core, channels);
  if (why_not_.empty()) from = kernels_->origin(device_);
  core.fabric().log.info("kernels over window {}: {}", core.id(), why_not_.empty() ? from : "none, " + why_not_);
}
KernelReach::~KernelReach() = default;

std::string KernelReach::find(const rma::WindowCore& core, const DeviceChannels& channels) {
  if (core.peers().size() > most_inputs) return fmt::format("more than {} ranks", most_inputs);
  const memory::Provider* provider = nullptr;
  std::vector<memory::Allocation*> allocations;
  for (std::size_t rank = 0; rank < core.peers().size(); ++rank) {
    const rma::WindowPeer& peer = core.peers()[rank];
    const DeviceMemory* const mapped = rank < channels.size() && channels[rank] ? channels[rank]->mapped() : nullptr;
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

Registration::Registration(const memory::Provider& provider, int device, std::byte* address, std::size_t bytes)
    : provider_(&provider), device_(device) {
  const memory::Kernels* const kernels = provider.kernels();
  if (kernels == nullptr || address == nullptr) return;
  const memory::OnDevice here(kernels->vendor(), device);
  if (!here.result().ok()) return;
  const std::size_t before = reinterpret_cast<std::uintptr_t>(address) % base::page_size();
  std::byte* const start = address - before;  // drivers register whole pages
  if (kernels->calls().register_host(start, base::round_up(before + bytes, base::page_size())).ok())
    registered_ = start;
  void* seen = nullptr;
  if (kernels->calls().device_address(seen, address).ok()) seen_ = static_cast<std::byte*>(seen);
}
Registration::Registration(Registration&& other) noexcept
    : provider_(other.provider_),
      device_(other.device_),
      registered_(std::exchange(other.registered_, nullptr)),
      seen_(other.seen_) {}
Registration::~Registration() {
  if (registered_ == nullptr) return;
  const memory::Kernels& kernels = *provider_->kernels();
  (void)memory::on_device(kernels.vendor(), device_, [&] { return kernels.calls().unregister_host(registered_); });
}

namespace {

/// The distance between consecutive parts; 0 if the distances or sizes differ, or a part has no address.
std::uint64_t stride_of(const std::vector<DeviceHandle::Part>& parts) noexcept {
  if (parts[0].address == nullptr) return 0;
  if (parts.size() == 1) return parts[0].bytes;
  const auto at = [&](std::size_t rank) { return reinterpret_cast<std::uint64_t>(parts[rank].address); };
  if (at(1) <= at(0)) return 0;
  const std::uint64_t stride = at(1) - at(0);
  for (std::size_t rank = 1; rank < parts.size(); ++rank)
    if (parts[rank].address == nullptr || parts[rank].bytes != parts[0].bytes || at(rank) != at(0) + rank * stride)
      return 0;
  return stride;
}

}  // namespace

DeviceView::DeviceView(const rma::WindowCore& core, const DeviceChannels& channels, const NodeRange* range,
                       const rma::WindowCore* context, const memory::Provider& provider, int device)
    : provider_(provider), device_(device), has_context_(context != nullptr) {
  std::vector<DeviceHandle::Part> parts;
  const std::vector<std::byte*> starts = reach_all(core, channels, range);
  for (std::size_t rank = 0; rank < starts.size(); ++rank) {
    DeviceHandle::Part part{reinterpret_cast<unsigned char*>(starts[rank]), core.peers()[rank].bytes, nullptr};
    if (context != nullptr) part.context = reinterpret_cast<unsigned char*>(reach(context->peers()[rank], nullptr));
    parts.push_back(part);
  }
  const std::size_t bytes = parts.size() * sizeof parts[0];
  table_ = provider.allocate(device, bytes, memory::Backing::plain);
  require(core.fabric(), provider.copy_from_host(table_->address, parts.data(), bytes), {"Window::device_handle"});
  handle_ = {core.rank(), static_cast<int>(parts.size()), reinterpret_cast<const DeviceHandle::Part*>(table_->address)};
  if (const std::uint64_t stride = stride_of(parts); stride != 0) {
    handle_.base = parts[0].address;
    handle_.stride = stride;
    handle_.bytes = parts[0].bytes;
  }
}

std::vector<std::byte*> DeviceView::reach_all(const rma::WindowCore& core, const DeviceChannels& channels,
                                              const NodeRange* range) {
  const auto size = static_cast<int>(core.peers().size());
  std::vector<std::byte*> starts;
  for (int rank = 0; rank < size; ++rank) {
    memory::Allocation* const placed = range == nullptr ? nullptr : range->at(rank);
    if (placed == nullptr || placed->provider != &provider_ || !placed->let_reach(device_)) break;
    starts.push_back(placed->address);
  }
  if (starts.size() == core.peers().size()) return starts;
  // Some part isn't in the range, so kernels must read the table. All addresses in the handle are then those of the
  // parts' own mappings, and none is in the range.
  starts.clear();
  for (std::size_t rank = 0; rank < core.peers().size(); ++rank)
    starts.push_back(reach(core.peers()[rank], rank < channels.size() ? channels[rank].get() : nullptr));
  return starts;
}

/// `channel`: null if the part is host memory.
std::byte* DeviceView::reach(const rma::WindowPeer& peer, const DeviceChannel* channel) {
  if (channel == nullptr) {
    if (peer.direct == nullptr || peer.bytes == 0) return nullptr;
    return registered_.emplace_back(provider_, device_, peer.direct, peer.bytes).seen();
  }
  const DeviceMemory* const mapped = channel->mapped();
  if (mapped == nullptr || mapped->owner().provider != &provider_) return nullptr;
  return mapped->allocation()->let_reach(device_) ? mapped->allocation()->address : nullptr;
}

}  // namespace hmc::device
