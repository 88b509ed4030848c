// WindowCore: the state behind a Window, and its verbs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <hmc/window.hpp>

#include "runtime/base/fork.hpp"
#include "runtime/memory/pointer_lookup.hpp"
#include "runtime/rma/symmetric_allocator.hpp"
#include "runtime/rma/team_core.hpp"
#include "runtime/transport/load_store.hpp"

namespace hmc::rma {

struct Description;  // description.hpp
class DeviceAccess;
class KernelReach;  // runtime/device

/// One rank's part of the window, with the path by which this rank accesses it.
struct WindowPeer {
  std::byte* direct = nullptr;  ///< load/store address of its first byte; null: use the channel
  std::uint64_t bytes = 0;
  transport::Channel* channel = nullptr;
  std::int32_t world = -1;  ///< its world rank
  std::int8_t wire = 0;
  bool on_device = false;         ///< the channel is a DeviceChannel: the local side may be any memory
  std::int16_t local_index = -1;  ///< position on this rank's node, or -1
};
static_assert(sizeof(WindowPeer) == 32, "an index into peers is a shift");
/// In a child of fork() each WindowPeer reads as 0 bytes, without address or channel. The argument checks of every verb
/// therefore also detect the fork.
using WindowPeers = std::vector<WindowPeer, base::WipedOnForkAllocator<WindowPeer>>;

/// Every verb checks its arguments (one branch on the fast path). If the peer's part is mapped, the verb copies;
/// otherwise it calls the channel. Throws Error. One thread at a time per Fabric. Arguments are team ranks; errors name
/// world ranks.
class WindowCore : public std::enable_shared_from_this<WindowCore> {
 public:
  /// internal: not found by window_around. lazy: as internal, and the pages appear at their first use.
  enum class Role { user, internal, lazy };

  /// Collective. If `allocation` is null, this rank couldn't allocate, for the reason in `failure`; then every rank
  /// throws.
  static std::shared_ptr<WindowCore> open(TeamCore& team, std::shared_ptr<memory::Allocation> allocation,
                                          const ErrorDetail& failure, Role role);
  /// Collective: one segment per node, each rank owning a part of it. A lazy window lies in the node's area and takes
  /// no descriptor, unless the area is full; `bytes` is then equal on all ranks, and `prepare` writes this rank's part
  /// before any peer reads it.
  static std::shared_ptr<WindowCore> create(TeamCore& team, std::size_t bytes, Role role,
                                            const std::function<void(std::byte*)>& prepare = nullptr);
  ~WindowCore();
  WindowCore(const WindowCore&) = delete;
  WindowCore& operator=(const WindowCore&) = delete;

  void close();
  bool is_open() const noexcept { return open_ && !fabric_->is_forked(); }
  std::uint64_t id() const noexcept { return id_; }
  std::uint64_t team_id() const noexcept { return team_ != nullptr ? team_->id() : 0; }
  Fabric& fabric() const noexcept { return *fabric_; }
  int rank() const noexcept { return rank_; }  ///< of the team
  std::byte* data() const noexcept { return region_.base; }
  const transport::Region& region() const noexcept { return region_; }
  /// True if this rank's part is device memory. Wires can't access it directly, and perhaps the host can't either.
  bool on_device() const noexcept { return on_device_; }
  /// The path to a rank's part. The first call measures a staged path.
  Path path(int rank);
  std::size_t bytes() const noexcept { return region_.bytes; }
  std::span<const WindowPeer> peers() const noexcept { return peers_; }
  const WindowPeer& peer(const char* operation, int rank) const {
    if (static_cast<std::size_t>(rank) < peers_.size()) [[likely]]
      return peers_[static_cast<std::size_t>(rank)];
    refuse(operation, rank, 0, nullptr, 0);
  }

  void put(int rank, std::uint64_t offset, const void* source, std::size_t bytes);
  void get(int rank, std::uint64_t offset, void* destination, std::size_t bytes);
  Request put_nb(int rank, std::uint64_t offset, const void* source, std::size_t bytes);
  Request get_nb(int rank, std::uint64_t offset, void* destination, std::size_t bytes);
  void put_strided(int rank, std::uint64_t offset, const void* source, const Strides& strides);
  void get_strided(int rank, std::uint64_t offset, void* destination, const Strides& strides);
  void put_batch(int rank, std::span<const Put> puts);
  void get_batch(int rank, std::span<const Get> gets);
  void put_signal(int rank, std::uint64_t offset, const void* source, std::size_t bytes, std::uint64_t signal_offset,
                  std::uint64_t value);
  std::uint64_t wait_until(std::uint64_t offset, Cmp compare, std::uint64_t value, Timeout timeout);
  bool test_until(std::uint64_t offset, Cmp compare, std::uint64_t value);
  std::uint64_t atomic(const char* operation, const transport::Atomic& atomic, int rank, std::uint64_t offset);
  void fence();
  void flush(int rank, Timeout timeout);
  void flush_all(Timeout timeout);
  // ---- allocation.cpp
  std::uint64_t alloc(std::size_t bytes, std::size_t align);
  void free(std::uint64_t offset);

