// ConnBuffer: memory of one rank on one device. A Window over ConnBuffers registers one per rank. For C++14 and later.
#pragma once

#include <cstddef>
#include <memory>

#include <hmc/error.hpp>
#include <hmc/memory_type.hpp>

namespace hmc {

namespace memory {
class Allocation;
}
class Memory;

/// ConnBuffer::mem_ops: the pointer to a Memory (<hmc.h>) of the buffer's type and device, which is made at the first
/// use. The buffer's own memory isn't one of its buffers. Threads: one at a time.
class HMC_API BufferMemory {
 public:
  operator Memory*() const { return get(); }
  Memory* operator->() const { return get(); }

 private:
  friend class ConnBuffer;
  Memory* get() const;
  MemoryType type_ = MemoryType::DEFAULT;
  int device_ = -1;
  mutable std::shared_ptr<Memory> made_;
};

/// Memory on the host or on one device. The memory is zeroed, and its address never changes. The constructor allocates
/// all pages, and throws Error if there isn't enough memory. So no later access raises SIGBUS.
///
/// A ConnBuffer owns its memory, unless it was borrowed; windows over it share the ownership. Construction and
/// destruction are local. Threads: one at a time. Names such as `ptr`, `buffer_size` and `writeFromCpu` are kept for
/// existing programs.
class HMC_API ConnBuffer {
 public:
  /// Allocates `size` bytes on device `device_id` of `type`. Host memory accepts any `device_id` and ignores it.
  /// MemoryType::DEFAULT: the accelerator's memory if the machine has one, else host memory. Error{unsupported}, with
  /// the reason, if this machine has no such memory. Error{out_of_memory}, before any memory is taken, if the machine
  /// or the cgroup has less host memory available.
  ConnBuffer(int device_id, std::size_t size, MemoryType type = MemoryType::DEFAULT);
  /// Uses existing memory without a copy, for example cudaMalloc's or a tensor's: `size` bytes from `address`, which is
  /// a multiple of 8. `mem_type` and `device_id` are detected. This ConnBuffer and windows over it keep `owner`; if it
  /// is null, the memory must outlive them. The memory isn't zeroed. Throws Error{invalid_argument}.
  /// In a window, pageable host memory is "staged" (see Window::path): the owner's process copies.
  static ConnBuffer borrow(void* address, std::size_t size, std::shared_ptr<void> owner = nullptr);
  ~ConnBuffer();
  ConnBuffer(ConnBuffer&&) noexcept;
  ConnBuffer& operator=(ConnBuffer&&) noexcept;

  void* ptr = nullptr;  ///< the first byte; for device memory a device address
  std::size_t buffer_size = 0;
  BufferMemory mem_ops;
  /// The requested type; if that was DEFAULT, the actual type on this machine. DEFAULT after a move. If
  /// host_accessible(mem_type), the host can load and store through `ptr`.
  MemoryType mem_type = MemoryType::DEFAULT;
  int device_id = -1;  ///< as passed to the constructor, or as detected by borrow()

  /// Copies between this buffer, starting at byte `bias`, and other memory. The copy is complete at return. Failures:
  ///  - ERROR: the range exceeds the buffer, or a pointer is null
  ///  - UNSUPPORT: the machine has no such memory
  status_t writeFromCpu(const void* src, std::size_t size, std::size_t bias = 0);
  status_t readToCpu(void* dest, std::size_t size, std::size_t bias = 0) const;
  status_t writeFromGpu(const void* src, std::size_t size, std::size_t bias = 0);
  status_t readToGpu(void* dest, std::size_t size, std::size_t bias = 0) const;
  /// Copies within the buffer; the ranges may overlap.
  status_t copyWithin(std::size_t dest_bias, std::size_t src_bias, std::size_t size);

  /// For HMC's own use.
  const std::shared_ptr<memory::Allocation>& allocation() const noexcept { return allocation_; }

 private:
  friend class Mapping;  // a ConnBuffer over its memory
  explicit ConnBuffer(std::shared_ptr<memory::Allocation> allocation);
  std::shared_ptr<memory::Allocation> allocation_;  // shared with windows over it
};

}  // namespace hmc
