// The Allocation classes of DeviceProvider: its own memory, a user's, or another process's. VmmPhysical: physical
// memory of a device. VmmMapping: its addresses in this process. VmmRange: an address range for several mappings.
#pragma once

#include <memory>
#include <utility>

#include <hmc/vmm.hpp>

#include "runtime/base/fd.hpp"
#include "runtime/memory/device_sharing.hpp"
#include "runtime/memory/device_stream.hpp"
#include "runtime/memory/vendor.hpp"

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

/// A reference to physical memory, created here or imported. Mappings share it. Immutable; any thread.
class VmmPhysical {
 public:
  /// Rounds `bytes` up to the device's granularity, as import() does. `fabric`: the memory can also be exported as a
  /// fabric handle. Throws Error, which names the failed call.
  static std::shared_ptr<const VmmPhysical> create(const Vendor& vendor, const Failures& failures, int device,
                                                   std::size_t bytes, bool fabric);
  /// `bytes`: the exporter's. The caller keeps `fd`. `device`: the device that will access the memory.
  static std::shared_ptr<const VmmPhysical> import(const Vendor& vendor, const Failures& failures, int device, int fd,
                                                   std::size_t bytes);
  static std::shared_ptr<const VmmPhysical> import(const Vendor& vendor, const Failures& failures, int device,
                                                   const IpcHandle& handle, std::size_t bytes);
  VmmPhysical(const VmmPhysical&) = delete;
  VmmPhysical& operator=(const VmmPhysical&) = delete;
  ~VmmPhysical();

  const Vendor& vendor() const noexcept { return vendor_; }
  const Failures& failures() const noexcept { return failures_; }
  int device() const noexcept { return device_; }
  std::size_t bytes() const noexcept { return bytes_; }
  VmmCalls::Handle handle() const noexcept { return handle_; }
  bool is_imported() const noexcept { return is_imported_; }
  /// A new descriptor, close-on-exec. Throws Error.
  base::UniqueFd export_fd() const;
  IpcHandle export_fabric() const;

 private:
  VmmPhysical(const Vendor& vendor, const Failures& failures, int device, std::size_t bytes, const char* operation);

  const Vendor& vendor_;
  const Failures& failures_;
  int device_;
  std::size_t bytes_ = 0;
  VmmCalls::Handle handle_ = 0;
  bool holds_handle_ = false;
  bool is_imported_ = false;
  base::UniqueFd fd_;  ///< of an import, if the vendor's library needs it
};

/// A mapping of physical memory, with an access of the physical memory's device. Made in steps: reserve, map, set
/// access. The destructor undoes, in reverse order, the steps that succeeded; it also runs if a later step fails. Then
/// it drops the physical memory.
class VmmMapping {
 public:
  /// Throws Error, which names the failed call.
  static std::unique_ptr<VmmMapping> map(std::shared_ptr<const VmmPhysical> physical, const VmmPlace& place = {},
                                         Access access = Access::read_write);
  VmmMapping(const VmmMapping&) = delete;
  VmmMapping& operator=(const VmmMapping&) = delete;
  ~VmmMapping();

  void* address() const noexcept { return address_; }
  const std::shared_ptr<const VmmPhysical>& physical() const noexcept { return physical_; }
  /// Gives another device the same access. Returns false if that isn't possible.
  bool let_reach(int device) const noexcept;

 private:
  VmmMapping(std::shared_ptr<const VmmPhysical> physical, Access access) noexcept
      : physical_(std::move(physical)), access_(access) {}
  const VmmCalls& calls() const noexcept { return *physical_->vendor().vmm(); }
  std::size_t bytes() const noexcept { return physical_->bytes(); }

  std::shared_ptr<const VmmPhysical> physical_;
  Access access_;
  void* address_ = nullptr;
  std::shared_ptr<VmmRange> range_;  // holds address_; null: address_ was reserved for this mapping alone
  bool mapped_ = false;
};

/// Memory of this process. It can be shared.
class OwnAllocation : public Allocation {
 public:
  std::uint64_t serial = 0;
  /// Null unless the backing is vmm.
  virtual std::shared_ptr<const VmmPhysical> physical() const noexcept { return nullptr; }
};

