// Providers of memory: one per kind. Everything above asks them, and never assumes that the host can
// read an address.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <hmc/types.hpp>

#include "runtime/base/segment.hpp"
#include "runtime/base/status.hpp"
#include "runtime/memory/allocation.hpp"
#include "runtime/memory/sharing.hpp"
#include "runtime/memory/stream.hpp"

namespace hmc::memory {

/// What a vendor's library is: for reports.
struct LibraryInfo {
  std::string path;     ///< as the loader found it; empty when the provider needs no library
  std::string version;  ///< as the library says it
};

struct DeviceInfo {
  int index = 0;
  std::string name;
  std::size_t bytes = 0;
};

enum class Direction { host_to_device, device_to_host, device_to_device };

/// A copy of `height` rows of `width` bytes; height 1 is the plain copy. The ranges may not overlap.
/// Devices are given where two of them take part; -1 is the stream's.
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

/// Host memory for copies to go through: pinned where the provider has such; else plain, and `why_pageable` says why.
struct HostBlock {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::string why_pageable;
  std::shared_ptr<Allocation> pinned;
  std::unique_ptr<std::byte[]> pageable;
};

/// Where a user's pointer points.
enum class PointerKind { unknown, pinned, device, managed };
struct PointerInfo {
  PointerKind kind = PointerKind::unknown;  ///< unknown: nothing of this provider's
  int device = -1;
};

/// An address as the vendor's own calls take it: the address itself, or for OpenCL its buffer and the
/// offset in there.
struct NativeMemory {
  void* handle = nullptr;
  std::size_t offset = 0;
};

class Kernels;   // kernels/kernels.hpp
class VmmRange;  // vmm.hpp

/// One kind of memory. Usable by any thread. What a call of the vendor's library answered is in the
/// Status's or Error's text by name and code.
class Provider {
 public:
  virtual ~Provider() = default;
  virtual std::string name() const = 0;
  virtual MemoryType type() const noexcept = 0;
  /// Empty when it can be used here; else one clause that says why not. Nothing below may be called
  /// on a provider that can't be used.
  virtual std::string why_not() const = 0;
  /// Load and store of the host reach this memory.
  virtual bool host_accessible() const noexcept = 0;
  virtual LibraryInfo library() const { return {}; }
  virtual std::vector<DeviceInfo> devices() const = 0;

  /// Zeroed and populated. Throws Error{out_of_memory, unsupported (no such backing here),
  /// invalid_argument (no such device)}. Nothing is left behind by a failure.
  virtual std::shared_ptr<Allocation> allocate(int device, std::size_t bytes, Backing backing) const = 0;
  std::shared_ptr<Allocation> allocate(int device, std::size_t bytes) const {
    return allocate(device, bytes, Backing::best);
  }
  /// Empty when allocate() knows this backing.
  virtual std::string why_not(Backing backing) const = 0;

  // ---- streams: what is put in runs in order, later. Throws Error.
  virtual std::unique_ptr<Stream> make_stream(int device) const = 0;
  /// Over the vendor's own handle, which stays the user's.
  virtual std::unique_ptr<Stream> borrow_stream(int device, void* native) const = 0;
  virtual std::unique_ptr<Event> make_event(int device) const = 0;
  /// Empty when streams of `device` stop at gates, each without holding up another; found out by a trial.
  virtual std::string why_no_gates(int device) const = 0;

  // ---- copies. Both sides stay untouched until the stream has come past.
  virtual base::Status copy_async(const Transfer& transfer, Stream& stream) const noexcept = 0;
  virtual base::Status fill_async(void* destination, unsigned char value, std::size_t bytes,
                                  Stream& stream) const noexcept = 0;
  /// The same, done when they return.
  virtual base::Status copy(const Transfer& transfer) const noexcept = 0;
  virtual base::Status fill(void* destination, unsigned char value, std::size_t bytes) const noexcept = 0;
  base::Status copy_from_host(void* destination, const void* source, std::size_t bytes) const noexcept {
    return copy({destination, source, bytes, Direction::host_to_device});
  }
  base::Status copy_to_host(void* destination, const void* source, std::size_t bytes) const noexcept {
    return copy({destination, source, bytes, Direction::device_to_host});
  }
  /// Both sides in this memory; the ranges may overlap.
  virtual base::Status copy_within(void* destination, const void* source, std::size_t bytes) const noexcept = 0;

