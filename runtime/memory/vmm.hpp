// VmmMemory: physical memory of a device, mapped with read and write access. VmmRange: an address range for several.
#pragma once

#include <memory>

#include "runtime/memory/failure.hpp"

namespace hmc::memory {

/// A reserved address range of `places` slots, each of `stride` bytes. Memory that is mapped in a slot keeps the range
/// alive.
class VmmRange {
 public:
  /// `bytes`: size of the largest memory. Throws Error, which names the failed call.
  static std::shared_ptr<VmmRange> reserve(const Vendor& vendor, const Failures& failures, int device,
                                           std::size_t places, std::size_t bytes);
  VmmRange(const VmmRange&) = delete;
  VmmRange& operator=(const VmmRange&) = delete;
  ~VmmRange();

  std::byte* base() const noexcept { return base_; }
  std::size_t stride() const noexcept { return stride_; }
  std::size_t places() const noexcept { return places_; }
  std::byte* at(std::size_t place) const noexcept { return base_ + place * stride_; }

 private:
  VmmRange(const Vendor& vendor, int device, std::size_t places, std::size_t stride) noexcept
      : vendor_(vendor), device_(device), places_(places), stride_(stride) {}

  const Vendor& vendor_;
  int device_;
  std::size_t places_, stride_;
  std::byte* base_ = nullptr;
};

/// A slot of a range. Null range: the memory reserves its own addresses.
struct VmmPlace {
  std::shared_ptr<VmmRange> range;
  std::size_t number = 0;
};

/// Built in steps: create or import, reserve, map, set access. The destructor undoes, in reverse order, the steps
/// that succeeded; it also runs if a later step fails.
class VmmMemory {
 public:
  /// Throws Error naming the call.
  static std::unique_ptr<VmmMemory> create(const Vendor& vendor, const Failures& failures, int device,
                                           std::size_t bytes, bool fabric);
  /// `bytes`: the exporter's bytes(). The caller keeps `fd`.
  static std::unique_ptr<VmmMemory> import(const Vendor& vendor, const Failures& failures, int device, int fd,
                                           std::size_t bytes, const VmmPlace& place = {});
  static std::unique_ptr<VmmMemory> import(const Vendor& vendor, const Failures& failures, int device,
                                           const IpcHandle& handle, std::size_t bytes);
  /// A second mapping of this process's memory. `memory` must outlive it.
  static std::unique_ptr<VmmMemory> map_again(const VmmMemory& memory, const VmmPlace& place);
  VmmMemory(const VmmMemory&) = delete;
  VmmMemory& operator=(const VmmMemory&) = delete;
  ~VmmMemory();

  void* address() const noexcept { return address_; }
  /// Rounded up to the device's granularity.
  std::size_t bytes() const noexcept { return bytes_; }
  /// A new descriptor, owned by the caller.
  Answer export_fd(int& fd) const noexcept;
  Answer export_fabric(IpcHandle& handle) const noexcept;
  /// Gives another device read and write access. Returns false if that isn't possible.
  bool let_reach(int device) const noexcept;

 private:
  VmmMemory(const Vendor& vendor, const Failures& failures, int device)
      : vendor_(vendor), calls_(*vendor.vmm()), failures_(failures), device_(device) {}
  std::size_t granularity() const;
  template <typename Import>
  static std::unique_ptr<VmmMemory> import_by(const Vendor& vendor, const Failures& failures, int device,
                                              std::size_t bytes, const VmmPlace& place, Import&& import);
  void map_now(const VmmPlace& place);

  const Vendor& vendor_;
  const VmmCalls& calls_;
  const Failures& failures_;
  int device_;
  std::size_t bytes_ = 0;
  VmmCalls::Handle handle_ = 0;
  void* address_ = nullptr;
  std::shared_ptr<VmmRange> range_;  // holds address_; null: address_ was reserved for this memory alone
  bool holds_handle_ = false;
  bool mapped_ = false;
};

}  // namespace hmc::memory
