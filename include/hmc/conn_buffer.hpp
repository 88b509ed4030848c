// ConnBuffer: registered memory of one rank. A Window is made over one ConnBuffer per rank.
#pragma once

#include <cstddef>
#include <memory>

#include <hmc/error.hpp>
#include <hmc/types.hpp>

namespace hmc {

namespace memory {
class Allocation;
}

/// Bytes on one device with a stable address, zeroed, populated: lack of memory is an Error here and
/// not a signal later. It owns them; destruction is local. One thread at a time.
///
/// The names `ptr`, `buffer_size`, `writeFromCpu` ... are those that HMC's programs use today.
class HMC_API ConnBuffer {
 public:
  /// Host memory unless `type` is given. MemoryType::DEFAULT: the accelerator's memory if there is one.
  /// Throws Error{unsupported} with the reason when this machine has no such memory.
  ConnBuffer(int device_id, std::size_t size, MemoryType type = MemoryType::CPU);
  ~ConnBuffer();
  ConnBuffer(ConnBuffer&&) noexcept;
  ConnBuffer& operator=(ConnBuffer&&) noexcept;

  void* ptr = nullptr;  ///< the first byte; an address on the device, which the host may be unable to read
  std::size_t buffer_size = 0;

  /// The type that the buffer was made with; for DEFAULT, the type that it stands for. After a move: DEFAULT.
  /// host_accessible() says whether the host may load and store through `ptr`.
  MemoryType memory_type() const noexcept;
  int device_id() const noexcept;

  /// Copies between this buffer (from byte `bias`) and other memory; INVALID_CONFIG when the range
  /// leaves the buffer or a pointer is null, UNSUPPORT when there is no such memory.
  status_t writeFromCpu(const void* src, std::size_t size, std::size_t bias = 0);
  status_t readToCpu(void* dest, std::size_t size, std::size_t bias = 0) const;
  status_t writeFromGpu(const void* src, std::size_t size, std::size_t bias = 0);
  status_t readToGpu(void* dest, std::size_t size, std::size_t bias = 0) const;
  /// Within the buffer; the ranges may overlap.
  status_t copyWithin(std::size_t dest_bias, std::size_t src_bias, std::size_t size);

  const std::shared_ptr<memory::Allocation>& allocation() const noexcept { return allocation_; }

 private:
  std::shared_ptr<memory::Allocation> allocation_;  // shared with windows made over it
};

}  // namespace hmc