  // ---- host memory that copies go through; kept for the next one who asks. Throws Error{out_of_memory}.
  virtual std::unique_ptr<Stage> take_stage(int device) const = 0;
  virtual void give_back(std::unique_ptr<Stage> stage) const noexcept = 0;
  /// Of `bytes` bytes at least; for copies of any device.
  virtual HostBlock take_block(int device, std::size_t bytes) const = 0;
  virtual void give_back(HostBlock block) const noexcept = 0;
  /// Host memory of the caller's is page-locked for this provider's copies, whole pages of it, until what is returned
  /// goes. Throws Error with the reason.
  virtual std::shared_ptr<void> pin(int device, void* address, std::size_t bytes) const = 0;

  /// Never an error: what isn't known is `unknown`.
  virtual PointerInfo query(const void* address) const noexcept = 0;
  virtual NativeMemory native(const void* address) const noexcept = 0;
  /// The context that this provider's memory and streams belong to, where the vendor has such (OpenCL).
  virtual void* native_context(int device) const noexcept = 0;

  // ---- sharing with processes of this node; see sharing.hpp for what holds.
  virtual std::string why_not(SharingKind kind) const = 0;
  /// Throws Error. `allocation` is this provider's and stays alive as long as somebody may import.
  virtual Exported share(const std::shared_ptr<Allocation>& allocation, SharingKind kind) const = 0;
  /// A user's own device memory as an allocation that frees nothing; for sharing.
  virtual std::shared_ptr<Allocation> borrow(void* address, std::size_t bytes, int device) const = 0;
  /// Readable and writable by `device` of this process. Throws Error.
  virtual std::shared_ptr<Allocation> import(Exported exported, int device) const = 0;
  /// One reservation of addresses for `places` memories of `bytes` at most that are shared by descriptor. Throws Error.
  virtual std::shared_ptr<VmmRange> reserve(int device, std::size_t places, std::size_t bytes) const;
  /// As import(), of memory shared by descriptor, but into a place of `range` that is free, and anew each time. This
  /// process's own memory is mapped there a second time; it needs no descriptor. Throws Error.
  virtual std::shared_ptr<Allocation> import_into(const std::shared_ptr<VmmRange>& range, std::size_t place,
                                                  const Exported& exported, int device) const;

  /// Null where HMC has no kernels for these devices; else they say themselves whether they can run.
  virtual const Kernels* kernels() const noexcept { return nullptr; }
};

struct ProviderInfo {
  std::string name;
  bool available = false;
  std::string why;
};
std::vector<ProviderInfo> list_providers();

/// All of them, also those that can't be used here; host memory first. They live as long as the process.
std::span<const Provider* const> all_providers();

/// What DEFAULT stands for on this machine (see MemoryType); any other type is itself.
MemoryType resolved(MemoryType type);
/// Which provider and backing a kind of memory is. Throws Error{unsupported} with the reason.
const Provider& provider_for(MemoryType type);
Backing backing_for(MemoryType type) noexcept;
/// The kind of memory that a provider's memory of that backing is.
MemoryType type_of(const Provider& provider, Backing backing) noexcept;

/// Whose memory `address` is: the provider that knows it, or the host's with `unknown`.
struct Owner {
  const Provider* provider = nullptr;
  PointerInfo info;
};
Owner owner_of(const void* address) noexcept;
inline Owner host_owner() noexcept { return {&provider_for(MemoryType::CPU), {}}; }

/// Between any two kinds of memory, whatever they are; done when it returns. Bytes between two
/// vendors' devices go through the host.
base::Status copy_between(void* destination, const void* source, std::size_t bytes) noexcept;

/// Memory that the caller already has as a segment, as host memory.
std::shared_ptr<Allocation> adopt_segment(std::shared_ptr<base::Segment> segment, std::size_t offset,
                                          std::size_t bytes);

}  // namespace hmc::memory
