// HostProvider: host memory, memfd-backed so that every ConnBuffer can be shared on its node.
#pragma once

#include "runtime/memory/provider.hpp"

namespace hmc::memory {

/// Placement of host memory. Node -1: the system's policy for the allocating thread.
struct HostPlacement {
  int numa_node = -1;
  enum class Pages { as_the_system_likes, huge, small } pages = Pages::as_the_system_likes;
};

/// Device 0 is all host memory. Stream operations complete before they return.
class HostProvider final : public Provider {
 public:
  std::string name() const override { return "host"; }
  MemoryType type() const noexcept override { return MemoryType::CPU; }
  std::string why_not() const override { return {}; }
  bool host_accessible() const noexcept override { return true; }
  std::vector<DeviceInfo> devices() const override;

  using Provider::allocate;
  std::shared_ptr<Allocation> allocate(int device, std::size_t bytes, Backing backing) const override;
  /// Throws Error{invalid_argument} for a NUMA node that doesn't exist.
  std::shared_ptr<Allocation> allocate_at(std::size_t bytes, const HostPlacement& placement) const;
  std::string why_not(Backing backing) const override;

  std::unique_ptr<Stream> make_stream(int device) const override;
  std::unique_ptr<Stream> borrow_stream(int device, void* native) const override;
  std::unique_ptr<Event> make_event(int device) const override;
  std::string why_no_gates(int) const override { return "the host has no streams"; }

  base::Status copy_async(const Transfer& transfer, Stream& stream) const noexcept override;
  base::Status copy(const Transfer& transfer) const noexcept override;
  base::Status copy_within(void* destination, const void* source, std::size_t bytes) const noexcept override;
  PointerInfo query(const void* address) const noexcept override;
  NativeMemory native(const void* address) const noexcept override { return {const_cast<void*>(address), 0}; }
  void* native_context(int) const noexcept override { return nullptr; }

  // Host copies need no staging, so these throw Error{unsupported}; give_back() does nothing.
  std::unique_ptr<Stage> take_stage(int device) const override;
  void give_back(std::unique_ptr<Stage> stage) const noexcept override;
  HostBlock take_block(int device, std::size_t bytes) const override;
  void give_back(HostBlock block) const noexcept override;
  std::shared_ptr<void> pin(int device, void* address, std::size_t bytes) const override;

  /// Always unsupported: base::NodeLink passes host segments by descriptor.
  std::string why_not(SharingKind kind) const override;
  Exported share(const std::shared_ptr<Allocation>& allocation, SharingKind kind) const override;
  std::shared_ptr<Allocation> own(void* address, int device, Backing backing) const override;
  std::shared_ptr<Allocation> borrow(void* address, std::size_t bytes, int device) const override;
  std::shared_ptr<Allocation> import(Exported exported, int device) const override;
};

}  // namespace hmc::memory
