#include "runtime/memory/device_allocation.hpp"

#include "runtime/base/segment.hpp"

namespace hmc::memory {

std::shared_ptr<VmmRange> VmmRange::reserve(const Vendor& vendor, const Failures& failures, int device,
                                            std::size_t places, std::size_t bytes) {
  const OnDevice here(vendor, device);
  failures.check(here.result(), "reserve");
  std::size_t stride = bytes;
  for (int each = 0; each < vendor.device_count(); ++each) {  // the range may map memory of any device
    std::size_t granularity = 0;
    failures.check(vendor.vmm()->granularity(granularity, each), "reserve");
    stride = base::round_up(stride, granularity);
  }
  std::size_t total = 0;
  if (places == 0 || stride < bytes || __builtin_mul_overflow(places, stride, &total))
    throw Error(Code::out_of_memory, "reserve", "the address range is too large");
  std::shared_ptr<VmmRange> range(new VmmRange(vendor, device, places, stride));
  void* reserved = nullptr;
  failures.check(vendor.vmm()->reserve(reserved, total, 0), "reserve");
  range->base_ = static_cast<std::byte*>(reserved);
  return range;
}

VmmRange::~VmmRange() {
  if (base_ == nullptr) return;
  const OnDevice here(vendor_, device_);  // if this fails, unreserve may still succeed
  (void)vendor_.vmm()->unreserve(base_, places_ * stride_);
}

std::size_t VmmMemory::granularity() const {
  std::size_t bytes = 0;
  failures_.check(calls_.granularity(bytes, device_), "allocate");
  return bytes;
}

std::unique_ptr<VmmMemory> VmmMemory::create(const Vendor& vendor, const Failures& failures, int device,
                                             std::size_t bytes, bool fabric) {
  const OnDevice here(vendor, device);
  failures.check(here.result(), "allocate");
  std::unique_ptr<VmmMemory> memory(new VmmMemory(vendor, failures, device));
  memory->bytes_ = base::round_up(bytes, memory->granularity());
  failures.check(memory->calls_.create(memory->handle_, memory->bytes_, device, fabric), "allocate");
  memory->holds_handle_ = true;
  memory->map_now({});
  return memory;
}

template <typename Import>
std::unique_ptr<VmmMemory> VmmMemory::import_by(const Vendor& vendor, const Failures& failures, int device,
                                                std::size_t bytes, const VmmPlace& place, Import&& import) {
  const OnDevice here(vendor, device);
  failures.check(here.result(), "import");
  std::unique_ptr<VmmMemory> memory(new VmmMemory(vendor, failures, device));
  memory->bytes_ = bytes;
  failures.check(import(memory->handle_), "import");
  memory->holds_handle_ = true;
  memory->map_now(place);
  return memory;
}

std::unique_ptr<VmmMemory> VmmMemory::import(const Vendor& vendor, const Failures& failures, int device, int fd,
                                             std::size_t bytes, const VmmPlace& place) {
  return import_by(vendor, failures, device, bytes, place,
                   [&](VmmCalls::Handle& handle) { return vendor.vmm()->import_fd(handle, fd); });
}
std::unique_ptr<VmmMemory> VmmMemory::import(const Vendor& vendor, const Failures& failures, int device,
                                             const IpcHandle& theirs, std::size_t bytes) {
  return import_by(vendor, failures, device, bytes, {},
                   [&](VmmCalls::Handle& handle) { return vendor.vmm()->import_fabric(handle, theirs); });
}

// The first mapping keeps the handle; a second mapping needs no handle of its own.
std::unique_ptr<VmmMemory> VmmMemory::map_again(const VmmMemory& memory, const VmmPlace& place) {
  const OnDevice here(memory.vendor_, memory.device_);
  memory.failures_.check(here.result(), "map");
  std::unique_ptr<VmmMemory> again(new VmmMemory(memory.vendor_, memory.failures_, memory.device_));
  again->bytes_ = memory.bytes_;
  again->handle_ = memory.handle_;
  again->map_now(place);
  return again;
}

void VmmMemory::map_now(const VmmPlace& place) {
  if (place.range == nullptr) {
    void* reserved = nullptr;
    failures_.check(calls_.reserve(reserved, bytes_, 0), "map");
    address_ = reserved;
  } else {
    if (place.number >= place.range->places() || bytes_ > place.range->stride())
      throw Error(Code::invalid_argument, "map", "the memory doesn't fit into its place");
    range_ = place.range;
    address_ = range_->at(place.number);
  }
  failures_.check(calls_.map(address_, bytes_, handle_), "map");
  mapped_ = true;
  failures_.check(calls_.set_access(address_, bytes_, device_), "map");
}

VmmMemory::~VmmMemory() {
  const OnDevice here(vendor_, device_);
  if (mapped_) (void)calls_.unmap(address_, bytes_);
  if (address_ != nullptr && range_ == nullptr) (void)calls_.unreserve(address_, bytes_);
  if (holds_handle_) (void)calls_.release(handle_);
}

bool VmmMemory::let_reach(int device) const noexcept {
  const OnDevice here(vendor_, device);
  return here.result().ok() && calls_.set_access(address_, bytes_, device).ok();
}

DriverResult VmmMemory::export_fd(int& fd) const noexcept {
  const OnDevice here(vendor_, device_);
  if (!here.result().ok()) return here.result();
  return calls_.export_fd(fd, handle_);
}

DriverResult VmmMemory::export_fabric(IpcHandle& handle) const noexcept {
  const OnDevice here(vendor_, device_);
  if (!here.result().ok()) return here.result();
  return calls_.export_fabric(handle, handle_);
}

}  // namespace hmc::memory
