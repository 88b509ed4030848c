#include "runtime/memory/device_allocation.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "runtime/base/fork.hpp"
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

VmmPhysical::VmmPhysical(const Vendor& vendor, const Failures& failures, int device, std::size_t bytes,
                         const char* operation)
    : vendor_(vendor), failures_(failures), device_(device) {
  std::size_t granularity = 0;
  failures.check(vendor.vmm()->granularity(granularity, device), operation);
  bytes_ = base::round_up(bytes, granularity);
  if (bytes == 0) throw Error(Code::invalid_argument, operation, "the size is 0");
  if (bytes_ < bytes) throw Error(Code::out_of_memory, operation, fmt::format("no device memory of {} bytes", bytes));
}

std::shared_ptr<const VmmPhysical> VmmPhysical::create(const Vendor& vendor, const Failures& failures, int device,
                                                       std::size_t bytes, bool fabric) {
  const OnDevice here(vendor, device);
  failures.check(here.result(), "allocate");
  std::shared_ptr<VmmPhysical> made(new VmmPhysical(vendor, failures, device, bytes, "allocate"),
                                    base::DeleteInOwner{});
  failures.check(vendor.vmm()->create(made->handle_, made->bytes_, device, fabric), "allocate");
  made->holds_handle_ = true;
  return made;
}

namespace {

void check_import(const Failures& failures, const DriverResult& result, const char* what) {
  if (result.ok()) return;
  throw Error(failures.code_of(result), "import", failures.text_of(result),
              fmt::format("the {} must be an exported handle of the same vendor's memory", what));
}

}  // namespace

std::shared_ptr<const VmmPhysical> VmmPhysical::import(const Vendor& vendor, const Failures& failures, int device,
                                                       int fd, std::size_t bytes) {
  const OnDevice here(vendor, device);
  failures.check(here.result(), "import");
  std::shared_ptr<VmmPhysical> made(new VmmPhysical(vendor, failures, device, bytes, "import"), base::DeleteInOwner{});
  base::UniqueFd own(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!own)
    throw Error(errno == EBADF ? Code::invalid_argument : Code::error, "import",
                errno == EBADF ? fmt::format("{} isn't an open descriptor", fd)
                               : fmt::format("can't duplicate descriptor {}: {}", fd, std::strerror(errno)));
  check_import(failures, vendor.vmm()->import_fd(made->handle_, own.get()), "descriptor");
  made->holds_handle_ = made->is_imported_ = true;
  if (vendor.vmm()->needs_imported_fd()) made->fd_ = std::move(own);
  return made;
}

std::shared_ptr<const VmmPhysical> VmmPhysical::import(const Vendor& vendor, const Failures& failures, int device,
                                                       const IpcHandle& theirs, std::size_t bytes) {
  const OnDevice here(vendor, device);
  failures.check(here.result(), "import");
  std::shared_ptr<VmmPhysical> made(new VmmPhysical(vendor, failures, device, bytes, "import"), base::DeleteInOwner{});
  check_import(failures, vendor.vmm()->import_fabric(made->handle_, theirs), "fabric handle");
  made->holds_handle_ = made->is_imported_ = true;
  return made;
}

VmmPhysical::~VmmPhysical() {
  if (!holds_handle_) return;
  const OnDevice here(vendor_, device_);  // if this fails, release may still succeed
  (void)vendor_.vmm()->release(handle_);
}

base::UniqueFd VmmPhysical::export_fd() const {
  int fd = -1;
  failures_.check(on_device(vendor_, device_, [&] { return vendor_.vmm()->export_fd(fd, handle_); }), "share");
  base::UniqueFd owned(fd);
  (void)::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return owned;
}

IpcHandle VmmPhysical::export_fabric() const {
  IpcHandle handle;
  failures_.check(on_device(vendor_, device_, [&] { return vendor_.vmm()->export_fabric(handle, handle_); }), "share");
  return handle;
}

std::unique_ptr<VmmMapping> VmmMapping::map(std::shared_ptr<const VmmPhysical> physical, const VmmPlace& place,
                                            Access access) {
  const Failures& failures = physical->failures();
  const int device = physical->device();
  const OnDevice here(physical->vendor(), device);
  failures.check(here.result(), "map");
  std::unique_ptr<VmmMapping> made(new VmmMapping(std::move(physical), access));
  const VmmCalls& calls = made->calls();
  const std::size_t bytes = made->bytes();
  if (place.range == nullptr) {
    void* reserved = nullptr;
    failures.check(calls.reserve(reserved, bytes, 0), "map");
    made->address_ = reserved;
  } else {
    if (place.number >= place.range->places() || bytes > place.range->stride())
      throw Error(Code::invalid_argument, "map", "the memory doesn't fit into its place");
    made->range_ = place.range;
    made->address_ = place.range->at(place.number);
  }
  if (const DriverResult result = calls.map(made->address_, bytes, made->physical_->handle()); !result.ok())
    throw Error(failures.code_of(result), "map", failures.text_of(result),
                fmt::format("imported memory may have another size than {} bytes", bytes));
  made->mapped_ = true;
  if (const DriverResult result = calls.set_access(made->address_, bytes, device, access); !result.ok())
    throw Error(failures.code_of(result), "map", failures.text_of(result),
                fmt::format("device {} may be unable to access the device that holds the memory", device));
  // An import may be for another device than the memory's own, on which copies run.
  if (made->physical_->is_imported()) {
    const int home = made->physical_->vendor().query(made->address_).device;
    if (home >= 0 && home != device) (void)made->let_reach(home);
  }
  return made;
}

VmmMapping::~VmmMapping() {
  if (address_ == nullptr) return;
  const OnDevice here(physical_->vendor(), physical_->device());
  if (mapped_) (void)calls().unmap(address_, bytes());
  if (range_ == nullptr) (void)calls().unreserve(address_, bytes());
}

bool VmmMapping::let_reach(int device) const noexcept {
  const OnDevice here(physical_->vendor(), device);
  return here.result().ok() && calls().set_access(address_, bytes(), device, access_).ok();
}

}  // namespace hmc::memory
