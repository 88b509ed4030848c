// VmmMemory: physical memory of a device, mapped and readable.
#pragma once

#include <memory>

#include "runtime/memory/failure.hpp"

namespace hmc::memory {

/// Made in steps (create or import, reserve, map, set access); whatever was reached is undone in the
/// opposite order, when a later step fails as when it is destroyed.
class VmmMemory {
 public:
  /// Throws Error naming the call.
  static std::unique_ptr<VmmMemory> create(const Vendor& vendor, const Failures& failures, int device,
                                           std::size_t bytes);
  /// `bytes` as the exporter has them. `fd` stays the caller's.
  static std::unique_ptr<VmmMemory> import(const Vendor& vendor, const Failures& failures, int device, int fd,
                                           std::size_t bytes);
  VmmMemory(const VmmMemory&) = delete;
  VmmMemory& operator=(const VmmMemory&) = delete;
  ~VmmMemory();

  void* address() const noexcept { return address_; }
  /// Rounded up to what the device maps.
  std::size_t bytes() const noexcept { return bytes_; }
  /// A new descriptor, the caller's.
  Answer export_fd(int& fd) const noexcept;

 private:
  VmmMemory(const Vendor& vendor, const Failures& failures, int device)
      : vendor_(vendor), calls_(*vendor.vmm()), failures_(failures), device_(device) {}
  std::size_t granularity() const;
  void map_now();

  const Vendor& vendor_;
  const VmmCalls& calls_;
  const Failures& failures_;
  int device_;
  std::size_t bytes_ = 0;
  VmmCalls::Handle handle_ = 0;
  void* address_ = nullptr;
  bool holds_handle_ = false;
  bool mapped_ = false;
};

}  // namespace hmc::memory
