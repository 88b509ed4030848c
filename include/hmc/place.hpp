// Place and TransferOrder: the memory of a Buffer, and which of its transfers block.
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
  /// The symmetric heap of the window. As with Window::alloc, every rank creates, grows, moves and destroys its Buffers
  /// there in the same order and with the same counts; then the offsets are the same on every rank.
  /// Throws Error if the window isn't open.
  HMC_API Place(const Window& window);

  Allocator allocator;
  int device;
  std::shared_ptr<rma::WindowCore> heap;  ///< the window, for a place in a window
  Allocator part;                         ///< the kind of memory; for a place in a window, that of this rank's part
  friend bool operator==(const Place&, const Place&) = default;
};

/// Which transfers of a Buffer are complete when the call returns.
enum class TransferMode : int {
  async,      ///< none
  sync_host,  ///< those to memory that the host can access
  sync,       ///< all
};

/// The order of a Buffer's transfers: a mode, and streams of the Buffer's own or a stream of the user.
struct TransferOrder {
  constexpr TransferOrder(TransferMode with_mode = TransferMode::sync) noexcept : mode(with_mode) {}
  /// `users` is the vendor's handle of a stream on the Buffer's device. The stream must outlive the Buffer.
  constexpr TransferOrder(TransferMode with_mode, void* users) noexcept
      : mode(with_mode), stream(users), has_stream(true) {}
  TransferMode mode;
  void* stream = nullptr;
  bool has_stream = false;  ///< needed because null is a valid stream of some vendors
};

namespace detail {

/// The transfers of one Buffer in flight, and their streams.
class Transfers;
/// Null if every transfer blocks and no stream is given. Error{invalid_argument} if a stream is given, and the place
/// has no device.
HMC_API std::shared_ptr<Transfers> make_transfers(const Place& place, const TransferOrder& order);
/// New transfers with the same user's stream.
HMC_API std::shared_ptr<Transfers> alike(const std::shared_ptr<Transfers>& transfers);
/// The vendor's handle of the stream of this place; null if there is none.
HMC_API void* stream_at(const std::shared_ptr<Transfers>& transfers, const Place& place);
/// Waits for all transfers and for their streams. Throws Error.
HMC_API void synchronize(Transfers& transfers);
/// For a Buffer in a window: waits for its transfers without an exception.
HMC_API void settle(Transfers& transfers) noexcept;

/// One end of a transfer. Without a keeper it is the caller's memory.
struct End {
  std::byte* address = nullptr;
  std::shared_ptr<const void> keeper;
  std::shared_ptr<Transfers>* transfers = nullptr;  ///< those of its Buffer; created by the first one
  const Place* place = nullptr;
};
/// Copies between any two places, ordered by `by` and after the transfers in flight at both ends. The ranges don't
/// overlap. Without `by` the copy is complete when it returns. A source in the caller's host memory may be reused when
/// it returns. Throws Error.
HMC_API void transfer(const End& to, const End& from, std::size_t bytes, TransferMode mode, Transfers* by);

/// Memory that is freed with its last holder. Throws Error{unsupported} with the reason.
HMC_API std::shared_ptr<std::byte> allocate_at(const Place& place, std::size_t bytes);
/// The same in a window's symmetric heap.
HMC_API std::shared_ptr<std::byte> allocate_in_window(const Place& place, std::size_t bytes);
HMC_API std::uint64_t offset_in_window(const Place& place, const std::byte* address);

HMC_API bool host_reaches(const Place& place) noexcept;
/// True for the same place, and for two places whose memory the host and the devices access alike.
HMC_API bool is_reached_alike(const Place& one, const Place& other) noexcept;
/// Whether device number `device` of `type` can access memory at `place`.
HMC_API bool device_reaches(MemoryType type, int device, const Place& place) noexcept;
HMC_API bool openmp_reaches(int device, const Place& place) noexcept;
/// The type that DEFAULT means on this machine; any other type is returned unchanged.
HMC_API MemoryType resolved(MemoryType type);
/// An allocator of memory that devices of `type` can access. Throws Error{unsupported}.
HMC_API Allocator allocator_for(MemoryType type);

}  // namespace detail

}  // namespace hmc
