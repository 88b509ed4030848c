// Window: one part of memory per rank of a Team, addressed by (rank, offset).
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
namespace rma {
class WindowCore;
}

/// One transfer of put_batch: from `source` to byte `offset` of the target's part.
struct Put {
  std::uint64_t offset;
  const void* source;
  std::size_t bytes;
};
/// One transfer of get_batch: from byte `offset` of the target's part to `destination`.
struct Get {
  std::uint64_t offset;
  void* destination;
  std::size_t bytes;
};

/// `rows` rows of `row_bytes` bytes. Row i starts at i * local_pitch in the local buffer, and at offset + i *
/// remote_pitch in the target's part. A pitch is at least `row_bytes`.
struct Strides {
  std::size_t rows;
  std::size_t row_bytes;
  std::size_t local_pitch;
  std::size_t remote_pitch;
};

namespace detail {

/// Prevents deduction of T from an operand: a literal such as 1 must not decide the width of the word.
template <typename T> struct AtomicWord {
  static_assert(std::is_same_v<T, int> || std::is_same_v<T, unsigned> || std::is_same_v<T, long> ||
                    std::is_same_v<T, unsigned long> || std::is_same_v<T, long long> ||
                    std::is_same_v<T, unsigned long long>,
                "HMC's atomics take words of 32 and 64 bits: std::int32_t, std::uint32_t, std::int64_t, std::uint64_t");
  using type = T;
};

}  // namespace detail

/// A symmetric window: each rank of the team exposes one part of it, and every rank accesses all parts one-sided (RMA).
///
/// ORDERING CONTRACT
///  1. put returns at local completion: the source may be reused. The bytes may not be visible at the target yet.
///  2. fence(): earlier puts and atomics to a rank become visible there before later ones.
///  3. flush(rank) and flush() return at remote completion: earlier puts and atomics are visible at the target, whether
///     or not the target calls HMC.
///  4. put_signal: a rank that sees the signal value (wait_until, test_until, fetch) sees the bytes.
///  5. Team::barrier completes the caller's earlier puts and atomics, as flush() does.
///
/// Atomics on the same word are atomic with each other, from any rank. A target that computes or sleeps doesn't delay
/// the origin.
///
/// LOCAL BUFFERS. The local buffer of a verb (put, get, atomic) may be any memory of the process, device memory
/// included. It may overlap the accessed range of this rank's own part, or of a mapped part. Then the bytes that the
/// verb writes are undefined, unless both ranges start at the same byte.
///
/// ERRORS. Verbs throw Error with operation, rank, peer, offset and size. After a verb has thrown, timeout included,
/// HMC no longer accesses its local buffer. The codes:
///  - bad_rank, out_of_range, misaligned, invalid_argument: a wrong argument; no data has moved
///  - closed: the window is closed
///  - timeout: the deadline of the job (HMC_TIMEOUT_S) or of the call has passed
///  - peer_failed, aborted: a rank has died, or the job was aborted
///
/// DEVICE MEMORY. Each part is in host memory or in the memory of a device. The parts of a window may differ. If the
/// host can't load from and store to a part:
///  - data() is a device address, and ptr() is null.
///  - Verbs return at remote completion. Exception: put_nb and get_nb on a part that is mapped in this process
///    (path(rank) isn't "staged") are asynchronous device copies. The request is complete when the bytes have arrived.
///    fence(), flush() and Team::barrier wait for these copies.
///  - put_nb and get_nb with a pageable local buffer may block, because the driver may copy synchronously. Pinned
///    memory avoids that.
///  - Signals and atomics are copies of words under a lock. They are atomic with the signals and atomics of the same
///    window. They aren't atomic with puts, with kernels, or with another window over the same memory.
///  - No rank and no kernel may write to the first 8 bytes of the memory during create().
///
/// LIFETIME. A Window owns its memory; a window over a ConnBuffer shares the buffer's memory. create, open_context and
/// close are collective. The destructor is local and never blocks. After a rank has destroyed its Window, its peers
/// must not access its part.
///
/// THREADS. One thread at a time per Runtime. Several Runtimes in one process are independent of each other.
class HMC_API Window {
 public:
  /// Collective over the team. Allocates this rank's part: `bytes` bytes of host memory, zeroed. The size may differ by
  /// rank. If the allocation fails on one rank, every rank throws.
  static Window create(Team& team, std::size_t bytes);
  /// Collective over the team. Registers the buffer's memory as this rank's part. The ConnBuffer may be destroyed
  /// before the window.
  static Window create(Team& team, const ConnBuffer& buffer);
  /// Collective over the team. Maps `bytes` bytes of a memfd from `file_offset`, a multiple of the page size. HMC
  /// duplicates the descriptor. The caller closes its own descriptor.
  static Window create_over_memfd(Team& team, int memfd, std::size_t bytes, std::uint64_t file_offset = 0);

