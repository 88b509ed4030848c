// Engine: one rank's link and all that goes over it, shared by the wire, its channels and its progress thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/log.hpp"
#include "runtime/base/wait.hpp"
#include "runtime/transport/am/link.hpp"
#include "runtime/transport/am/peers.hpp"
#include "runtime/transport/am/progress_thread.hpp"
#include "runtime/transport/am/regions.hpp"
#include "runtime/transport/am/target.hpp"
#include "runtime/transport/am/tickets.hpp"
#include "runtime/transport/wire_context.hpp"

namespace hmc::transport::am {

struct Options {
  int rank = 0;
  int size = 1;
  /// Whom the progress thread wakes; null: nobody sleeps. Must outlive the wire.
  const base::Waiter* waiter = nullptr;
  base::Log log{};
};

Options options_of(const WireContext& context);

/// One lock over the link and what belongs to it. The owner (the rank's thread) takes it for every
/// verb and tries it for progress; the progress thread takes it while it serves.
class Engine final : private LinkUser {
 public:
  Engine(const Options& options, std::unique_ptr<Link> link);
  ~Engine();

  base::Bytes address();
  void know_peers(std::vector<base::Bytes> addresses);
  const Peer* peer(int rank) const noexcept;
  const Link& link() const noexcept { return *link_; }

  /// Starts the progress thread: from now on a peer may need this rank's help.
  Regions::Key register_region(std::byte* base, std::uint64_t bytes);
  /// Afterwards nothing reads or writes it, and its key is worth nothing; bounded by two seconds.
  void deregister_region(std::byte* base, std::uint64_t bytes) noexcept;

  bool receive_into(std::byte* base, std::uint64_t bytes, DirectReceive& receive) noexcept;
  void end_receive_into(std::byte* base, std::uint64_t bytes, DirectReceive& receive) noexcept;

  /// Where a message goes: a region of a peer, on behalf of a channel.
  struct To {
    int peer;
    Regions::Key region;
    const void* channel;
  };
  base::Status put(To to, std::uint64_t offset, const void* source, std::uint64_t bytes, Ticket& ticket) noexcept;
  base::Status put_signal(To to, std::uint64_t offset, const void* source, std::uint64_t bytes,
                          std::uint64_t signal_offset, std::uint64_t value, Ticket& ticket) noexcept;
  base::Status get(To to, std::uint64_t offset, void* destination, std::uint64_t bytes, Ticket& ticket) noexcept;
  base::Status atomic(To to, const Atomic& atomic, std::uint64_t offset, std::uint64_t* result,
                      Ticket& ticket) noexcept;
  base::Status flush(int peer, Ticket& ticket) noexcept;
  /// Afterwards nothing reads or writes the transfer's local memory. A put whose bytes the peer doesn't
  /// take within a second costs the connection to that peer.
  void abandon(Ticket ticket) noexcept;
  /// A channel comes; may throw bad_alloc.
  void begin_channel(const To& to);
  /// It goes, and all of its transfers.
  void end_channel(const To& to) noexcept;
  base::Status test(Ticket ticket) noexcept { return tickets_.test(ticket, lock_); }
  int progress() noexcept;
  /// Nobody connects any more.
  void all_left() noexcept { all_left_ = true; }

  /// What strangers sent, and what ranks of the job asked of regions that aren't there.
  Target::Refusals refusals() noexcept;
  /// Records that were ever needed at once: verbs in the queues, and messages in the link's hands.
  std::size_t records() noexcept;
  std::size_t receives() noexcept;
  /// Small puts wait for what follows.
  bool holds_back() noexcept;
  /// Sent to a rank so far.
  std::uint64_t messages_to(int rank) noexcept;
  /// Messages to a rank that the link hasn't let go of.
  std::uint32_t in_flight(int rank) noexcept;

  // ---- for the progress thread
  /// Raised whenever the owner drives.
  std::uint64_t driven() const noexcept { return driven_.load(std::memory_order_relaxed); }
  bool owner_sleeps() const noexcept;
  /// True: nothing is to be done before the next event, nor will be held meanwhile.
  bool arm() noexcept;
  void awake() noexcept;
  int serve() noexcept;

 private:
  void sent(Sending& record, base::Status status) noexcept override;
  void lost(int rank, const char* why, int error) noexcept override;
  void received(const Message& message, const std::byte* data, std::uint64_t bytes) noexcept override;
  void stranger() noexcept override;
  bool knows(const Message& message) const noexcept override;
  bool begins(const Message& message) noexcept override;
  Place place(const Message& message, std::uint64_t at) noexcept override;
  void filled(const Message& message, std::uint64_t at, std::uint64_t bytes) noexcept override;
  void arrived(const Message& message) noexcept override;
  int progress_locked() noexcept;
  void tell_of_it() const noexcept;
  void relieve() noexcept;
  /// Whether a verb may be posted; makes room for it.
  base::Status ready(To to) noexcept;
  /// Takes it out of the queue, so that only what the link has is left.
  void give_up(Ticket ticket) noexcept;
  /// Waits until the link has let go of what it reads for a transfer, at the cost of the connection after `limit`.
  void reclaim(Ticket ticket, std::int64_t limit) noexcept;
  base::Status write(To to, const void* source, std::uint64_t bytes, const Message& last, Ticket& ticket) noexcept;
  base::Status flush_dirty(int first, int last, Ticket& ticket) noexcept;
  base::Status start(Peer& peer, const Message& message, const Tickets::Transfer& transfer, Ticket& ticket) noexcept;
  Message message(Kind kind, const Regions::Key& region, std::uint64_t offset) const noexcept;

  const Options options_;
  const std::uint64_t secret_;
  std::mutex lock_;
  const std::unique_ptr<Link> link_;
  Tickets tickets_;
  Regions regions_;
  Peers peers_;
  Target target_;
  unsigned turn_ = 0;
  // Relaxed: a hint to the progress thread about who is active; no data hangs on it.
  std::atomic<std::uint64_t> driven_{0};
  bool thread_asleep_ = true;  // or not there at all
  int came_while_arming_ = 0;
  // Things that somebody may wait for: messages that came whole, messages that left. Parts of them wake nobody.
  std::uint64_t news_ = 0;
  bool all_left_ = false;
  std::optional<ProgressThread> thread_;
};

}  // namespace hmc::transport::am
