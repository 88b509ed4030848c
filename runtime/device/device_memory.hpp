// DeviceMemory: one rank's part of a window that this process accesses through a provider.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "runtime/memory/pointer_lookup.hpp"
#include "runtime/transport/wire.hpp"

namespace hmc::device {

/// Every call returns at completion. The caller checks the range. Any thread.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(std::shared_ptr<memory::Allocation> allocation)
      : allocation_(std::move(allocation)), owner_(memory::owner_of(*allocation_)) {}

  const std::shared_ptr<memory::Allocation>& allocation() const noexcept { return allocation_; }
  std::uint64_t bytes() const noexcept { return allocation_->bytes; }
  const memory::Owner& owner() const noexcept { return owner_; }

  /// `source`: memory of any kind.
  base::Status write(std::uint64_t offset, const void* source, std::size_t bytes) const noexcept;
  /// `destination`: memory of any kind.
  base::Status read(std::uint64_t offset, void* destination, std::size_t bytes) const noexcept;
  /// As write() and read(), but the other side is host memory, so no pointer lookup is needed.
  base::Status write_from_host(std::uint64_t offset, const void* source, std::size_t bytes) const noexcept;
  base::Status read_to_host(std::uint64_t offset, void* destination, std::size_t bytes) const noexcept;
  /// Strided copies from or to memory of any kind.
  base::Status write_rows(std::uint64_t offset, std::size_t pitch, const void* source, std::size_t source_pitch,
                          std::size_t row_bytes, std::size_t rows) const noexcept;
  base::Status read_rows(std::uint64_t offset, std::size_t pitch, void* destination, std::size_t destination_pitch,
                         std::size_t row_bytes, std::size_t rows) const noexcept;
  /// Copies the word to the host, applies the operation, and copies it back. The caller holds the memory's Control
  /// lock.
  base::Status apply(const transport::Atomic& atomic, std::uint64_t offset, std::uint64_t& old) const noexcept;

 private:
  std::shared_ptr<memory::Allocation> allocation_;
  memory::Owner owner_;
};

}  // namespace hmc::device