  Window() = default;
  Window(Window&&) noexcept;
  Window& operator=(Window&&) noexcept;
  ~Window();
  /// Collective. Completes this rank's puts, waits for all ranks, and frees the memory. Error{mismatch} on every rank
  /// if the ranks' calls of alloc differ; the error names the ranks, sizes and offsets.
  void close();
  bool is_open() const noexcept;
  /// Collective over the team, after Team::shrink or Team::grow. Exposes the same memory to this team. The data and the
  /// allocations (alloc) stay. A replacement calls create(team, buffer) instead. After the call no transfer of the old
  /// team changes the memory. If rebind throws, it may be called again. Every rank rebinds its windows in the same
  /// order, else Error{mismatch}; a replacement creates them in that order, which HMC can't check.
  void rebind(Team& team);

  std::size_t bytes() const;          ///< the size of this rank's part
  std::size_t bytes(int rank) const;  ///< the size of a rank's part
  std::byte* data() const;            ///< the first byte of this rank's part
  /// The address of byte `offset` of this rank's part. The offset isn't checked.
  template <typename T> T* local(std::uint64_t offset = 0) const { return reinterpret_cast<T*>(data() + offset); }

  /// The address of byte `offset` of a rank's part, for load and store. Null if this process can't access the part by
  /// load and store, or if `offset` is beyond the part.
  std::byte* ptr(int rank, std::uint64_t offset = 0) const;
  template <typename T> T* ptr(int rank, std::uint64_t offset = 0) const {
    return reinterpret_cast<T*>(ptr(rank, offset));
  }

  /// The first byte of a rank's part, as ptr(rank), and a share of the ownership of its mapping: the address stays
  /// valid after the window is closed. Then it is memory that no verb accesses. Null where ptr() is null, and for
  /// device memory.
  std::shared_ptr<std::byte> share(int rank) const;

  /// The wire to a rank's part, and the reason for it. For a part in device memory `wire` names the method of
  /// sharing: "self", "same process", "vmm fd", "fabric handle", "ipc handle", or "staged" (the owner's process
  /// copies). The first call for a staged part measures its bandwidth and latency.
  Path path(int rank) const;

  // ---- transfers
  /// Copies `bytes` bytes from `source` to byte `offset` of the target's part. Returns at local completion: `source`
  /// may be reused. flush() waits for remote completion.
  void put(int rank, std::uint64_t offset, const void* source, std::size_t bytes);
  /// Copies `bytes` bytes from byte `offset` of the target's part to `destination`. Returns when the bytes have
  /// arrived.
  void get(int rank, std::uint64_t offset, void* destination, std::size_t bytes);
  /// Starts a put. `source` stays in use until the request is complete (local completion).
  [[nodiscard]] Request put_nb(int rank, std::uint64_t offset, const void* source, std::size_t bytes);
  /// Starts a get. `destination` stays in use until the request is complete, that is, until the bytes have arrived.
  [[nodiscard]] Request get_nb(int rank, std::uint64_t offset, void* destination, std::size_t bytes);
  /// Puts rows with a constant stride. Returns at local completion, as put does.
  void put_strided(int rank, std::uint64_t offset, const void* source, const Strides& strides);
  /// Gets rows with a constant stride. Returns when all rows have arrived.
  void get_strided(int rank, std::uint64_t offset, void* destination, const Strides& strides);
  /// Several puts to one rank. HMC checks all of them before the first byte moves. Returns at local completion of all.
  void put_batch(int rank, std::span<const Put> puts);
  /// Several gets from one rank. HMC checks all of them before the first byte moves. Returns when all bytes have
  /// arrived.
  void get_batch(int rank, std::span<const Get> gets);

  /// Queues a put on a device's `stream` (the vendor's handle). The device copies after the work that is
  /// already queued on the stream. The host doesn't wait.
  ///  - At least one of source and target is on the stream's device.
  ///  - Source and target stay in use until the stream has executed the copy. Then the bytes are at the target. Until
  ///    then, the copy isn't ordered with any other verb.
  ///  - Error{unsupported} if no device of this rank can copy to the target (path(rank) is "staged" or a network wire),
  ///    or if source and target are on devices of different vendors.
  void put_on(void* stream, int rank, std::uint64_t offset, const void* source, std::size_t bytes);

  // ---- signals: 64-bit words, 8-byte aligned
  /// Puts the bytes as put does, then stores `value` at `signal_offset` of the same rank. A rank that sees the value
  /// sees the bytes. Returns at local completion.
  void put_signal(int rank, std::uint64_t offset, const void* source, std::size_t bytes, std::uint64_t signal_offset,
                  std::uint64_t value);
  /// Waits until the word at `offset` of this rank's own part satisfies the condition: word `compare` value. Returns
  /// the word. Error{timeout} at the deadline names the word, the condition and the last value.
  std::uint64_t wait_until(std::uint64_t offset, Cmp compare, std::uint64_t value, Timeout timeout = job_timeout);
  /// Tests the condition of wait_until without waiting. Throws Error if the condition is false and the job has failed.
  bool test_until(std::uint64_t offset, Cmp compare, std::uint64_t value);

