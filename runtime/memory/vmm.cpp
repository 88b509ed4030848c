#include "runtime/memory/vmm.hpp"

#include "runtime/base/segment.hpp"

namespace hmc::memory {

std::size_t VmmMemory::granularity() const {
  std::size_t bytes = 0;
  failures_.check(calls_.granularity(bytes, device_), "allocate");
  return bytes;
}

std::unique_ptr<VmmMemory> VmmMemory::create(const Vendor& vendor, const Failures& failures, int device,
                                             std::size_t bytes) {
  const OnDevice here(vendor, device);
  failures.check(here.answer(), "allocate");
  std::unique_ptr<VmmMemory> memory(new VmmMemory(vendor, failures, device));
  memory->bytes_ = base::round_up(bytes, memory->granularity());
  failures.check(memory->calls_.create(memory->handle_, memory->bytes_, device), "allocate");
  memory->holds_handle_ = true;
  memory->map_now();
  return memory;
}

std::unique_ptr<VmmMemory> VmmMemory::import(const Vendor& vendor, const Failures& failures, int device, int fd,
                                             std::size_t bytes) {
  const OnDevice here(vendor, device);
  failures.check(here.answer(), "import");
  std::unique_ptr<VmmMemory> memory(new VmmMemory(vendor, failures, device));
  memory->bytes_ = bytes;
  failures.check(memory->calls_.import_fd(memory->handle_, fd), "import");
  memory->holds_handle_ = true;
  memory->map_now();
  return memory;
}

void VmmMemory::map_now() {
  void* reserved = nullptr;
  failures_.check(calls_.reserve(reserved, bytes_, 0), "map");
  address_ = reserved;
  failures_.check(calls_.map(address_, bytes_, handle_), "map");
  mapped_ = true;
  failures_.check(calls_.set_access(address_, bytes_, device_), "map");
}

VmmMemory::~VmmMemory() {
  const OnDevice here(vendor_, device_);
  if (mapped_) (void)calls_.unmap(address_, bytes_);
  if (address_ != nullptr) (void)calls_.unreserve(address_, bytes_);
  if (holds_handle_) (void)calls_.release(handle_);
}

Answer VmmMemory::export_fd(int& fd) const noexcept {
  const OnDevice here(vendor_, device_);
  if (!here.answer().ok()) return here.answer();
  return calls_.export_fd(fd, handle_);
}

}  // namespace hmc::memory
