// Endpoint: one-sided access to the memory of processes that aren't ranks of one job. Peers are added and removed.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/bytes.hpp"
#include "runtime/base/deadline.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/segment.hpp"
#include "runtime/base/status.hpp"
#include "runtime/memory/provider.hpp"
#include "runtime/transport/wire.hpp"

namespace hmc::rma {

/// Owns the wires of one buffer and its peers. Each side numbers its own peers: reserve() returns a number, offer()
/// returns the data with which that peer reaches this side, and connect() takes the peer's offer. The caller sends
/// offers and descriptors over an authenticated connection. The buffer is registered once per wire.
///
/// Peers can't access device memory. Its owner passes a relay: host memory that peers access in its place, and from
/// which the owner copies.
///
/// In addition to the buffer, each pair of peers has control words: a peer stores into its words here, after its puts.
///
/// put and get start a transfer; wait() returns when the bytes are visible at the peer, or have arrived here. A peer
/// that computes doesn't delay them: its memory is mapped, or its device or the wire's progress thread serves them.
/// Threads: any. One lock covers the wires; a wait releases it between polls.
class Endpoint {
 public:
  static constexpr int most_peers = 1024;
  static constexpr std::size_t control_words = 24;  ///< per peer and direction
  static constexpr std::size_t nonce_at = most_peers * control_words * sizeof(std::uint64_t);
  static constexpr std::size_t control_bytes = nonce_at + sizeof(std::uint64_t);
  using Wires = std::vector<std::unique_ptr<transport::OpenWire>>;

  /// `relay`: null if the CPU can access the buffer. `wires` serve most_peers each; all of them are offered, and the
  /// connecting side chooses one by name.
  Endpoint(std::shared_ptr<memory::Allocation> buffer, std::shared_ptr<memory::Allocation> relay, Wires wires,
           base::Log log);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  const memory::Allocation& buffer() const noexcept { return *buffer_; }
  /// The memory that peers access: the relay, or else the buffer.
  bool has_relay() const noexcept { return relay_ != nullptr; }
  const memory::Allocation& exposed() const noexcept { return relay_ != nullptr ? *relay_ : *buffer_; }
  /// Registers memory of this process on the wires that use it: transfers need no registration of their own.
  void register_local(std::byte* memory, std::size_t bytes) noexcept;
  void deregister_local(const std::byte* memory, std::size_t bytes) noexcept;
  /// The names of the wires, in order of preference.
  std::vector<std::string> wire_names() const;

  /// Returns a number for a new peer; -1 if most_peers are in use. A number isn't used again, so a call with the number
  /// of a removed peer fails.
  int reserve();
  /// The data that the peer needs: the sizes of buffer and relay, the place of its control words, and address and key
  /// per wire.
  base::Bytes offer(int peer);
  /// A peer's memory in this process, if both are on one node.
  struct Mapped {
    std::shared_ptr<base::Segment> buffer;  ///< null: only the control words are mapped
    std::size_t offset = 0;                 ///< of the buffer in its segment
    std::shared_ptr<base::Segment> control;
  };
  /// The peer's offer. `wire` is the name of the wire that both have chosen; unused if `mapped.control` is set. Throws
  /// Error{refused, unavailable}.
  void connect(int peer, base::ByteView offer, const std::string& wire, Mapped mapped);
  /// The control words of all peers, for Mapped::control. The word at nonce_at belongs to the caller.
  const std::shared_ptr<base::Segment>& control() const noexcept { return control_; }
  /// All transfers of the peer fail. Its place is then free for another peer, unless a wire still sends to this one.
  void remove(int peer) noexcept;
  /// ok, or the first failure of the peer's wire.
  base::Status status(int peer) const noexcept;

  std::uint64_t peer_bytes(int peer) const noexcept;
  /// The size of the peer's relay; 0: it has none, and its buffer is accessed directly.
  std::uint64_t peer_relay_bytes(int peer) const noexcept;
  /// "shared memory", or the wire with its transport.
  std::string path(int peer) const;

  /// A transfer in flight; complete if all tickets are `done`.
  struct Transfer {
    int peer = -1;
    transport::Ticket data = transport::done;   ///< the local memory is in use
    transport::Ticket words = transport::done;  ///< of put_signal: the control words
    transport::Ticket flush = transport::done;  ///< of a put: its bytes may not be visible yet
    bool is_complete() const noexcept {
      return data == transport::done && words == transport::done && flush == transport::done;
    }
  };
  /// A place in the peer's buffer, or in its relay.
  struct Place {
    constexpr Place(std::uint64_t at, bool is_in_relay = false) : offset(at), in_relay(is_in_relay) {}
    std::uint64_t offset;
    bool in_relay;
  };
  /// Range and pointer are checked: out_of_range, invalid_argument. unsupported: the peer's buffer is accessed through
  /// its relay only. `local` is host memory.
  base::Status put(int peer, Place place, const void* local, std::size_t size, Transfer& transfer) noexcept;
  /// As put, but the transfer is complete when the local memory isn't in use any more. A flush() after it makes the
  /// bytes visible.
  base::Status start_put(int peer, Place place, const void* local, std::size_t size, Transfer& transfer) noexcept;
  /// Complete when all earlier puts to the peer are visible there.
  base::Status flush(int peer, Transfer& transfer) noexcept;
  base::Status get(int peer, Place place, void* local, std::size_t size, Transfer& transfer) noexcept;
  /// As put, then stores the control words [first, first + values.size()) at the peer, the last one last. A peer that
  /// loads the last one also sees the bytes, the other words, and all earlier puts to it.
  base::Status put_signal(int peer, Place place, const void* local, std::size_t size, std::size_t first,
                          std::span<const std::uint64_t> values, Transfer& transfer) noexcept;
  /// The value that the peer stored last into this side's control word.
  std::uint64_t word(int peer, std::size_t index) const noexcept;
  /// Waits until the transfer is complete: for a put, visible at the peer. At a timeout it stays in flight.
  base::Status wait(Transfer& transfer, base::Deadline deadline) noexcept;
  /// ok, in_progress or the failure.
  base::Status test(Transfer& transfer) noexcept;
  /// Ends the transfer: on return its local memory isn't accessed any more.
  void abandon(Transfer& transfer) noexcept;

 private:
  struct Peer;
  /// The peer's place in all tables. Places are used again.
  static int place_of(int peer) noexcept { return peer % most_peers; }
  /// Null if the peer was removed.
  Peer* find(int peer) const noexcept;
  base::Status check(const Peer* peer, Place place, const void* local, std::size_t size) const noexcept;
  base::Status test_locked(Transfer& transfer) noexcept;
  std::byte* own_words(int peer) const noexcept;

  mutable std::mutex lock_;
  std::shared_ptr<memory::Allocation> buffer_, relay_;
  transport::Region region_;
  Wires wires_;
  std::vector<base::Bytes> keys_;  // by wire; empty: the wire can't reach the buffer
  std::shared_ptr<base::Segment> control_;
  transport::Region control_region_;
  std::vector<base::Bytes> control_keys_;     // by wire
  std::vector<std::unique_ptr<Peer>> peers_;  // by place
  int last_reserved_ = -1;
  base::Log log_;
};

}  // namespace hmc::rma
