// AmWire: a wire that sends each verb as an active message over a ByteLink.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/log.hpp"
#include "runtime/base/tls.hpp"
#include "runtime/base/wait.hpp"
#include "runtime/transport/am/link.hpp"
#include "runtime/transport/am/peers.hpp"
#include "runtime/transport/am/progress_thread.hpp"
#include "runtime/transport/am/regions.hpp"
#include "runtime/transport/am/target.hpp"
#include "runtime/transport/am/tickets.hpp"
#include "runtime/transport/wire.hpp"
#include "runtime/transport/wire_context.hpp"

namespace hmc::transport::am {

struct Options {
  int rank = 0;
  int size = 1;
  /// The progress thread wakes the owner through it; null: the owner never sleeps. Must outlive the wire.
  const base::Waiter* waiter = nullptr;
  /// A connection that is lost while no rank fails ends the job, through the page of `waiter`.
  bool fails_job = false;
  base::Log log{};
  std::optional<base::TlsKey> tls;  ///< encrypts messages; only for tcp
  Keystream::Key key{};             ///< as in Peers
};

Options options_of(const WireContext& context);

/// The target's CPU executes the verbs: on the target's progress thread, or in the target rank's own waits. So all
/// atomics on a word are atomic with each other, whatever devices the peers have. The first register_region() starts
/// the progress thread. Connects on first use. README.md states the guarantees.
///
/// One lock covers the link and all state. The owner (the rank's thread) takes it for every verb and tries to take it
/// for progress; the progress thread takes it while it serves.
class AmWire : public OpenWire, private LinkUser {
 public:
  AmWire(const Options& options, std::unique_ptr<ByteLink> link);
  /// Closes its connections. If peers have exited, this takes at most 2.5 seconds.
  ~AmWire() override;

  std::string_view name() const noexcept override { return link_->traits().name; }
  Capabilities capabilities() const noexcept override {
    return {.direct = false, .needs_target = true, .put_inline_max = inline_bytes};
  }
  base::Bytes address() override;
  void set_peer_addresses(std::vector<base::Bytes> addresses) override;
  base::Bytes offer(int number) override;
  void add_peer(int number, base::ByteView address) override;
  void remove_peer(int number) noexcept override;
  base::Status peer_status(int number) noexcept override;
  Reachability reaches(int peer) const override;
  /// Starts the progress thread: from now on a peer may need this rank to execute verbs.
  base::Bytes register_region(const Region& mine) override;
  std::vector<std::unique_ptr<transport::Channel>> connect(const Region& mine, std::span<const base::Bytes> keys,
                                                           std::span<const int> peers,
                                                           base::Deadline deadline) override;
  /// On return no message accesses the region, and its key is invalid. Takes at most two seconds.
  void deregister_region(const Region& mine) noexcept override;

  bool receive_into(const Region& mine, DirectReceive& receive) noexcept override;
  void end_receive_into(const Region& mine, DirectReceive& receive) noexcept override;
  int progress() noexcept override;
  base::Status test(Ticket ticket) noexcept override { return tickets_.test(ticket, &lock_); }
  /// On return the wire neither reads nor writes the transfer's local memory. If the peer doesn't receive the bytes of
  /// a put within one second, the wire closes the connection to that peer.
  void abandon(Ticket ticket) noexcept override;
  /// The target executes the messages of one sender in the order of sending.
  base::Status fence() noexcept override { return {}; }
  base::Status flush(int peer, Ticket& ticket) noexcept override;
  void all_left() noexcept override { all_left_ = true; }

  // ---- state, for tests
  const ByteLink& link() const noexcept { return *link_; }
  /// Counts messages from outside the job, and requests of the job's ranks for unregistered regions.
  Target::Refusals refusals() noexcept;
  /// High-water mark of records in use: verbs in the queues and messages held by the link.
  std::size_t records() noexcept;
  std::size_t receives() noexcept;
  /// True if small puts are held back, to be joined with the next verb into one message.
  bool holds_back() noexcept;
  /// The rank of the first lost connection; -1: none.
  int lost_rank() noexcept {
    const std::lock_guard guard(lock_);
    return lost_.rank;
  }
  /// Messages sent to a rank so far.
  std::uint64_t messages_to(int rank) noexcept;
  /// Messages to a rank that the link hasn't released yet.
  std::uint32_t in_flight(int rank) noexcept;

  // ---- for the progress thread
  /// Incremented by each progress() of the owner.
  std::uint64_t driven() const noexcept { return driven_.load(std::memory_order_relaxed); }
  bool owner_sleeps() const noexcept;
  /// Returns true if there is nothing to do before the next event. Then no put is held back until awake().
  bool arm() noexcept;
  void awake() noexcept;
  int serve() noexcept;

