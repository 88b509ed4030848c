// DeviceProvider: a Provider on top of a Vendor. It contains the code that is common to all vendors.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/memory/device_sharing.hpp"
#include "runtime/memory/kernels.hpp"
#include "runtime/memory/provider.hpp"
#include "runtime/memory/stage.hpp"
#include "runtime/memory/vendor.hpp"

namespace hmc::memory {

/// Outlives all objects that it creates. Any thread.
class DeviceProvider final : public Provider {
 public:
  explicit DeviceProvider(std::unique_ptr<Vendor> vendor);
  DeviceProvider(const DeviceProvider&) = delete;
  DeviceProvider& operator=(const DeviceProvider&) = delete;
  ~DeviceProvider() override;

  std::string name() const override { return vendor_->name(); }
  MemoryType type() const noexcept override { return vendor_->type(); }
  std::string why_not() const override { return vendor_->why_not(); }
  bool host_accessible() const noexcept override { return false; }
  LibraryInfo library() const override { return vendor_->library(); }
  std::vector<DeviceInfo> devices() const override;
  int current_device() const noexcept override { return vendor_->current_device(); }

  using Provider::allocate;
  std::shared_ptr<Allocation> allocate(int device, std::size_t bytes, Backing backing) const override;
  std::shared_ptr<Allocation> own(void* address, int device, Backing backing) const override;
  std::string why_not(Backing backing) const override;

  std::unique_ptr<Stream> make_stream(int device) const override;
  std::unique_ptr<Stream> borrow_stream(int device, void* native) const override;
  std::unique_ptr<Event> make_event(int device) const override;
  std::string why_no_gates(int device) const override;

  base::Status copy_async(const Transfer& transfer, Stream& stream) const noexcept override;
  base::Status copy(const Transfer& transfer) const noexcept override;
  base::Status copy_within(void* destination, const void* source, std::size_t bytes) const noexcept override;

  std::unique_ptr<Stage> take_stage(int device) const override;
  void give_back(std::unique_ptr<Stage> stage) const noexcept override;
  HostBlock take_block(int device, std::size_t bytes) const override;
  void give_back(HostBlock block) const noexcept override;
  std::shared_ptr<void> pin(int device, void* address, std::size_t bytes) const override;

  PointerInfo query(const void* address) const noexcept override;
  NativeMemory native(const void* address) const noexcept override { return vendor_->native(address); }
  void* native_context(int device) const noexcept override { return vendor_->native_context(device); }

  std::string why_not(SharingKind kind) const override;
  Exported share(const std::shared_ptr<Allocation>& allocation, SharingKind kind) const override;
  std::shared_ptr<Allocation> borrow(void* address, std::size_t bytes, int device) const override;
  std::shared_ptr<Allocation> import(Exported exported, int device) const override;
  std::shared_ptr<const VmmPhysical> create_physical(int device, std::size_t bytes) const override;
  std::shared_ptr<const VmmPhysical> import_physical(int device, int fd, std::size_t bytes) const override;
  std::shared_ptr<const VmmPhysical> import_physical(int device, const IpcHandle& handle,
                                                     std::size_t bytes) const override;
  std::shared_ptr<Allocation> map_physical(std::shared_ptr<const VmmPhysical> physical, Access access) const override;
  std::shared_ptr<VmmRange> reserve(int device, std::size_t places, std::size_t bytes) const override;
  std::shared_ptr<Allocation> import_into(const std::shared_ptr<VmmRange>& range, std::size_t place,
                                          const Exported& exported, int device) const override;

  const Kernels* kernels() const noexcept override { return kernels_.get(); }

  const Vendor& vendor() const noexcept { return *vendor_; }
  const Failures& failures() const noexcept { return failures_; }

 private:
  class Lease;
  void check_device(int device, const char* operation) const;
  std::shared_ptr<Allocation> make(int device, std::size_t bytes, Backing backing) const;
  DriverResult put(const Transfer& transfer, void* stream) const noexcept;
  DriverResult put_rows(const Transfer& transfer, void* stream) const noexcept;
  int device_of(const void* address) const noexcept;
  void announce(Allocation& allocation) const noexcept;
  std::string try_vmm() const;
  std::string try_fabric() const;
  std::string try_ipc() const;
  std::string try_gates(int device) const;

  std::unique_ptr<Vendor> vendor_;
  Failures failures_;
  std::unique_ptr<Kernels> kernels_;
  mutable ShareBook book_;

  // Streams for blocking copies: as many as the maximum number of concurrent copies.
  mutable std::mutex mutex_;
  mutable std::vector<std::vector<void*>> idle_streams_;

  // Staging memory, kept for reuse because pinning is expensive.
  static constexpr std::size_t kept_bytes_max = std::size_t{256} << 20;
  mutable std::mutex staging_mutex_;
  mutable std::vector<std::unique_ptr<Stage>> idle_stages_;
  mutable std::vector<HostBlock> idle_blocks_;
  mutable std::size_t kept_bytes_ = 0;  ///< in idle_blocks_

  struct Trial {
    std::once_flag once;
    std::string why_not;
  };
  mutable Trial vmm_trial_;
  mutable Trial fabric_trial_;
  mutable Trial ipc_trial_;
  std::unique_ptr<Trial[]> gates_trials_;  ///< indexed by device
};

}  // namespace hmc::memory