/// Memory from one of the vendor's allocation calls: plain, stream-ordered, pinned or managed.
class PlainAllocation final : public OwnAllocation {
 public:
  PlainAllocation(const Vendor& vendor, const Failures& failures, int on, std::size_t size, Backing how)
      : vendor_(vendor) {
    device = on;
    bytes = size;
    backing = how;
    const OnDevice here(vendor, on);
    failures.check(here.result(), "allocate");
    if (how == Backing::stream_ordered) failures.check(vendor.create_stream(stream_), "allocate");
    void* got = nullptr;
    DriverResult result = vendor.allocate(got, size, how, stream_);
    // Other streams may use the memory only after this stream has executed the allocation.
    if (result.ok() && stream_ != nullptr) {
      result = vendor.synchronize_stream(stream_);
      if (!result.ok()) (void)vendor.free(got, how, stream_);
    }
    if (!result.ok() && stream_ != nullptr) (void)vendor.destroy_stream(stream_);
    failures.check(result, "allocate");
    address = static_cast<std::byte*>(got);
    host_accessible = how == Backing::pinned || how == Backing::managed;
  }
  /// Takes ownership of memory from one of these calls.
  PlainAllocation(const Vendor& vendor, int on, void* users, Backing how) noexcept : vendor_(vendor) {
    device = on;
    address = static_cast<std::byte*>(users);
    backing = how;
    host_accessible = how == Backing::pinned || how == Backing::managed;
  }
  PlainAllocation(const PlainAllocation&) = delete;
  PlainAllocation& operator=(const PlainAllocation&) = delete;
  ~PlainAllocation() override {
    known.forget();
    const OnDevice here(vendor_, device);
    (void)vendor_.free(address, backing, stream_);
    if (stream_ == nullptr) return;
    (void)vendor_.synchronize_stream(stream_);
    (void)vendor_.destroy_stream(stream_);
  }

 private:
  const Vendor& vendor_;
  void* stream_ = nullptr;  ///< stream-ordered memory only: orders allocation and free
};

class VmmAllocation final : public OwnAllocation {
 public:
  VmmAllocation(std::unique_ptr<VmmMapping> mapping, int on, std::size_t size) : mapping_(std::move(mapping)) {
    address = static_cast<std::byte*>(mapping_->address());
    device = on;
    bytes = size;
    backing = Backing::vmm;
  }
  VmmAllocation(const VmmAllocation&) = delete;
  VmmAllocation& operator=(const VmmAllocation&) = delete;
  ~VmmAllocation() override { known.forget(); }
  std::shared_ptr<const VmmPhysical> physical() const noexcept override { return mapping_->physical(); }
  bool let_reach(int other) noexcept override { return other == device || mapping_->let_reach(other); }

 private:
  std::unique_ptr<VmmMapping> mapping_;
};

/// A user's memory. The destructor doesn't free it.
class BorrowedAllocation final : public OwnAllocation {};

/// Another process's memory.
class ImportedAllocation final : public Allocation {
 public:
  explicit ImportedAllocation(std::shared_ptr<Opened> opened) : opened_(std::move(opened)) {}
  ImportedAllocation(const ImportedAllocation&) = delete;
  ImportedAllocation& operator=(const ImportedAllocation&) = delete;
  ~ImportedAllocation() override { known.forget(); }
  bool let_reach(int other) noexcept override { return other == device || opened_->let_reach(other); }

 private:
  std::shared_ptr<Opened> opened_;
};

/// Physical memory mapped into a slot of a VmmRange: another process's, or a second mapping of this process's.
class PlacedAllocation final : public Allocation {
 public:
  /// `own`: the allocation that is mapped a second time; null for another process's memory.
  PlacedAllocation(std::unique_ptr<VmmMapping> mapping, std::shared_ptr<Allocation> own)
      : own_(std::move(own)), mapping_(std::move(mapping)) {
    address = static_cast<std::byte*>(mapping_->address());
    backing = Backing::vmm;
  }
  PlacedAllocation(const PlacedAllocation&) = delete;
  PlacedAllocation& operator=(const PlacedAllocation&) = delete;
  ~PlacedAllocation() override { known.forget(); }
  bool let_reach(int other) noexcept override { return other == device || mapping_->let_reach(other); }

 private:
  std::shared_ptr<Allocation> own_;
  std::unique_ptr<VmmMapping> mapping_;
};

class OpenedVmm final : public Opened {
 public:
  explicit OpenedVmm(std::unique_ptr<VmmMapping> mapping) : mapping_(std::move(mapping)) {
    start = static_cast<std::byte*>(mapping_->address());
  }
  bool let_reach(int other) noexcept override { return mapping_->let_reach(other); }

 private:
  std::unique_ptr<VmmMapping> mapping_;
};

class OpenedIpc final : public Opened {
 public:
  OpenedIpc(const Vendor& vendor, const Failures& failures, int device, const IpcHandle& handle)
      : vendor_(vendor), device_(device) {
    void* got = nullptr;
    failures.check(on_device(vendor, device, [&] { return vendor.ipc()->open(got, handle); }), "import");
    start = static_cast<std::byte*>(got);
  }
  OpenedIpc(const OpenedIpc&) = delete;
  OpenedIpc& operator=(const OpenedIpc&) = delete;
  ~OpenedIpc() override {
    (void)on_device(vendor_, device_, [&] { return vendor_.ipc()->close(start); });
  }

 private:
  const Vendor& vendor_;
  int device_;
};

}  // namespace hmc::memory
