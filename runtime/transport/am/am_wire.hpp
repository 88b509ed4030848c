// AmWire: a wire whose every verb is an active message, over the link that it is given.
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
#include "runtime/transport/wire.hpp"
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

/// The target's CPU carries out every verb: its progress thread, which starts with the first register_region(), or the
/// rank itself while it waits. Connects on first use. README.md states the guarantees.
///
/// One lock covers the link and all state. The owner (the rank's thread) takes it for every verb and tries it for
/// progress; the progress thread takes it while it serves.
class AmWire final : public Wire, private LinkUser {
 public:
  AmWire(const Options& options, std::unique_ptr<Link> link);
  /// Closes its connections; bounded by two seconds if peers are gone.
  ~AmWire() override;

  std::string_view name() const noexcept override { return link_->traits().name; }
  Capabilities capabilities() const noexcept override {
    return {.direct = false, .needs_target = true, .put_inline_max = inline_bytes};
  }
  base::Bytes address() override;
  void know_peers(std::vector<base::Bytes> addresses) override;
  Reach reaches(int peer) const override;
  /// Starts the progress thread: from now on a peer may need this rank's help.
  base::Bytes register_region(const Region& mine) override;
  std::vector<std::unique_ptr<transport::Channel>> connect(const Region& mine, std::span<const base::Bytes> keys,
                                                           std::span<const int> peers,
                                                           base::Deadline deadline) override;
  /// Afterwards no message accesses the region, and its key is invalid; bounded by two seconds.
  void deregister_region(const Region& mine) noexcept override;

  bool receive_into(const Region& mine, DirectReceive& receive) noexcept override;
  void end_receive_into(const Region& mine, DirectReceive& receive) noexcept override;
  int progress() noexcept override;
  base::Status test(Ticket ticket) noexcept override { return tickets_.test(ticket, lock_); }
  /// Afterwards nothing reads or writes the transfer's local memory. A put whose bytes the peer doesn't take within a
  /// second costs the connection to that peer.
  void abandon(Ticket ticket) noexcept override;
  /// Messages to one peer are carried out in the order in which they were sent, so there is nothing to do.
  base::Status fence() noexcept override { return {}; }
  base::Status flush(int peer, Ticket& ticket) noexcept override;
  void all_left() noexcept override { all_left_ = true; }

  // ---- state, for tests
  const Link& link() const noexcept { return *link_; }
  /// Messages of strangers, and requests of the job's ranks for regions that aren't registered.
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
  class Channel;

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
  base::Status ready(const Channel& to) noexcept;
  /// Takes it out of the queue, so that only what the link has is left.
  void give_up(Ticket ticket) noexcept;
  /// Waits until the link has let go of what it reads for a transfer, at the cost of the connection after `limit`.
  void reclaim(Ticket ticket, std::int64_t limit) noexcept;
  base::Status write(const Channel& to, const void* source, std::uint64_t bytes, const Message& last,
                     Ticket& ticket) noexcept;
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
