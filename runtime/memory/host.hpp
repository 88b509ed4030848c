// Host memory: memfd-backed, so that every ConnBuffer can be shared on its node.
#pragma once

#include "runtime/memory/provider.hpp"

namespace hmc::memory {

class HostProvider final : public Provider {
 public:
  std::string name() const override { return "host"; }
  MemoryType type() const noexcept override { return MemoryType::CPU; }
  std::string why_not() const override { return {}; }
  bool host_accessible() const noexcept override { return true; }
  std::shared_ptr<Allocation> allocate(int device, std::size_t bytes) const override;
  base::Status copy_from_host(void* destination, const void* source, std::size_t bytes) const noexcept override;
  base::Status copy_to_host(void* destination, const void* source, std::size_t bytes) const noexcept override;
  base::Status copy_within(void* destination, const void* source, std::size_t bytes) const noexcept override;
};

}  // namespace hmc::memory