  /// The device side, created at the first call. Throws Error.
  DeviceAccess& devices();

  // ---- for DeviceAccess
  /// Fast path of every transfer: the window is open; rank, range and pointer are valid.
  const WindowPeer& check(const char* operation, int rank, std::uint64_t offset, const void* local,
                          std::size_t bytes) const {
    // A closed window has no peers, so this comparison also detects a closed window.
    if (static_cast<std::size_t>(rank) < peers_.size()) [[likely]] {
      const WindowPeer& peer = peers_[static_cast<std::size_t>(rank)];
      if (bytes <= peer.bytes && offset <= peer.bytes - bytes && (local != nullptr || bytes == 0)) [[likely]]
        return peer;
    }
    refuse(operation, rank, offset, local, bytes);
  }
  [[noreturn]] void refuse_closed(const char* operation) const;
  /// For wait_until. The text of a timeout contains the condition and the last value, `seen`.
  [[noreturn]] void throw_wait(const base::Status& status, std::uint64_t offset, Cmp compare, std::uint64_t value,
                               std::uint64_t seen) const;
  void drive_wires() const noexcept {
    for (const int wire : wires_in_use_) fabric_->wires[static_cast<std::size_t>(wire)]->progress();
  }
  const std::shared_ptr<memory::Allocation>& allocation() const noexcept { return allocation_; }

 private:
  WindowCore(TeamCore& team, Role role);
  void adopt(std::shared_ptr<memory::Allocation> allocation);
  base::Exchange& exchange() const noexcept { return team_ != nullptr ? team_->exchange() : fabric_->world_exchange(); }
  int world_rank(int rank) const noexcept { return team_ != nullptr ? team_->world_rank(rank) : rank; }
  /// "rank 3"; in a team other than the world "team rank 3 (world rank 7)".
  std::string name_of_rank(int rank) const;
  base::Bytes describe(const ErrorDetail& failure);
  void connect(const std::vector<base::Bytes>& descriptions);
  WindowPeers make_peers(std::vector<Description>& ranks);
  /// Collective: exchanges `outcome`. Throws on every rank if any rank failed.
  std::vector<Description> agree(const ErrorDetail& outcome, const std::vector<int>& helpers = {});
  void map_ahead() noexcept;

  const WindowPeer& check_strided(const char* operation, int rank, std::uint64_t offset, const void* local,
                                  const Strides& strides) const;
  const WindowPeer& check_word(const char* operation, int rank, std::uint64_t offset, std::size_t width) const;
  [[noreturn]] void refuse(const char* operation, int rank, std::uint64_t offset, const void* local,
                           std::size_t bytes) const;
  void require_comparison(const char* operation, std::uint64_t offset, Cmp compare) const {
    if (compare > Cmp::ge) [[unlikely]]
      refuse_comparison(operation, offset, compare);
  }
  [[noreturn]] void refuse_comparison(const char* operation, std::uint64_t offset, Cmp compare) const;
  /// Collective, after the barrier of close. Returns the error to throw if the ranks' alloc calls differ.
  std::exception_ptr compare_allocations() const noexcept;
  transport::Wire& wire_of(const WindowPeer& peer) const noexcept {
    return *fabric_->wires[static_cast<std::size_t>(peer.wire)];
  }
  /// Collective, after all ranks have tried to map the parts in device memory. `answers`: the agents that each rank
  /// needs.
  void settle_devices(const std::vector<Description>& answers);