 protected:
  // ---- for a wire that executes some verbs in another way (../ucx), under lock_
  /// Ends the progress thread. The destructor of a derived class calls it first, without lock_.
  void stop() noexcept { thread_.reset(); }
  int progress_locked() noexcept;
  /// Makes progress while too many records are in use.
  void relieve() noexcept;
  /// Opens a ticket, and sends a flush to each rank in [first, last) with messages to be flushed. The ticket is done
  /// when these are answered and it was advanced `more` times. `done`: nothing to wait for.
  base::Status start_flush(int first, int last, std::uint64_t more, Ticket& ticket) noexcept;
  /// Access to a region of one peer. Each verb takes the lock; its message is sent by the protected function.
  class Channel : public transport::Channel {
   public:
    Channel(AmWire& wire, int peer, const Regions::Key& region);
    ~Channel() override;

    base::Status put(std::uint64_t offset, const void* source, std::size_t bytes, Ticket& ticket) noexcept override;
    base::Status get(std::uint64_t offset, void* destination, std::size_t bytes, Ticket& ticket) noexcept override;
    base::Status put_signal(std::uint64_t offset, const void* source, std::size_t bytes, std::uint64_t signal_offset,
                            std::uint64_t value, Ticket& ticket) noexcept override;
    base::Status notify(std::uint64_t offset, const void* source, std::size_t bytes, std::uint64_t signal_offset,
                        std::uint64_t value, Ticket& ticket) noexcept override;
    base::Status atomic(const Atomic& atomic, std::uint64_t offset, void* result, Ticket& ticket) noexcept override;

    const int peer;
    const Regions::Key region;

   protected:
    // Under the wire's lock; `ticket` is done.
    base::Status send_put(std::uint64_t offset, const void* source, std::size_t bytes, Ticket& ticket) noexcept;
    base::Status send_get(std::uint64_t offset, void* destination, std::size_t bytes, Ticket& ticket) noexcept;
    /// `kind`: put_signal or notice.
    base::Status send_signal(MessageKind kind, std::uint64_t offset, const void* source, std::size_t bytes,
                             std::uint64_t signal_offset, std::uint64_t value, Ticket& ticket) noexcept;
    base::Status send_atomic(const Atomic& atomic, std::uint64_t offset, void* result, Ticket& ticket) noexcept;
    /// Abandons the transfers of this channel, which ends.
    void abandon_all() noexcept;

   private:
    AmWire& wire_;
  };
  /// The channel to the region whose key register_region() of the peer has written. The caller checks that the key is
  /// complete.
  virtual std::unique_ptr<Channel> make_channel(int peer, base::ByteReader& key);
  static Regions::Key read_region(base::ByteReader& key) noexcept;
  /// Checks that a verb may be posted. First makes progress while too many records are in use.
  base::Status ready(const Channel& to) noexcept;

  const Options options_;
  std::mutex lock_;
  const std::unique_ptr<ByteLink> link_;
  Tickets tickets_;
  Peers peers_;

 private:
  void sent(Sending& record, base::Status status) noexcept override;
  void lost(int rank, const char* why, int error) noexcept override;
  void received(const Message& message, const std::byte* data, std::uint64_t bytes) noexcept override;
  void stranger(int socket) noexcept override;
  bool knows(const Message& message) noexcept override;
  bool begins(const Message& message) noexcept override;
  Place place(const Message& message, std::uint64_t at) noexcept override;
  void filled(const Message& message, std::uint64_t at, std::uint64_t bytes) noexcept override;
  void arrived(const Message& message) noexcept override;
  /// A rank that only waits for a signal of a lost peer has no transfer that fails. If the control plane doesn't report
  /// a failure while the rank waits for a second, both ranks live, and this ends the job.
  [[gnu::cold]] void watch_lost() noexcept;
  void wake_owner() const noexcept;
  /// Removes the unsent rest of a transfer from the queue; messages held by the link remain.
  void give_up(Ticket ticket) noexcept;
  /// Waits until the link no longer reads the transfer's memory. Closes the connection after `limit`.
  void reclaim(Ticket ticket, std::int64_t limit) noexcept;
  base::Status write(const Channel& to, const void* source, std::uint64_t bytes, const Message& last,
                     Ticket& ticket) noexcept;
  base::Status start(AmPeer& peer, const Message& message, const Tickets::Transfer& transfer, Ticket& ticket,
                     bool hold = false) noexcept;
  static Message message(MessageKind kind, const Regions::Key& region, std::uint64_t offset) noexcept;

  const std::uint64_t secret_;
  Regions regions_;
  Target target_;
  unsigned turn_ = 0;
  // Relaxed: it only shows the progress thread that the owner makes progress; it publishes no data.
  std::atomic<std::uint64_t> driven_{0};
  bool thread_asleep_ = true;  // also before the thread starts
  int came_while_arming_ = 0;
  // Counts events that a rank may wait for: complete messages received, messages sent. Parts of a message don't count.
  std::uint64_t news_ = 0;
  bool all_left_ = false;  // only the owner
  /// The first lost connection of a job.
  struct Lost {
    int rank = -1;  // -1: none
    const char* why = nullptr;
    int waits = 0;  // intervals in which the owner has waited since
    std::int64_t counted_ns = 0;
  } lost_;
  std::optional<ProgressThread> thread_;
};

}  // namespace hmc::transport::am
