// Provider: the interface to one kind of memory, and the objects that it creates: allocations, streams, exported
// memory. Upper layers access memory through providers and never assume that the host can read an address.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <hmc/types.hpp>
#include <hmc/vmm.hpp>

#include "runtime/base/bytes.hpp"
#include "runtime/base/fd.hpp"
#include "runtime/base/segment.hpp"
#include "runtime/base/status.hpp"

namespace hmc::memory {

/// In the order in which they are tried. For each kind:
/// - `Provider::why_not(kind)` tests it and returns the reason if it doesn't work.
/// - A failed export or import leaks nothing.
/// - Two imports of the same memory share one mapping, which the last holder closes. Imports may be closed in any
///   order.
/// - Imports stay valid after the exporter has exited.
enum class SharingKind {
  same_process,  ///< both sides are one process: the same allocation
  vmm_fd,        ///< physical memory by file descriptor
  fabric,        ///< physical memory by fabric handle, if the system permits it
  ipc,           ///< the vendor's older IPC handle of 64 bytes, with an offset
};
inline constexpr SharingKind sharing_kinds[] = {SharingKind::same_process, SharingKind::vmm_fd, SharingKind::fabric,
                                                SharingKind::ipc};
const char* name_of(SharingKind kind) noexcept;

/// The exported form of an allocation. `fd`, if any, is sent with the bytes by SCM_RIGHTS.
struct Exported {
  base::Bytes bytes;
  base::UniqueFd fd;
};

class Stream;

/// A point in a stream. One thread at a time.
class Event {
 public:
  virtual ~Event() = default;
  /// Records the point after all work that is queued in `stream` now.
  virtual base::Status record(Stream& stream) noexcept = 0;
  /// Waits until the stream has passed the recorded point. Returns at once if nothing was recorded.
  virtual base::Status synchronize() noexcept = 0;
  /// in_progress until the stream has passed the point.
  virtual base::Status query() noexcept = 0;
  virtual void* native() const noexcept = 0;
};

/// Blocks a stream until open(). Any thread may call open(); the destructor also opens the gate.
class Gate {
 public:
  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  virtual ~Gate() = default;
  virtual void open() noexcept = 0;
};

/// A queue of work on one device. One thread at a time. The destructor waits for the queued work, unless the stream is
/// borrowed.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual int device() const noexcept = 0;
  /// The vendor's handle.
  virtual void* native() const noexcept = 0;
  virtual base::Status synchronize() noexcept = 0;
  /// Returns in_progress while the stream has unfinished work.
  virtual base::Status query() noexcept = 0;
  /// Work queued later waits for the event's recorded point. If the stream is a device's, the host doesn't wait.
  virtual base::Status wait(Event& event) noexcept = 0;
  /// Work queued later waits until `gate` is opened. See Provider::why_no_gates.
  virtual base::Status stop(std::unique_ptr<Gate>& gate) noexcept = 0;
};

class Provider;
enum class PointerKind;

/// How memory is allocated. The host can access `pinned` and `managed` memory; devices can access every kind.
enum class Backing {
  best,            ///< DeviceProvider: vmm if preferred for this vendor and its trial passed, otherwise plain
  plain,           ///< from the vendor's malloc
  vmm,             ///< physical memory mapped into a reserved address range; shared by descriptor
  stream_ordered,  ///< from the vendor's pool
  pinned,          ///< page-locked host memory that devices can access
  managed,         ///< migrates between host and device on access
};
const char* name_of(Backing backing) noexcept;

/// Registers a range from announce() until forget(). Call forget() before the memory is freed, so that a lookup never
/// returns the owner of freed memory. If no slot is free, the range isn't registered, and lookups query the drivers.
class KnownRange {
 public:
  KnownRange() = default;
  KnownRange(const KnownRange&) = delete;
  KnownRange& operator=(const KnownRange&) = delete;
  ~KnownRange() { forget(); }
  void announce(const void* start, std::size_t bytes, const Provider* provider, PointerKind kind, int device) noexcept;
  void forget() noexcept;

 private:
  int slot_ = -1;
};

/// Freed with its last shared_ptr. The fields don't change after creation.
class Allocation {
 public:
  virtual ~Allocation() = default;
  /// Gives kernels on another device of the same provider access to the memory. Returns false if that isn't possible.
  virtual bool let_reach(int other) noexcept { return other == device; }
  std::byte* address = nullptr;
  std::size_t bytes = 0;
  int device = 0;
  const Provider* provider = nullptr;
  Backing backing = Backing::best;
  bool host_accessible = false;            ///< the host can load and store
  std::shared_ptr<base::Segment> segment;  ///< the shared segment that contains the memory; null if there is none
  std::size_t segment_offset = 0;
  KnownRange known;  ///< call forget() before the memory is freed or unmapped; not set for a user's memory
};

