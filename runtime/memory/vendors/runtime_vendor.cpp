#include "runtime/memory/vendors/runtime_vendor.hpp"

#include <fmt/format.h>

namespace hmc::memory {

using namespace runtime_api;

RuntimeVendor::RuntimeVendor(const LibraryNames& library, const Names& names)
    : library_(library), api_(library_, names) {
  why_not_ = library_.why_not();
  if (!why_not_.empty()) return;
  const DriverResult result = api_.device_count(&count_);
  if (!result.ok()) {
    count_ = 0;
    why_not_ = fmt::format("{} answered {} ({})", result.call, code_name(result.code), result.code);
  } else if (count_ == 0) {
    why_not_ = "the library sees no device";
  }
}

int RuntimeVendor::version() const noexcept {
  int number = 0;
  return api_.version(&number).ok() ? number : 0;
}

std::string RuntimeVendor::code_name(long code) const {
  if (!api_.error_name) return {};
  const char* const text = api_.error_name.raw()(static_cast<int>(code));
  return text == nullptr ? "" : text;
}

// `previous` holds the caller's device + 1; null means that no device must be restored.
DriverResult RuntimeVendor::enter(int device, void*& previous) const noexcept {
  previous = nullptr;
  int current = -1;
  if (const DriverResult result = api_.get_device(&current); !result.ok()) return result;
  if (current == device) return {api_.set_device.name(), 0};
  previous = reinterpret_cast<void*>(static_cast<std::intptr_t>(current) + 1);
  return api_.set_device(device);
}
void RuntimeVendor::leave(void* previous) const noexcept {
  if (previous != nullptr) (void)api_.set_device(static_cast<int>(reinterpret_cast<std::intptr_t>(previous)) - 1);
}

bool RuntimeVendor::has(Backing backing) const noexcept {
  switch (backing) {
    case Backing::pinned: return static_cast<bool>(api_.allocate_host);
    case Backing::managed: return static_cast<bool>(api_.allocate_managed);
    case Backing::stream_ordered: return static_cast<bool>(api_.allocate_async);
    default: return true;
  }
}

DriverResult RuntimeVendor::allocate(void*& address, std::size_t bytes, Backing backing, void* stream) const noexcept {
  switch (backing) {
    case Backing::pinned: return api_.allocate_host(&address, bytes, host_alloc_portable);
    case Backing::managed: return api_.allocate_managed(&address, bytes, attach_global);
    case Backing::stream_ordered: return api_.allocate_async(&address, bytes, stream);
    default: return api_.allocate(&address, bytes);
  }
}
DriverResult RuntimeVendor::free(void* address, Backing backing, void* stream) const noexcept {
  if (backing == Backing::pinned) return api_.free_host(address);
  if (backing == Backing::stream_ordered) return api_.free_async(address, stream);
  return api_.free(address);
}

DriverResult RuntimeVendor::pin(void* address, std::size_t bytes) const noexcept {
  return api_.pin(address, bytes, host_register_portable);
}

namespace {

int kind_of(Direction direction) noexcept {
  return direction == Direction::host_to_device ? to_device : direction == Direction::device_to_host ? to_host : within;
}

}  // namespace

DriverResult RuntimeVendor::copy(const Transfer& transfer, void* stream) const noexcept {
  if (transfer.direction == Direction::device_to_device && transfer.source_device != transfer.destination_device &&
      api_.copy_peer)
    return api_.copy_peer(transfer.destination, transfer.destination_device, transfer.source, transfer.source_device,
                          transfer.width, stream);
  return api_.copy(transfer.destination, transfer.source, transfer.width, memory::kind_of(transfer.direction), stream);
}
DriverResult RuntimeVendor::copy_2d(const Transfer& transfer, void* stream) const noexcept {
  return api_.copy_2d(transfer.destination, transfer.destination_pitch, transfer.source, transfer.source_pitch,
                      transfer.width, transfer.height, memory::kind_of(transfer.direction), stream);
}
DriverResult RuntimeVendor::fill(void* destination, unsigned char value, std::size_t bytes,
                                 void* stream) const noexcept {
  return api_.fill(destination, value, bytes, stream);
}

DriverResult RuntimeVendor::create_stream(void*& stream) const noexcept {
  return api_.create_stream(&stream, stream_non_blocking);
}
DriverResult RuntimeVendor::create_event(void*& event) const noexcept {
  return api_.create_event(&event, event_disable_timing);
}
DriverResult RuntimeVendor::query_stream(bool& done, void* stream) const noexcept {
  const DriverResult result = api_.query_stream(stream);
  return done_or(done, result, result.code == error_not_ready);
}
DriverResult RuntimeVendor::query_event(bool& done, void* event) const noexcept {
  const DriverResult result = api_.query_event(event);
  return done_or(done, result, result.code == error_not_ready);
}

PointerInfo RuntimeVendor::query(const void* address) const noexcept {
  PointerAttributes attributes{};
  if (!api_.pointer(&attributes, address).ok()) return {};
  const PointerKind kind = kind_of(attributes);
  return {kind, kind == PointerKind::unknown ? -1 : attributes.device};
}

}  // namespace hmc::memory