  // Separate functions, so that the load/store path doesn't save registers for them.
  [[gnu::noinline]] void put_far(const WindowPeer& peer, int rank, std::uint64_t offset, const void* source,
                                 std::size_t bytes);
  [[gnu::noinline]] void get_far(const WindowPeer& peer, int rank, std::uint64_t offset, void* destination,
                                 std::size_t bytes);
  /// Copy to and from a peer's mapped memory. Without devices the cost is the copy and one load.
  void store(const char* operation, const WindowPeer& peer, std::uint64_t offset, const void* source,
             std::size_t bytes);
  void load(const char* operation, const WindowPeer& peer, std::uint64_t offset, void* destination, std::size_t bytes);
  /// As store() and load(), in a process with devices: `source` and `destination` may be device memory.
  [[gnu::noinline]] void copy_in(const char* operation, const WindowPeer& peer, std::uint64_t offset,
                                 const void* source, std::size_t bytes);
  [[gnu::noinline]] void copy_out(const char* operation, const WindowPeer& peer, std::uint64_t offset,
                                  void* destination, std::size_t bytes);
  /// True if the wire can't read or write `local` directly.
  bool must_stage(const char* operation, const WindowPeer& peer, const void* local) const {
    if (peer.channel == nullptr) [[unlikely]]
      refuse(operation, rank_, 0, nullptr, 0);  // a transfer of 0 bytes in a child of fork()
    return memory::devices_present() && !peer.on_device && !memory::is_host_accessible(local);
  }
  void deregister_region() noexcept;
  void wait_ticket(const WindowPeer& peer, transport::Ticket ticket, const CallSite& call, base::Activity activity);
  void flush_wire(int wire, int rank, Timeout timeout);
  void note_put(const WindowPeer& peer) noexcept {
    ++fabric_->counters.puts_direct;
    fabric_->waiter.ring(peer.local_index);
  }

  std::shared_ptr<Fabric> fabric_;
  TeamCore* team_ = nullptr;              // null: the world team, which may be destroyed before its windows
  std::shared_ptr<TeamCore> keeps_team_;  // of a user's window; the team owns internal windows
  int rank_;
  WindowPeers peers_;  // by rank; empty once closed
  transport::Region region_;
  transport::Region registered_region_;  // region_, or the Control of device memory
  bool open_ = false;
  bool on_device_ = false;    // this rank's part is device memory
  bool has_devices_ = false;  // some rank's part is device memory
  Role role_;
  std::uint64_t id_ = 0;
  std::shared_ptr<memory::Allocation> allocation_;
  std::vector<std::unique_ptr<transport::Channel>> channels_;
  std::vector<int> wires_in_use_;
  std::size_t registered_ = 0;  // number of wires, from the first, on which the region is registered
  SymmetricAllocator allocator_{0};
  std::unique_ptr<DeviceAccess> devices_;  // null until devices()
};

inline void WindowCore::store(const char* operation, const WindowPeer& peer, std::uint64_t offset, const void* source,
                              std::size_t bytes) {
  if (memory::devices_present()) [[unlikely]]
    return copy_in(operation, peer, offset, source, bytes);
  transport::store_bytes(peer.direct + offset, source, bytes);
}

inline void WindowCore::load(const char* operation, const WindowPeer& peer, std::uint64_t offset, void* destination,
                             std::size_t bytes) {
  if (memory::devices_present()) [[unlikely]]
    return copy_out(operation, peer, offset, destination, bytes);
  transport::load_bytes(destination, peer.direct + offset, bytes);
}

// Inline, so that Window::put and Window::get to a mapped peer are one function.
[[gnu::always_inline]] inline void WindowCore::put(int rank, std::uint64_t offset, const void* source,
                                                   std::size_t bytes) {
  const WindowPeer& peer = check("put", rank, offset, source, bytes);
  if (peer.direct != nullptr) [[likely]] {
    store("put", peer, offset, source, bytes);
    note_put(peer);
    return;
  }
  put_far(peer, rank, offset, source, bytes);
}

[[gnu::always_inline]] inline void WindowCore::get(int rank, std::uint64_t offset, void* destination,
                                                   std::size_t bytes) {
  const WindowPeer& peer = check("get", rank, offset, destination, bytes);
  if (peer.direct != nullptr) [[likely]] {
    load("get", peer, offset, destination, bytes);
    return;
  }
  get_far(peer, rank, offset, destination, bytes);
}

inline bool holds(std::uint64_t seen, Cmp compare, std::uint64_t value) noexcept {
  switch (compare) {
    case Cmp::eq: return seen == value;
    case Cmp::ne: return seen != value;
    case Cmp::lt: return seen < value;
    case Cmp::le: return seen <= value;
    case Cmp::gt: return seen > value;
    case Cmp::ge: return seen >= value;
  }
  return false;
}

}  // namespace hmc::rma
