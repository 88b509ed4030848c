// WindowCore: the state behind a Window, and its verbs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include <hmc/window.hpp>

#include "runtime/base/fork.hpp"
#include "runtime/memory/pointer_lookup.hpp"
#include "runtime/rma/symmetric_allocator.hpp"
#include "runtime/rma/team_core.hpp"
#include "runtime/transport/load_store.hpp"

namespace hmc::rma {

class DeviceAccess;

/// One rank's part of the window, with the path by which this rank accesses it.
struct WindowPeer {
  std::byte* direct = nullptr;  ///< load/store address of its first byte; null: use the channel
  std::uint64_t bytes = 0;
  transport::Channel* channel = nullptr;
  std::int32_t world = -1;  ///< its world rank
  std::int8_t wire = 0;
  bool on_device : 1 = false;  ///< the channel is a DeviceChannel: the local side may be any memory
  /// The part is mapped, but an RDMA device executes its atomics, through the channel: a device's atomics aren't atomic
  /// with the CPU's.
  bool has_device_atomics : 1 = false;
  std::int16_t local_index = -1;  ///< position on this rank's node, or -1
};
static_assert(sizeof(WindowPeer) == 32, "an index into peers is a shift");
/// In a child of fork() each WindowPeer reads as 0 bytes, without address or channel. The argument checks of every verb
/// therefore also detect the fork.
using WindowPeers = std::vector<WindowPeer, base::WipedOnForkAllocator<WindowPeer>>;

/// The resources of an open window. They are released in order, at the latest by the destructor.
struct WindowResources {
  explicit WindowResources(std::shared_ptr<Fabric> of) noexcept;
  ~WindowResources();  // local; abandons the transfers in flight
  WindowResources(const WindowResources&) = delete;
  WindowResources& operator=(const WindowResources&) = delete;

  /// Destroys the paths to the peers. Verbs then see a window of no ranks.
  void disconnect() noexcept;
  /// Disconnects, and deregisters this rank's part while peers may still access it.
  void retire_part() noexcept;
  /// Deregisters this rank's part and frees it. Only after disconnect(), and when no peer accesses the part.
  void release_part() noexcept;

  std::shared_ptr<Fabric> fabric;
  WindowPeers peers;  ///< by rank; empty unless open
  transport::Region region;
  transport::Region registered_region;  ///< region, or the Control of device memory
  bool on_device = false;               ///< this rank's part is device memory
  bool has_devices = false;             ///< some rank's part is device memory
  std::shared_ptr<memory::Allocation> allocation;
  std::vector<std::unique_ptr<transport::Channel>> channels;
  std::vector<int> wires;                 ///< the wires that reach peers
  std::size_t registered = 0;             ///< number of wires, from the first, on which the region is registered
  std::unique_ptr<DeviceAccess> devices;  ///< null until WindowCore::devices()
};

/// Every verb checks its arguments (one branch on the fast path). If the peer's part is mapped, the verb copies;
/// otherwise it calls the channel. Throws Error. One thread at a time per Fabric. Arguments are team ranks; errors name
/// world ranks.
class WindowCore : public std::enable_shared_from_this<WindowCore> {
 public:
  /// internal: not found by WindowRegistry. lazy: as internal, and the pages appear at their first use.
  enum class Role { user, internal, lazy };

  ~WindowCore();
  WindowCore(const WindowCore&) = delete;
  WindowCore& operator=(const WindowCore&) = delete;