/// Identifies a vendor's library in reports.
struct LibraryInfo {
  std::string path;     ///< as the loader found it; empty if the provider needs no library
  std::string version;  ///< as the library reports it
};

struct DeviceInfo {
  int index = 0;
  std::string name;
  std::size_t bytes = 0;
};

enum class Direction { host_to_device, device_to_host, device_to_device };

/// A copy of `height` rows of `width` bytes; height 1 is a contiguous copy. The ranges must not overlap.
/// Set the devices if the copy involves two; -1 is the stream's device.
struct Transfer {
  void* destination = nullptr;
  const void* source = nullptr;
  std::size_t width = 0;
  Direction direction = Direction::host_to_device;
  std::size_t height = 1;
  std::size_t destination_pitch = 0;
  std::size_t source_pitch = 0;
  int destination_device = -1;
  int source_device = -1;
};

class Stage;

/// Host staging memory: pinned if the provider supports it, else pageable with the reason in `why_pageable`.
struct HostBlock {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::string why_pageable;
  std::shared_ptr<Allocation> pinned;
  std::unique_ptr<std::byte[]> pageable;
};

/// The kind of memory of a user's pointer.
enum class PointerKind { unknown, pinned, device, managed };
struct PointerInfo {
  PointerKind kind = PointerKind::unknown;  ///< unknown: not this provider's memory
  int device = -1;
};

/// An address in the form of the vendor's calls: the address itself; for OpenCL a buffer and an offset.
struct NativeMemory {
  void* handle = nullptr;
  std::size_t offset = 0;
};

class Kernels;      // kernels.hpp
class VmmPhysical;  // device_allocation.hpp
class VmmRange;     // device_allocation.hpp
struct IpcHandle;   // vendor.hpp

/// One kind of memory. Any thread. If a call of the vendor's library fails, the text of the Status or Error has the
/// call's name and its code.
class Provider {
 public:
  virtual ~Provider() = default;
  virtual std::string name() const = 0;
  virtual MemoryType type() const noexcept = 0;
  /// Empty if this provider is usable on this machine; otherwise the reason, as one clause. If it isn't empty, no other
  /// function below may be called.
  virtual std::string why_not() const = 0;
  /// True if the host can load and store.
  virtual bool host_accessible() const noexcept = 0;
  virtual LibraryInfo library() const { return {}; }
  virtual std::vector<DeviceInfo> devices() const = 0;
  /// The device that is current for the calling thread; 0 if there is none.
  virtual int current_device() const noexcept { return 0; }

  /// Zeroed and populated memory. Throws Error{out_of_memory, unsupported (backing), invalid_argument (device)}. A
  /// failed call leaks nothing.
  virtual std::shared_ptr<Allocation> allocate(int device, std::size_t bytes, Backing backing) const = 0;
  std::shared_ptr<Allocation> allocate(int device, std::size_t bytes) const {
    return allocate(device, bytes, Backing::best);
  }
  /// Takes ownership of memory from the vendor's call for this backing. The result has the address, but not the size.
  /// Throws Error{unsupported, invalid_argument (device)}.
  virtual std::shared_ptr<Allocation> own(void* address, int device, Backing backing) const = 0;
  /// Empty if allocate() supports this backing.
  virtual std::string why_not(Backing backing) const = 0;

  // ---- streams: queued work runs in order, asynchronously. Throws Error.
  virtual std::unique_ptr<Stream> make_stream(int device) const = 0;
  /// Wraps the vendor's handle. The user keeps ownership.
  virtual std::unique_ptr<Stream> borrow_stream(int device, void* native) const = 0;
  virtual std::unique_ptr<Event> make_event(int device) const = 0;
  /// Empty if a stream of `device` can wait at a gate without blocking other streams. Determined by a trial.
  virtual std::string why_no_gates(int device) const = 0;

  // ---- copies. The caller must not modify or free either side until the stream has executed the copy.
  virtual base::Status copy_async(const Transfer& transfer, Stream& stream) const noexcept = 0;
  /// Blocking: complete when they return.
  virtual base::Status copy(const Transfer& transfer) const noexcept = 0;
  base::Status copy_from_host(void* destination, const void* source, std::size_t bytes) const noexcept {
    return copy({destination, source, bytes, Direction::host_to_device});
  }
  base::Status copy_to_host(void* destination, const void* source, std::size_t bytes) const noexcept {
    return copy({destination, source, bytes, Direction::device_to_host});
  }
  /// Both sides are this provider's memory. The ranges may overlap.
  virtual base::Status copy_within(void* destination, const void* source, std::size_t bytes) const noexcept = 0;

