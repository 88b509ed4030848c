// Place and TransferOrder: the memory of a Buffer, and the completion of its transfers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <hmc/types.hpp>

namespace hmc {

class Window;
namespace rma {
class WindowCore;
}

/// The allocator of a Buffer's memory. The numbers never change; new values are appended.
enum class Allocator : int {
  host_new,
  host_malloc,
  cuda,
  cuda_async,
  cuda_pinned,
  cuda_managed,
  hip,
  hip_async,
  hip_pinned,
  hip_managed,
  musa,
  cnrt,
  acl,
  opencl,
  /// omp_target_alloc of the OpenMP library that the process has loaded, else of libgomp or libomp. The device number
  /// is OpenMP's. The number after the last device is the host; it is 0 if OpenMP finds no device.
  openmp,
  /// The symmetric heap of a window; such a Place is constructed from the Window.
  window,
};
inline constexpr int allocator_count = 16;
HMC_API const char* name_of(Allocator allocator) noexcept;

/// The memory of a Buffer: an allocator and its device, or the symmetric heap of a window.
struct Place {
  Place(Allocator on_allocator, int on_device = 0) noexcept
      : allocator(on_allocator), device(on_device), part(on_allocator) {}
  /// The symmetric heap of the window. Every rank must create, grow, move and destroy its Buffers in this heap in the
  /// same order and with the same counts (see Window::alloc). Then a Buffer has the same offset on every rank.
  /// Throws Error if the window isn't open.
  HMC_API Place(const Window& window);
  /// The place of existing memory: a device's, pinned or managed memory that a vendor's driver knows; host_malloc for
  /// any other address. The address may be inside an allocation.
  HMC_API static Place of(const void* address) noexcept;
  /// An allocator's memory on the device that is current for the calling thread in the vendor's library, for example by
  /// cudaSetDevice, or on OpenMP's default device. Throws Error{unsupported} if this machine has no such memory.
  HMC_API static Place current(Allocator allocator);

  Allocator allocator;
  int device;
  std::shared_ptr<rma::WindowCore> heap;  ///< the window, for a place in a window
  Allocator part;                         ///< as `allocator`; in a window, the allocator of this rank's part
  friend bool operator==(const Place&, const Place&) = default;
};

/// The transfers of a Buffer that are complete when the call returns.
enum class TransferMode : int {
  async,      ///< none
  sync_host,  ///< transfers to memory that the host can access
  sync,       ///< all
};

/// The order of a Buffer's transfers: a mode, and the streams that execute the transfers (the Buffer's own streams, or
/// one user stream).
struct TransferOrder {
  constexpr TransferOrder(TransferMode with_mode = TransferMode::sync) noexcept : mode(with_mode) {}
  /// `users` is the vendor's handle of a stream on the Buffer's device. The stream must outlive the Buffer.
  constexpr TransferOrder(TransferMode with_mode, void* users) noexcept
      : mode(with_mode), stream(users), has_stream(true) {}
  TransferMode mode;
  void* stream = nullptr;
  bool has_stream = false;  ///< a separate flag, because null is a valid stream of some vendors
};

namespace detail {

/// One Buffer's transfers in flight, and their streams.
class Transfers;
/// Returns null if every transfer blocks and no stream is given. Error{invalid_argument} if a stream is given and the
/// place has no device.
HMC_API std::shared_ptr<Transfers> make_transfers(const Place& place, const TransferOrder& order);
/// Returns an empty Transfers with the same user stream.
HMC_API std::shared_ptr<Transfers> alike(const std::shared_ptr<Transfers>& transfers);
/// The vendor's handle of the stream of this place; null if there is none.
HMC_API void* stream_at(const std::shared_ptr<Transfers>& transfers, const Place& place);
/// Waits for all transfers and for their streams. Throws Error.
HMC_API void synchronize(Transfers& transfers);
/// Waits for the transfers of a Buffer in a window. Never throws.
HMC_API void settle(Transfers& transfers) noexcept;

/// The source or the destination of a transfer. A null `keeper` means the caller's memory.
struct End {
  std::byte* address = nullptr;
  std::shared_ptr<const void> keeper;
  std::shared_ptr<Transfers>* transfers = nullptr;  ///< its Buffer's transfers; the first transfer creates them
  const Place* place = nullptr;
};
/// Copies between any two places, after the transfers in flight at both ends. `by` provides the stream. If `by` is
/// null, the copy is complete when the call returns. The ranges must not overlap. A source in the caller's host memory
/// may be reused when the call returns. Throws Error.
HMC_API void transfer(const End& to, const End& from, std::size_t bytes, TransferMode mode, Transfers* by);

/// Allocates memory. The last shared_ptr frees it. Throws Error{unsupported} with the reason.
HMC_API std::shared_ptr<std::byte> allocate_at(const Place& place, std::size_t bytes);
/// Takes ownership of memory from the place's allocator (free, delete[], cudaFree, ...), which the last shared_ptr
/// frees.
HMC_API std::shared_ptr<std::byte> own_at(const Place& place, std::byte* address);
/// The same as allocate_at in a window's symmetric heap.
HMC_API std::shared_ptr<std::byte> allocate_in_window(const Place& place, std::size_t bytes);
HMC_API std::uint64_t offset_in_window(const Place& place, const std::byte* address);

HMC_API bool is_host_accessible(const Place& place) noexcept;
/// True if the host and the devices access the memory of both places in the same way.
HMC_API bool has_same_access(const Place& one, const Place& other) noexcept;
/// True if device `device` of `type` can access memory at `place`.
HMC_API bool is_device_accessible(MemoryType type, int device, const Place& place) noexcept;
HMC_API bool is_openmp_accessible(int device, const Place& place) noexcept;
/// The vendor's device type, also for pinned and managed memory; CPU for memory of no vendor.
HMC_API MemoryType memory_type_of(const Place& place) noexcept;
/// The type that DEFAULT means on this machine; any other type is returned unchanged.
HMC_API MemoryType resolved(MemoryType type);
/// An allocator of memory that devices of `type` can access. Throws Error{unsupported}.
HMC_API Allocator allocator_for(MemoryType type);

}  // namespace detail

}  // namespace hmc
