// The Allocation classes of DeviceProvider: its own memory, a user's, or another process's. VmmMemory: physical memory
// of a device, mapped with read and write access. VmmRange: an address range for several.
#pragma once

#include <memory>
#include <utility>

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
  DriverResult export_fd(int& fd) const noexcept;
  DriverResult export_fabric(IpcHandle& handle) const noexcept;
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

/// Memory of this process. It can be shared.
class OwnAllocation : public Allocation {
 public:
  std::uint64_t serial = 0;
  /// Null unless the backing is vmm.
  virtual const VmmMemory* vmm() const noexcept { return nullptr; }
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
  VmmAllocation(std::unique_ptr<VmmMemory> memory, int on, std::size_t size) : memory_(std::move(memory)) {
    address = static_cast<std::byte*>(memory_->address());
    device = on;
    bytes = size;
    backing = Backing::vmm;
  }
  VmmAllocation(const VmmAllocation&) = delete;
  VmmAllocation& operator=(const VmmAllocation&) = delete;
  ~VmmAllocation() override { known.forget(); }
  const VmmMemory* vmm() const noexcept override { return memory_.get(); }
  bool let_reach(int other) noexcept override { return other == device || memory_->let_reach(other); }

 private:
  std::unique_ptr<VmmMemory> memory_;
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
  PlacedAllocation(std::unique_ptr<VmmMemory> memory, std::shared_ptr<Allocation> own)
      : own_(std::move(own)), memory_(std::move(memory)) {
    address = static_cast<std::byte*>(memory_->address());
    backing = Backing::vmm;
  }
  PlacedAllocation(const PlacedAllocation&) = delete;
  PlacedAllocation& operator=(const PlacedAllocation&) = delete;
  ~PlacedAllocation() override { known.forget(); }
  bool let_reach(int other) noexcept override { return other == device || memory_->let_reach(other); }

 private:
  std::shared_ptr<Allocation> own_;
  std::unique_ptr<VmmMemory> memory_;
};

class OpenedVmm final : public Opened {
 public:
  explicit OpenedVmm(std::unique_ptr<VmmMemory> memory) : memory_(std::move(memory)) {
    start = static_cast<std::byte*>(memory_->address());
  }
  bool let_reach(int other) noexcept override { return memory_->let_reach(other); }

 private:
  std::unique_ptr<VmmMemory> memory_;
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
