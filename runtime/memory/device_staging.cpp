// DeviceProvider: host staging memory for a device's copies, pinned once and kept.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <new>

#include "runtime/memory/device_provider.hpp"
#include "runtime/memory/device_stream.hpp"

namespace hmc::memory {

namespace {

constexpr std::size_t smallest_block = std::size_t{64} << 10;

/// Rounds up so that similar sizes share a block. At most an eighth of a large block is wasted.
std::size_t block_size(std::size_t bytes) {
  if (bytes > SIZE_MAX / 4) throw Error(Code::out_of_memory, "copy", fmt::format("no host memory of {} bytes", bytes));
  const std::size_t step = std::max(smallest_block, std::bit_floor(bytes) / 8);
  return std::max((bytes + step - 1) / step * step, smallest_block);
}

}  // namespace

std::unique_ptr<Stage> DeviceProvider::take_stage(int device) const {
  check_device(device, "copy");
  {
    const std::scoped_lock lock(staging_mutex_);
    const auto found = std::find_if(idle_stages_.begin(), idle_stages_.end(),
                                    [&](const auto& stage) { return stage->device() == device; });
    if (found != idle_stages_.end()) {
      auto stage = std::move(*found);
      idle_stages_.erase(found);
      return stage;
    }
  }
  return std::make_unique<Stage>(*this, device);
}

void DeviceProvider::give_back(std::unique_ptr<Stage> stage) const noexcept {
  try {
    const std::scoped_lock lock(staging_mutex_);
    idle_stages_.push_back(std::move(stage));
  } catch (const std::bad_alloc&) {
    // The stage is destroyed.
  }
}

HostBlock DeviceProvider::take_block(int device, std::size_t bytes) const {
  {
    const std::scoped_lock lock(staging_mutex_);
    auto best = idle_blocks_.end();
    for (auto each = idle_blocks_.begin(); each != idle_blocks_.end(); ++each)
      if (each->bytes >= bytes && (best == idle_blocks_.end() || each->bytes < best->bytes)) best = each;
    if (best != idle_blocks_.end()) {
      HostBlock block = std::move(*best);
      idle_blocks_.erase(best);
      kept_bytes_ -= block.bytes;
      return block;
    }
  }
  HostBlock block;
  block.bytes = block_size(bytes);
  block.why_pageable = why_not(Backing::pinned);
  if (block.why_pageable.empty()) {
    try {
      block.pinned = make(device, block.bytes, Backing::pinned);
      block.data = block.pinned->address;
      return block;
    } catch (const Error& error) {
      block.why_pageable = error.detail().message;
    }
  }
  block.pageable.reset(new (std::nothrow) std::byte[block.bytes]);
  block.data = block.pageable.get();
  if (block.data == nullptr)
    throw Error(Code::out_of_memory, "copy",
                fmt::format("no host memory of {} bytes: {}", block.bytes, block.why_pageable));
  return block;
}

void DeviceProvider::give_back(HostBlock block) const noexcept {
  if (block.data == nullptr) return;
  try {
    const std::scoped_lock lock(staging_mutex_);
    // A block that couldn't be pinned is freed, so that the next take_block() tries again to pin.
    if (block.pinned == nullptr && why_not(Backing::pinned).empty()) return;
    if (kept_bytes_ + block.bytes > kept_bytes_max) return;
    const std::size_t bytes = block.bytes;
    idle_blocks_.push_back(std::move(block));
    kept_bytes_ += bytes;
  } catch (const std::bad_alloc&) {
    // The block is freed.
  }
}

std::shared_ptr<void> DeviceProvider::pin(int device, void* address, std::size_t bytes) const {
  check_device(device, "pin");
  failures_.check(on_device(*vendor_, device, [&] { return vendor_->pin(address, bytes); }), "pin");
  return {address,
          [this, device](void* pinned) { (void)on_device(*vendor_, device, [&] { return vendor_->unpin(pinned); }); }};
}

}  // namespace hmc::memory