  // ---- host staging memory. give_back() keeps it for the next caller. Throws Error{out_of_memory}.
  virtual std::unique_ptr<Stage> take_stage(int device) const = 0;
  virtual void give_back(std::unique_ptr<Stage> stage) const noexcept = 0;
  /// Returns at least `bytes` bytes, which copies of any device may use.
  virtual HostBlock take_block(int device, std::size_t bytes) const = 0;
  virtual void give_back(HostBlock block) const noexcept = 0;
  /// Page-locks the caller's host memory, in whole pages, for this provider's copies until the result is destroyed.
  /// Throws Error with the reason.
  virtual std::shared_ptr<void> pin(int device, void* address, std::size_t bytes) const = 0;

  /// Never fails: the result is `unknown` if the address isn't in this provider's memory.
  virtual PointerInfo query(const void* address) const noexcept = 0;
  virtual NativeMemory native(const void* address) const noexcept = 0;
  /// The context of this provider's memory and streams, if the vendor has contexts (OpenCL); else null.
  virtual void* native_context(int device) const noexcept = 0;

  // ---- sharing with processes of this node; SharingKind states the rules.
  virtual std::string why_not(SharingKind kind) const = 0;
  /// `allocation` is this provider's. The caller must keep it alive as long as a process may import it. Throws Error.
  virtual Exported share(const std::shared_ptr<Allocation>& allocation, SharingKind kind) const = 0;
  /// An allocation over a user's device memory, for sharing. Its destructor doesn't free the memory.
  virtual std::shared_ptr<Allocation> borrow(void* address, std::size_t bytes, int device) const = 0;
  /// Readable and writable by `device` of this process. Throws Error.
  virtual std::shared_ptr<Allocation> import(Exported exported, int device) const = 0;
  /// Reserves an address range of `places` slots, each of at least `bytes`, for memory shared by descriptor. Throws
  /// Error.
  virtual std::shared_ptr<VmmRange> reserve(int device, std::size_t places, std::size_t bytes) const;
  /// As import() of memory shared by descriptor, but maps it at slot `place` of `range`, which must be free. Each call
  /// makes a new mapping. This process's own memory is mapped a second time and needs no descriptor. Throws Error.
  virtual std::shared_ptr<Allocation> import_into(const std::shared_ptr<VmmRange>& range, std::size_t place,
                                                  const Exported& exported, int device) const;

  // ---- physical memory without an address, as <hmc/vmm.hpp> defines it. Throws Error{unsupported} with the reason.
  virtual std::shared_ptr<const VmmPhysical> create_physical(int device, std::size_t bytes) const;
  /// Tests the size and the device by a mapping. The caller keeps `fd`.
  virtual std::shared_ptr<const VmmPhysical> import_physical(int device, int fd, std::size_t bytes) const;
  virtual std::shared_ptr<const VmmPhysical> import_physical(int device, const IpcHandle& handle,
                                                             std::size_t bytes) const;
  /// A new mapping. It can be shared, and its device has this access.
  virtual std::shared_ptr<Allocation> map_physical(std::shared_ptr<const VmmPhysical> physical, Access access) const;

  /// Null if HMC has no kernels for these devices. Otherwise Kernels::why_not() reports whether a device can run them.
  virtual const Kernels* kernels() const noexcept { return nullptr; }
};

struct ProviderInfo {
  std::string name;
  bool available = false;
  std::string why;
};
std::vector<ProviderInfo> list_providers();

/// All providers, including unusable ones; host memory first. They are never destroyed.
std::span<const Provider* const> all_providers();

/// Resolves DEFAULT for this machine (see MemoryType). Returns any other type unchanged.
MemoryType resolved(MemoryType type);
/// The provider and the backing of a kind of memory. Throws Error{unsupported} with the reason.
const Provider& provider_for(MemoryType type, const char* operation = "ConnBuffer");
Backing backing_for(MemoryType type) noexcept;
/// The kind of a provider's memory with this backing.
MemoryType type_of(const Provider& provider, Backing backing) noexcept;

/// The provider whose memory contains an address; the host provider with `unknown` if no device provider recognizes the
/// address.
struct Owner {
  const Provider* provider = nullptr;
  PointerInfo info;
};
Owner owner_of(const void* address) noexcept;
inline Owner host_owner() noexcept { return {&provider_for(MemoryType::CPU), {}}; }

/// Copies between any two kinds of memory. Complete on return. A copy between two vendors' devices is staged through
/// the host.
base::Status copy_between(void* destination, const void* source, std::size_t bytes) noexcept;

/// A host allocation over a part of an existing segment.
std::shared_ptr<Allocation> adopt_segment(std::shared_ptr<base::Segment> segment, std::size_t offset,
                                          std::size_t bytes);

}  // namespace hmc::memory