  /// Collective.
  void close();
  /// Local: ends the access of peers to this rank's part, and returns its memory, which this object also keeps.
  std::shared_ptr<memory::Allocation> retire();
  /// The symmetric allocations of a retired window.
  void take_allocations(const WindowCore& old) { allocator_ = old.allocator_; }
  bool is_open() const noexcept { return open_ && !fabric().is_forked(); }
  std::uint64_t id() const noexcept { return id_; }
  /// The id + 1 of the window that was created first over this memory. Window::rebind keeps it, so that ranks can
  /// compare what they rebind.
  std::uint64_t lineage() const noexcept { return lineage_; }
  std::uint64_t team_id() const noexcept { return team_ != nullptr ? team_->id() : 0; }
  Fabric& fabric() const noexcept { return *own_.fabric; }
  int rank() const noexcept { return rank_; }  ///< of the team
  std::byte* data() const noexcept { return own_.region.base; }
  std::size_t bytes() const noexcept { return own_.region.bytes; }
  const transport::Region& region() const noexcept { return own_.region; }
  const std::shared_ptr<memory::Allocation>& allocation() const noexcept { return own_.allocation; }
  /// True if this rank's part is device memory. Wires can't access it directly, and perhaps the host can't either.
  bool on_device() const noexcept { return own_.on_device; }
  /// The path to a rank's part. The first call measures a staged path.
  Path path(int rank);
  std::span<const WindowPeer> peers() const noexcept { return own_.peers; }
  /// The owner of the mapping at peer.direct; null: the mapping ends with the window. If an RDMA device executes the
  /// atomics, peer.channel isn't the channel of the mapping.
  std::shared_ptr<void> mapping_of(const WindowPeer& peer) const noexcept {
    for (const auto& channel : own_.channels)
      if (channel->direct() == peer.direct)
        if (auto mapping = channel->mapping()) return mapping;
    return nullptr;
  }
  const WindowPeer& peer(const char* operation, int rank) const {
    if (static_cast<std::size_t>(rank) < own_.peers.size()) [[likely]]
      return own_.peers[static_cast<std::size_t>(rank)];
    refuse(operation, rank, 0, nullptr, 0);
  }
  /// The symmetric allocations of an open window.
  SymmetricAllocator& allocator(const char* operation) {
    if (!is_open()) refuse_closed(operation);
    return allocator_;
  }
  /// The device side, created at the first call. Throws Error.
  DeviceAccess& devices();

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
  /// `old` receives atomic.width bytes.
  Request atomic_nb(const char* operation, const transport::Atomic& atomic, int rank, std::uint64_t offset, void* old);
  void fence();
  void flush(int rank, Timeout timeout);
  void flush_all(Timeout timeout);

  /// Fast path of every transfer: the window is open; rank, range and pointer are valid; no rank has failed.
  const WindowPeer& check(const char* operation, int rank, std::uint64_t offset, const void* local,
                          std::size_t bytes) const {
    // A closed window has no peers, so this comparison also detects a closed window. g++ 12 needs one instruction more
    // for contains() here.
    if (static_cast<std::size_t>(rank) < own_.peers.size()) [[likely]] {
      const WindowPeer& peer = own_.peers[static_cast<std::size_t>(rank)];
      if (bytes <= peer.bytes && offset <= peer.bytes - bytes && (local != nullptr || bytes == 0) &&
          abort_word_.load(std::memory_order_relaxed) == 0) [[likely]]  // relaxed: see NodePage::aborted()
        return peer;
    }
    refuse(operation, rank, offset, local, bytes);
  }
  [[noreturn]] void refuse_closed(const char* operation) const;
  /// For wait_until. The text of a timeout contains the condition and the last value, `seen`.
  [[noreturn]] void throw_wait(const base::Status& status, std::uint64_t offset, Cmp compare, std::uint64_t value,
                               std::uint64_t seen) const;
  void drive_wires() const noexcept {
    for (const int wire : own_.wires) fabric().wires[static_cast<std::size_t>(wire)]->progress();
  }

 private:
  friend std::shared_ptr<WindowCore> create_window_over(TeamCore&, std::shared_ptr<memory::Allocation>,
                                                        std::exception_ptr, Role, std::uint64_t);
  enum class Direction { put, get };
  /// The local side of a transfer.
  template <Direction direction> using Local = std::conditional_t<direction == Direction::put, const void*, void*>;

  WindowCore(TeamCore& team, Role role);
  base::Exchange& exchange() const noexcept { return team_ != nullptr ? team_->exchange() : fabric().world_exchange(); }

  static bool contains(const WindowPeer& peer, std::uint64_t offset, std::size_t bytes) noexcept {
    return bytes <= peer.bytes && offset <= peer.bytes - bytes;
  }
  const WindowPeer& check_word(const char* operation, int rank, std::uint64_t offset, std::size_t width) const {
    const WindowPeer& peer = check(operation, rank, offset, this, width);
    if (offset % width != 0) [[unlikely]]
      refuse(operation, rank, offset, this, width);
    return peer;
  }
  const WindowPeer& check_strided(const char* operation, int rank, std::uint64_t offset, const void* local,
                                  const Strides& strides) const;
  void check_comparison(const char* operation, std::uint64_t offset, Cmp compare) const {
    if (compare > Cmp::ge) [[unlikely]]
      refuse_comparison(operation, offset, compare);
  }
  // With complete error texts. Not inline, so that the fast paths don't save registers for them.
  [[noreturn]] void refuse(const char* operation, int rank, std::uint64_t offset, const void* local,
                           std::size_t bytes) const;
  [[noreturn]] void refuse_comparison(const char* operation, std::uint64_t offset, Cmp compare) const;

