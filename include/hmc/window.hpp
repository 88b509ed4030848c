// Window: one ConnBuffer per rank of a Team, addressed by (rank, offset).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

#include <hmc/conn_buffer.hpp>
#include <hmc/device_handle.hpp>
#include <hmc/error.hpp>
#include <hmc/request.hpp>
#include <hmc/types.hpp>

namespace hmc {

class Team;
struct Path;
namespace window {
class Core;
}

/// One transfer of put_batch: local source -> (rank's window, offset).
struct Put {
  std::uint64_t offset;
  const void* source;
  std::size_t bytes;
};
/// One transfer of get_batch: (rank's window, offset) -> local destination.
struct Get {
  std::uint64_t offset;
  void* destination;
  std::size_t bytes;
};

/// `rows` rows of `row_bytes`; row i starts at i * pitch on each side.
struct Strides {
  std::size_t rows;
  std::size_t row_bytes;
  std::size_t local_pitch;
  std::size_t remote_pitch;
};

namespace detail {

/// Keeps T from being deduced from a value: a literal such as 1 must not decide the width of the word.
template <typename T> struct AtomicWord {
  static_assert(std::is_same_v<T, int> || std::is_same_v<T, unsigned> || std::is_same_v<T, long> ||
                    std::is_same_v<T, unsigned long> || std::is_same_v<T, long long> ||
                    std::is_same_v<T, unsigned long long>,
                "HMC's atomics take words of 32 and 64 bits: std::int32_t, std::uint32_t, std::int64_t, std::uint64_t");
  using type = T;
};

}  // namespace detail

/// The symmetric window.
///
/// ORDERING CONTRACT
///  1. put returns: the source is reusable. Nothing is promised at the target.
///  2. fence(): earlier puts and atomics to a rank become visible there before later ones.
///  3. flush(rank) / flush() return: earlier puts and atomics are visible at the target(s), whether
///     or not the target runs any HMC call.
///  4. put_signal: whoever sees the signal's value (wait_until, test_until, fetch) sees the bytes.
///  5. Team::barrier completes the caller's earlier puts as (3) does.
/// Atomics are atomic with each other on the same word, whichever ranks they come from.
/// One-sided means one-sided: a target that computes or sleeps doesn't delay the origin.
///
/// A part may lie in any provider's memory, and ranks of one window in different ones. Where the host can't load and
/// store, data() is an address on the device, ptr() is null, and every verb is over at the target when it returns, but
/// for put_nb and get_nb of memory that is mapped here (path(rank) isn't "staged"): a device carries them out while the
/// host goes on, and their request is done when the bytes have arrived. fence(), flush() and barrier() wait for them.
/// The host goes on only where its side is pinned: with pageable memory a driver may copy before the call returns.
/// Signals and atomics are copies of words under a lock: atomic with the signals and atomics of the same window, not
/// with its puts, nor with what another window over the same memory or a kernel does to the word meanwhile. While a
/// window over device memory is made nobody may write to its first 8 bytes.
///
/// The local side of every verb may be any memory of the process, a device's too; where it overlaps the bytes that the
/// verb writes (a put or get to oneself, or to a rank whose memory is mapped), these are unspecified afterwards, unless
/// both begin at the same byte. Every verb throws Error with operation, rank, peer, offset and size; when it has thrown
/// (timeout included), nothing touches the local side any more. Ownership: a Window holds its memory; windows over a
/// caller's ConnBuffer share it. Create and close are collective; a destructor is local, never blocks, and then peers
/// must not touch this rank's part any more. Threads: one at a time per Runtime, except that different Runtimes of one
/// process are independent.
class HMC_API Window {
 public:
  /// Collective over the team. Each rank's part has `bytes` bytes (they may differ by rank), zeroed.
  static Window create(Team& team, std::size_t bytes);
  /// Over memory that the caller has; the buffer may be destroyed before the window.
  static Window create(Team& team, const ConnBuffer& buffer);
  /// Over `bytes` bytes of a memfd from `file_offset` (a multiple of the page size); the descriptor is
  /// duplicated, the caller keeps its own.
  static Window create_over_memfd(Team& team, int memfd, std::size_t bytes, std::uint64_t file_offset = 0);

  Window() = default;
  Window(Window&&) noexcept;
  Window& operator=(Window&&) noexcept;
  ~Window();
  /// Collective. Completes this rank's puts, waits for all ranks, and frees the memory. Then, if the ranks' calls of
  /// alloc differ, it throws Error{mismatch} on every rank; the error names ranks, sizes and offsets.
  void close();
  bool is_open() const noexcept;

  std::size_t bytes() const;          ///< of this rank's part
  std::size_t bytes(int rank) const;  ///< of a rank's part
  std::byte* data() const;            ///< this rank's part
  template <typename T> T* local(std::uint64_t offset = 0) const { return reinterpret_cast<T*>(data() + offset); }

  /// Where load and store reach a rank's byte at `offset`; null where they can't.
  std::byte* ptr(int rank, std::uint64_t offset = 0) const;
  template <typename T> T* ptr(int rank, std::uint64_t offset = 0) const {
    return reinterpret_cast<T*>(ptr(rank, offset));
  }

