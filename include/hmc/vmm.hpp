// PhysicalMemory and Mapping: memory of a device that any processes share by a handle, and map where they need it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <hmc/conn_buffer.hpp>
#include <hmc/request.hpp>
#include <hmc/types.hpp>

namespace hmc {

namespace memory {
class Allocation;
class Provider;
class VmmPhysical;
}  // namespace memory

/// The permitted accesses of a device to a mapping.
enum class Access : std::uint8_t { read, read_write };
inline constexpr int access_count = 2;

/// A handle that is plain bytes and may go through any channel, also to other nodes of the same fabric. CUDA's
/// CUmemFabricHandle.
struct FabricHandle {
  std::array<std::byte, 64> bytes{};
  friend bool operator==(const FabricHandle&, const FabricHandle&) = default;
};

/// Physical memory that is mapped in this process, from PhysicalMemory::map. Empty after unmap() and after a move.
/// Movable, not copyable.
///
/// A ConnBuffer of the mapping, and windows over it, share it: then the addresses stay valid until the last of them is
/// destroyed.
///
/// THREADS. One at a time, but different mappings at the same time, also of the same memory.
class HMC_API Mapping {
 public:
  Mapping() noexcept;
  Mapping(Mapping&&) noexcept;
  Mapping& operator=(Mapping&&) noexcept;
  ~Mapping();

  /// The device address of the first byte, for kernels, the vendor's copies, hmc::copy and collectives. Null if empty.
  void* data() const noexcept;
  /// The size of the physical memory; 0 if empty.
  std::size_t size() const noexcept;
  Access access() const noexcept { return access_; }
  bool is_mapped() const noexcept { return allocation_ != nullptr; }

  /// Copies between the mapping, starting at byte `offset`, and other memory of this process, on the host or on a
  /// device. The copy is complete at return. Throws Error:
  ///  - out_of_range: the range exceeds the mapping
  ///  - invalid_argument: write() to a mapping with Access::read
  ///  - closed: the mapping is empty
  void write(std::size_t offset, const void* source, std::size_t bytes);
  void read(std::size_t offset, void* destination, std::size_t bytes) const;

  /// A ConnBuffer over this memory, for windows. Peers of the same node map the memory, as they map a ConnBuffer's own.
  /// Throws Error{invalid_argument} for a mapping with Access::read, because peers write to windows, and Error{closed}.
  ConnBuffer conn_buffer() const;

  /// No kernel and no copy may use the addresses any more. The other process's mappings stay. May be repeated.
  void unmap() noexcept;

 private:
  friend class PhysicalMemory;
  Mapping(std::shared_ptr<memory::Allocation> allocation, Access access) noexcept;
  std::shared_ptr<memory::Allocation> allocation_;
  Access access_ = Access::read;
};

/// A reference to physical memory of one device: created here, or imported by a handle of another process. The other
/// process needn't be a member of a job, and needn't use HMC: an exported descriptor is the vendor's own (CUDA:
/// CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR). For CUDA and HIP. Movable, not copyable.
///
/// LIFETIME. The memory is freed with the last reference to it, of any process: PhysicalMemory, Mapping, a ConnBuffer
/// or window over one, an exported descriptor.
///  - Any reference may end first: the exporter may close, exit or be killed while importers use the memory.
///  - close() while mappings exist is allowed. The mappings stay.
///  - A killed process leaves nothing: the system drops its references.
///  - Each import is a reference of its own, also a second import of a handle, and one in the exporting process.
///  - A fabric handle isn't a reference: it can be imported only while a reference exists.
///
/// ERRORS. Throws Error:
///  - unsupported, with the reason: this machine or memory type has no such memory or handle
///  - invalid_argument: no such device, size 0, not an open descriptor, not a handle of HMC (receive)
///  - out_of_memory
///  - closed: this object is empty
///  - error: a call of the vendor's library failed; the message has the call and its code, and the hint a likely cause.
///    An import maps the memory once, so that a wrong handle, a too large size, and a device that can't access the
///    memory are errors of the import. A failed call leaves nothing.
///
/// THREADS. Any number at a time, except close(), moves and the destructor.
///
/// Bytes. Neither new nor imported memory is changed; new memory isn't zeroed. HMC doesn't order the accesses of the
/// processes: they synchronize by their own means.
///
/// In a child of fork() the object can't be used, as for the vendor's libraries.
class HMC_API PhysicalMemory {
 public:
  PhysicalMemory() noexcept;  ///< empty
  PhysicalMemory(PhysicalMemory&&) noexcept;
  PhysicalMemory& operator=(PhysicalMemory&&) noexcept;
  ~PhysicalMemory();

  /// Allocates at least `bytes` bytes; size() is rounded up to the device's granularity, for example 2 MiB.
  static PhysicalMemory create(std::size_t bytes, int device = 0, MemoryType type = MemoryType::DEFAULT);
  /// Imports a descriptor from export_fd() or from the vendor's own call. The caller keeps `fd` and may close it at
  /// once.
  /// `bytes`: as passed to create(), or the exporter's size(). `device`: the device of this process that accesses the
  /// memory. If that isn't the memory's own device, the two must be peers.
  static PhysicalMemory import_fd(int fd, std::size_t bytes, int device = 0, MemoryType type = MemoryType::DEFAULT);
  static PhysicalMemory import_fabric(const FabricHandle& handle, std::size_t bytes, int device = 0,
                                      MemoryType type = MemoryType::DEFAULT);

  /// A new descriptor, close-on-exec. The caller closes it; until then it is a reference. For example SCM_RIGHTS passes
  /// it to another process.
  int export_fd() const;
  /// Error{unsupported} if the system doesn't permit fabric handles.
  FabricHandle export_fabric() const;

  /// Passes the memory over a connected Unix socket: its descriptor, type and size, in one message of 121 bytes. The
  /// receiver gets a reference of its own. On a stream socket other messages may precede and follow.
  /// Errors besides those above:
  ///  - timeout. The default is HMC_TIMEOUT_S. Part of the message may be lost: close the socket.
  ///  - peer_failed: the other process has closed the socket.
  ///  - invalid_argument: the bytes aren't such a message, or came without exactly one descriptor.
  void send(int socket, Timeout timeout = job_timeout) const;
  static PhysicalMemory receive(int socket, int device = 0, Timeout timeout = job_timeout);

  /// Maps the whole memory at a new address, accessible by device(). Each call makes another mapping.
  Mapping map(Access access = Access::read_write) const;

  std::size_t size() const noexcept;
  int device() const noexcept;                                    ///< as passed to create() or import; -1 if empty
  MemoryType type() const noexcept;                               ///< DEFAULT if empty
  bool is_open() const noexcept { return physical_ != nullptr; }  ///< false if empty

  /// Ends this reference. May be repeated.
  void close() noexcept;

 private:
  PhysicalMemory(const memory::Provider& provider, std::shared_ptr<const memory::VmmPhysical> physical) noexcept;
  const memory::VmmPhysical& physical(const char* operation) const;
  const memory::Provider* provider_ = nullptr;
  std::shared_ptr<const memory::VmmPhysical> physical_;
};

}  // namespace hmc