  /// Copies to or from a peer's mapped memory. Without devices the cost is the copy and one load.
  template <Direction direction>
  [[gnu::always_inline]] void copy(const char* operation, const WindowPeer& peer, std::uint64_t offset,
                                   Local<direction> local, std::size_t bytes) {
    if (memory::devices_present()) [[unlikely]]
      return copy_with_devices<direction>(operation, peer, offset, local, bytes);
    if constexpr (direction == Direction::put)
      transport::store_bytes(peer.direct + offset, local, bytes);
    else
      transport::load_bytes(local, peer.direct + offset, bytes);
  }
  // noinline: see refuse().
  template <Direction direction>
  [[gnu::noinline]] void copy_with_devices(const char* operation, const WindowPeer& peer, std::uint64_t offset,
                                           Local<direction> local, std::size_t bytes);
  template <Direction direction>
  [[gnu::noinline]] void transfer_far(const WindowPeer& peer, int rank, std::uint64_t offset, Local<direction> local,
                                      std::size_t bytes);
  template <Direction direction>
  Request transfer_nb(const char* operation, int rank, std::uint64_t offset, Local<direction> local, std::size_t bytes);
  /// `piece_at`: returns a Put or a Get. By value, so that its captures stay in registers.
  template <Direction direction, typename PieceAt>
  void transfer_pieces(const char* operation, const WindowPeer& peer, int rank, std::size_t count, bool one_buffer,
                       PieceAt piece_at);
  /// True if the wire can't read or write `local` directly.
  bool must_stage(const char* operation, const WindowPeer& peer, const void* local) const {
    if (peer.channel == nullptr) [[unlikely]]
      refuse(operation, rank_, 0, nullptr, 0);  // a transfer of 0 bytes in a child of fork()
    return memory::devices_present() && !peer.on_device && !memory::is_host_accessible(local);
  }
  template <Direction direction>
  void stage(const char* operation, int rank, std::uint64_t offset, Local<direction> local, std::size_t bytes);
  template <Direction direction>
  transport::Ticket start(const WindowPeer& peer, Local<direction> local, const CallSite& call);

  void wait_ticket(const WindowPeer& peer, transport::Ticket ticket, const CallSite& call, base::Activity activity);
  void flush_wire(int wire, int rank, Timeout timeout);
  void note_direct_put(const WindowPeer& peer) noexcept {
    ++fabric().counters.puts_direct;
    fabric().waiter.ring(peer.local_index);
  }

  WindowResources own_;
  const std::atomic<std::uint64_t>& abort_word_;  // of the node page
  TeamCore* team_ = nullptr;                      // null: the world team, which may be destroyed before its windows
  std::shared_ptr<TeamCore> keeps_team_;          // of a user's window; the team owns internal windows
  int rank_;
  bool open_ = false;
  Role role_;
  std::uint64_t id_ = 0;
  std::uint64_t lineage_ = 0;
  SymmetricAllocator allocator_{0};
};

/// Collective: one segment per node, each rank owning a part of it. A lazy window lies in the node's area and takes no
/// descriptor, unless the area is full; `bytes` is then equal on all ranks, and `prepare` writes this rank's part
/// before any peer reads it.
std::shared_ptr<WindowCore> create_window(TeamCore& team, std::size_t bytes, WindowCore::Role role,
                                          const std::function<void(std::byte*)>& prepare = nullptr);
/// Collective: over memory that this rank has allocated. If `allocation` is null, this rank couldn't allocate, for the
/// reason in `failure`; then every rank throws. `rebound`: the lineage of the window that this rank rebinds. A rank
/// that has replaced another passes 0, as for a new window. Ranks that pass different lineages throw Error{mismatch}.
std::shared_ptr<WindowCore> create_window_over(TeamCore& team, std::shared_ptr<memory::Allocation> allocation,
                                               std::exception_ptr failure, WindowCore::Role role,
                                               std::uint64_t rebound = 0);

// Inline, so that Window::put and Window::get to a mapped peer are one function.
[[gnu::always_inline]] inline void WindowCore::put(int rank, std::uint64_t offset, const void* source,
                                                   std::size_t bytes) {
  const WindowPeer& peer = check("put", rank, offset, source, bytes);
  if (peer.direct != nullptr) [[likely]] {
    copy<Direction::put>("put", peer, offset, source, bytes);
    note_direct_put(peer);
    return;
  }
  transfer_far<Direction::put>(peer, rank, offset, source, bytes);
}

[[gnu::always_inline]] inline void WindowCore::get(int rank, std::uint64_t offset, void* destination,
                                                   std::size_t bytes) {
  const WindowPeer& peer = check("get", rank, offset, destination, bytes);
  if (peer.direct != nullptr) [[likely]]
    return copy<Direction::get>("get", peer, offset, destination, bytes);
  transfer_far<Direction::get>(peer, rank, offset, destination, bytes);
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
