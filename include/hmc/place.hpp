// Place and TransferOrder: where a Buffer lives, and which of its transfers wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <hmc/types.hpp>

namespace hmc {

class Window;
namespace window {
class Core;
}

/// Who gives a Buffer its memory. The numbers never change; new ones go to the end.
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
  /// omp_target_alloc of the OpenMP library that the process has, or else of libgomp or libomp. Devices have OpenMP's
  /// numbers; the one after the last, 0 on a machine that OpenMP finds none on, is the host itself.
  openmp,
  /// A window's symmetric heap; such a Place is made of the Window.
  window,
};
inline constexpr int allocator_count = 16;
HMC_API const char* name_of(Allocator allocator) noexcept;

/// Where a Buffer lives. An Allocator alone means its device 0; a Window means its symmetric heap.
struct Place {
  Place(Allocator on_allocator, int on_device = 0) noexcept
      : allocator(on_allocator), device(on_device), part(on_allocator) {}
  /// Every rank makes Buffers in a window, lets them grow, moves them there and lets them go in the same order and with
  /// the same counts, as Window::alloc wants it: nothing is exchanged, and they have the same offsets.
  /// Throws Error for a window that isn't open.
  HMC_API Place(const Window& window);

  Allocator allocator;
  int device;
  std::shared_ptr<window::Core> heap;  ///< of a place in a window
  Allocator part;                      ///< whose memory it is: of a place in a window, that of this rank's part
  friend bool operator==(const Place&, const Place&) = default;
};

/// Which transfers of a Buffer are waited for before the call returns.
enum class TransferMode : int {
  async,      ///< none
  sync_host,  ///< those to memory that the host reads
  sync,       ///< all
};

/// How a Buffer's transfers are ordered: in streams of its own, or in the user's.
struct TransferOrder {
  constexpr TransferOrder(TransferMode with_mode = TransferMode::sync) noexcept : mode(with_mode) {}
  /// `users` is the vendor's own handle of a stream on the Buffer's device; it must outlive the Buffer.
  constexpr TransferOrder(TransferMode with_mode, void* users) noexcept
      : mode(with_mode), stream(users), has_stream(true) {}
  TransferMode mode;
  void* stream = nullptr;
  bool has_stream = false;  ///< null is a stream too, with some vendors
};

namespace detail {

/// The transfers of one Buffer that are under way, and the streams that they go by.
class Transfers;
/// Null where every transfer waits and no stream is given. Throws Error{invalid_argument} for a stream where there is
/// no device.
HMC_API std::shared_ptr<Transfers> make_transfers(const Place& place, const TransferOrder& order);
/// Others by the same user's streams.
HMC_API std::shared_ptr<Transfers> alike(const std::shared_ptr<Transfers>& transfers);
/// The stream of this place, as its vendor knows it; null where there is none.
HMC_API void* stream_at(const std::shared_ptr<Transfers>& transfers, const Place& place);
/// Waits for all of them and for their streams. Throws Error.
HMC_API void synchronize(Transfers& transfers);
HMC_API void settle(Transfers& transfers) noexcept;

/// One end of a transfer. Without a keeper it's memory of the caller's.
struct End {
  std::byte* address = nullptr;
  std::shared_ptr<const void> keeper;
  std::shared_ptr<Transfers>* transfers = nullptr;  ///< of the Buffer that it lies in; made where it gets its first
  const Place* place = nullptr;
};
/// Between any two places, in the order of `by` and after what is under way at both ends; the ranges don't overlap.
/// Without `by` it's done when it returns. What the caller has in host memory was read when it returns. Throws Error.
HMC_API void transfer(const End& to, const End& from, std::size_t bytes, TransferMode mode, Transfers* by);

/// Bytes that go with their last holder. Throws Error{unsupported} with the reason.
HMC_API std::shared_ptr<std::byte> allocate_at(const Place& place, std::size_t bytes);
/// The same in a window's heap, which gets them back.
HMC_API std::shared_ptr<std::byte> allocate_in_window(const Place& place, std::size_t bytes);
HMC_API std::uint64_t offset_in_window(const Place& place, const std::byte* address);

HMC_API bool host_reaches(const Place& place) noexcept;
/// The same place, or one whose memory is reached by the host and by devices in the same way.
HMC_API bool is_reached_alike(const Place& one, const Place& other) noexcept;
/// Device number `device` of `type` reads what lies at `place`.
HMC_API bool device_reaches(MemoryType type, int device, const Place& place) noexcept;
HMC_API bool openmp_reaches(int device, const Place& place) noexcept;
/// What DEFAULT stands for on this machine; any other type is itself.
HMC_API MemoryType resolved(MemoryType type);
/// What gives memory that devices of `type` reach. Throws Error{unsupported}.
HMC_API Allocator allocator_for(MemoryType type);

}  // namespace detail

}  // namespace hmc