  // ---- atomics: words of type std::int32_t, std::uint32_t, std::int64_t or std::uint64_t, naturally aligned. The type
  // must be explicit; it isn't deduced from the value: add<std::int64_t>(rank, offset, 1). Atomics with a result return
  // the old value; they block until it has arrived.
  template <typename T> using Word = typename detail::AtomicWord<T>::type;
  template <typename T> T fetch_add(int rank, std::uint64_t offset, Word<T> value);
  template <typename T> T swap(int rank, std::uint64_t offset, Word<T> value);
  /// Stores `desired` if the word equals `expected`.
  template <typename T> T compare_swap(int rank, std::uint64_t offset, Word<T> expected, Word<T> desired);
  /// Reads the word.
  template <typename T> Word<T> fetch(int rank, std::uint64_t offset);
  template <typename T> T fetch_and(int rank, std::uint64_t offset, Word<T> value);
  template <typename T> T fetch_or(int rank, std::uint64_t offset, Word<T> value);
  template <typename T> T fetch_xor(int rank, std::uint64_t offset, Word<T> value);
  /// Start an atomic. `*old` (host memory) receives the old value; it stays in use until the request is complete. Many
  /// may be in flight: between nodes they share messages. They aren't ordered with each other, except by fence().
  template <typename T> [[nodiscard]] Request fetch_add_nb(int rank, std::uint64_t offset, Word<T> value, T* old);
  template <typename T> [[nodiscard]] Request swap_nb(int rank, std::uint64_t offset, Word<T> value, T* old);
  template <typename T>
  [[nodiscard]] Request compare_swap_nb(int rank, std::uint64_t offset, Word<T> expected, Word<T> desired, T* old);
  template <typename T> [[nodiscard]] Request fetch_nb(int rank, std::uint64_t offset, T* value);
  /// Atomics without a result (add, set, atomic_and, atomic_or, atomic_xor) return at local completion, as put does.
  template <typename T> void add(int rank, std::uint64_t offset, Word<T> value);
  template <typename T> void set(int rank, std::uint64_t offset, Word<T> value);
  template <typename T> void atomic_and(int rank, std::uint64_t offset, Word<T> value);
  template <typename T> void atomic_or(int rank, std::uint64_t offset, Word<T> value);
  template <typename T> void atomic_xor(int rank, std::uint64_t offset, Word<T> value);

  // ---- order
  /// Orders this rank's puts and atomics, separately for each target: those before the fence become visible at the
  /// target before those after it. Doesn't wait for remote completion.
  void fence();
  /// Waits for remote completion of this rank's earlier puts and atomics to `rank`. Error{timeout} at the deadline.
  void flush(int rank, Timeout timeout = job_timeout);
  /// Waits for remote completion of this rank's earlier puts and atomics to all ranks.
  void flush(Timeout timeout = job_timeout);

  // ---- user context: 64 KiB of host memory per rank, in addition to the rank's part. A rank writes its own context.
  // All ranks, and kernels of ranks on the same node (hmc_device.cuh), can read it. A barrier after set_context makes
  // the bytes visible.
  static constexpr std::size_t context_bytes = std::size_t{64} << 10;
  /// Collective over the window's team, once per window. The context is zeroed.
  void open_context(Team& team);
  void set_context(std::uint64_t offset, const void* source, std::size_t bytes);
  void get_context(int rank, std::uint64_t offset, void* destination, std::size_t bytes) const;

  /// A handle of the window for kernels (hmc_device.cuh). The kernels run on the device that holds this rank's part. If
  /// the part is in host memory, they run on device `device` of `type`. HMC registers host parts with that device.
  ///  - Local. Valid until the window is closed.
  ///  - Parts that the device can't access have a null address. The user context is included if it is already open.
  ///  - Error{unsupported}: HMC has no device-side API for this type.
  ///  - Error{invalid_argument}: there is no device with this number.
  DeviceHandle device_handle(MemoryType type = MemoryType::NVIDIA_GPU, int device = 0);

  // ---- symmetric allocation inside the window
  /// Allocates `bytes` bytes at the same offset on every rank. Every rank makes the same calls of alloc and free in the
  /// same order. The call is local. close() compares the calls of all ranks. `align` is a power of two.
  /// Error{out_of_memory} if no free range is large enough.
  std::uint64_t alloc(std::size_t bytes, std::size_t align = 64);
  /// Frees the allocation that starts at `offset`.
  void free(std::uint64_t offset);

  /// For HMC's own use.
  const std::shared_ptr<rma::WindowCore>& core() const noexcept { return core_; }

 private:
  explicit Window(std::shared_ptr<rma::WindowCore> core) noexcept : core_(std::move(core)) {}
  std::shared_ptr<rma::WindowCore> core_;
};

}  // namespace hmc