  /// Which way bytes take to a rank's part, and why not a better one. For a part in device memory `wire` is how it
  /// is shared: "self", "same process", "vmm fd", "fabric handle", "ipc handle", or "staged" (its owner copies; the
  /// first call measures it).
  Path path(int rank) const;

  // ---- transfers
  void put(int rank, std::uint64_t offset, const void* source, std::size_t bytes);
  void get(int rank, std::uint64_t offset, void* destination, std::size_t bytes);
  [[nodiscard]] Request put_nb(int rank, std::uint64_t offset, const void* source, std::size_t bytes);
  [[nodiscard]] Request get_nb(int rank, std::uint64_t offset, void* destination, std::size_t bytes);
  void put_strided(int rank, std::uint64_t offset, const void* source, const Strides& strides);
  void get_strided(int rank, std::uint64_t offset, void* destination, const Strides& strides);
  void put_batch(int rank, std::span<const Put> puts);
  void get_batch(int rank, std::span<const Get> gets);

  /// As put, carried out by a device in the order of `stream`, its vendor's own handle: what the stream holds comes
  /// first, and the host waits for nothing. Until the stream has come past, both sides stay in use and no other verb
  /// is ordered with it; then the bytes are at the target. One side at least lies on the stream's device. Error{
  /// unsupported} where this rank doesn't reach the target by a copy: path(rank) is "staged", or a wire.
  void put_on(void* stream, int rank, std::uint64_t offset, const void* source, std::size_t bytes);

  // ---- signals: 64-bit words, 8-byte aligned
  /// The bytes, then `value` at `signal_offset` of the same rank.
  void put_signal(int rank, std::uint64_t offset, const void* source, std::size_t bytes, std::uint64_t signal_offset,
                  std::uint64_t value);
  /// Waits on this rank's own word; returns the value seen. Error{timeout} at the deadline names the word, the
  /// condition and the value seen last. A `compare` that is no Cmp is Error{invalid_argument}.
  std::uint64_t wait_until(std::uint64_t offset, Cmp compare, std::uint64_t value, Timeout timeout = job_timeout);
  bool test_until(std::uint64_t offset, Cmp compare, std::uint64_t value);

  // ---- atomics on std::int32_t, std::uint32_t, std::int64_t, std::uint64_t, naturally aligned. The caller names the
  // word's type, since it isn't deduced from the value: add<std::int64_t>(rank, offset, 1).
  template <typename T> using Word = typename detail::AtomicWord<T>::type;
  template <typename T> T fetch_add(int rank, std::uint64_t offset, Word<T> value);
  template <typename T> T swap(int rank, std::uint64_t offset, Word<T> value);
  template <typename T> T compare_swap(int rank, std::uint64_t offset, Word<T> expected, Word<T> desired);
  template <typename T> Word<T> fetch(int rank, std::uint64_t offset);
  template <typename T> T fetch_and(int rank, std::uint64_t offset, Word<T> value);
  template <typename T> T fetch_or(int rank, std::uint64_t offset, Word<T> value);
  template <typename T> T fetch_xor(int rank, std::uint64_t offset, Word<T> value);
  // without a result: they return at local completion, as put does
  template <typename T> void add(int rank, std::uint64_t offset, Word<T> value);
  template <typename T> void set(int rank, std::uint64_t offset, Word<T> value);
  template <typename T> void atomic_and(int rank, std::uint64_t offset, Word<T> value);
  template <typename T> void atomic_or(int rank, std::uint64_t offset, Word<T> value);
  template <typename T> void atomic_xor(int rank, std::uint64_t offset, Word<T> value);

  // ---- order
  void fence();
  void flush(int rank, Timeout timeout = job_timeout);
  void flush(Timeout timeout = job_timeout);

  // ---- the user context: 64 KiB per rank beside its part, in host memory. Its rank sets it, everybody reads it:
  // ranks, on whatever node, and kernels of ranks on this one (hmc_device.cuh). A barrier after set_context makes it
  // seen.
  static constexpr std::size_t context_bytes = std::size_t{64} << 10;
  /// Collective over the team that the window was made over; once per window. Zeroed.
  void open_context(Team& team);
  void set_context(std::uint64_t offset, const void* source, std::size_t bytes);
  void get_context(int rank, std::uint64_t offset, void* destination, std::size_t bytes) const;

  /// For kernels of this rank's device, or of that one where this rank's part is host memory (which is registered
  /// with it); see hmc_device.cuh. Local; good until the window is closed. Parts that the device doesn't reach are null
  /// there. The context is among it if it was opened before. Error{unsupported} where HMC knows no kernels
  /// of such devices, Error{invalid_argument} where none has this number.
  DeviceHandle device_handle(MemoryType type = MemoryType::NVIDIA_GPU, int device = 0);

  // ---- symmetric allocation inside the window
  /// Collective by agreement: every rank makes the same calls in the same order and gets the same
  /// offset; nothing is exchanged before close(), which compares them. `align` is a power of two. Error{out_of_memory}
  /// when full.
  std::uint64_t alloc(std::size_t bytes, std::size_t align = 64);
  void free(std::uint64_t offset);

  const std::shared_ptr<window::Core>& core() const noexcept { return core_; }

 private:
  explicit Window(std::shared_ptr<window::Core> core) noexcept : core_(std::move(core)) {}
  std::shared_ptr<window::Core> core_;
};

}  // namespace hmc
