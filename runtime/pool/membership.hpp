// Membership: joins, leaves and deaths of one pool, and the connections to its members.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <hmc/pool.hpp>

#include "runtime/base/env.hpp"
#include "runtime/base/log.hpp"
#include "runtime/pool/card.hpp"
#include "runtime/pool/control.hpp"
#include "runtime/pool/member_table.hpp"
#include "runtime/pool/messages.hpp"
#include "runtime/pool/own_parts.hpp"
#include "runtime/pool/reservation.hpp"
#include "runtime/pool/task_thread.hpp"
#include "runtime/rma/endpoint.hpp"

namespace hmc::pool {

/// The wires between nodes, made at the first use.
using MakeWires = std::function<rma::Endpoint::Wires()>;

/// Owns the addresses, this process's parts and the table of members. Threads: any; join, leave and close one at a
/// time.
class Membership final : private Control::Handler {
 public:
  /// Makes the control plane of this handler.
  using MakeControl = std::function<std::unique_ptr<Control>(Control::Handler&)>;
  /// `start`: of the addresses; 0: any. `options` are checked. Throws Error.
  Membership(const PoolOptions& options, std::uint64_t start, const MakeControl& make_control, MakeWires make_wires,
             const base::Env& env);
  ~Membership() override;

  int join(base::Deadline deadline);
  void leave();
  /// Leaves, if necessary, and ends the control plane. Copies may be in progress.
  void close() noexcept;

  bool is_member() const noexcept { return is_member_.load(std::memory_order_acquire); }
  int rank() const noexcept { return rank_.load(std::memory_order_relaxed); }
  std::uint64_t version() const;
  std::vector<int> members() const;
  /// Throws Error{timeout, peer_failed}.
  void wait_version(std::uint64_t version, base::Deadline deadline) const;
  void on_change(std::function<void(const PoolChange&)> changed);

  const PoolOptions& options() const noexcept { return options_; }
  const Reservation& addresses() const noexcept { return addresses_; }
  const OwnParts& own() const noexcept { return own_; }
  /// Rank -1: the address isn't in the pool.
  PoolPlace place_of(const void* address) const noexcept;
  void* address_of(const PoolPlace& place) const noexcept;
  /// The member, in use by the result; empty: it isn't one. A joined event of the store that this process hasn't
  /// handled yet is waited for.
  MemberUse use(int rank) noexcept;
  rma::Endpoint& endpoint();
  /// The caller's memory, for the wires in use and those that are made later. Memory that can't be registered is
  /// copied without.
  void register_local(std::byte* memory, std::size_t bytes);
  void deregister_local(const std::byte* memory, std::size_t bytes) noexcept;

  /// A request to a member, and its answer. Throws Error: the receiver's, timeout, peer_failed.
  base::Bytes call(int rank, Message::Kind kind, base::ByteView request, base::Deadline deadline);
  /// The two halves of call(): each start is followed by one finish_call() or forget_call(), of any thread.
  std::uint64_t start_call(int rank, Message::Kind kind, base::ByteView request);
  base::Bytes finish_call(std::uint64_t id, base::Deadline deadline);
  /// Instead of finish_call(): the answer is dropped.
  void forget_call(std::uint64_t id) noexcept;
  void report_failed_way(int rank, PoolPart part, const Member& member) const;
  using OnCall = std::function<std::string(int from, std::string_view request)>;
  void on_call(OnCall handler);

 private:
  /// The time for the last copies of a former member.
  static constexpr std::chrono::seconds absent_within{10};
  struct Known {
    bool is_member = false;
    std::string join;  ///< Card::join_name of the member or candidate that has the rank, as far as is known
    std::optional<Member> prepared;  ///< of that join: connected, and not yet a member
    int far = -1;                    ///< of the member in the table, or of the prepared one
  };
  struct Pending {
    int rank = -1;  ///< -1: it isn't a member any more
    int to = -1;
    bool done = false;
    Message answer;
  };

  void on_joined(int rank, std::uint64_t version, base::ByteView card) override;
  void on_left(int rank, std::uint64_t version, bool died) override;
  void on_post(int from, base::ByteView bytes) override;
  void on_end() override;
  Shared on_share(Shared theirs) override;

  Card own_card() const;
  Known& known(int rank) { return known_[static_cast<std::size_t>(rank)]; }
  std::uint64_t offset_of(int rank) const noexcept { return static_cast<std::uint64_t>(rank) * options_.host_stride; }
  void apply(const Control::Entry& entry);
  void add_self(int rank);
  /// Sixteen at a time, on threads. The caller's thread ends them at the first failure, or if the program interrupts
  /// it.
  void connect_to_all(const std::vector<Control::Entry::Member>& members, base::Deadline deadline);
  void connect_to(int rank, const Card& card, base::Deadline deadline);
  /// Empty if it succeeds, or the reason. `why` collects the reasons of ways that failed.
  bool connect_near(int rank, const Card& card, base::Deadline deadline, std::string& why);
  void connect_far(int rank, const Card& card, base::Deadline deadline, const std::string& why);
  Member near_member(int rank, const Card& card, SharedParts parts);
  void connect_host(int rank, const SharedParts& parts, std::optional<PoolWay> rule, Member& member);
  Member far_member(const Card& card, int number, const std::string& why);
  bool goes_by_wire(const Card& card, std::string& why) const;
  std::vector<std::string> wires_for(const Card& card);
  /// Throws Error{peer_failed} if the rank isn't that join's any more, by the store's events until now.
  void require_current(int rank, const Card& card);
  void require_join(int rank, const Card& card);
  /// A candidate's request is for the join named `target`. Waits for this process's view of the others. Throws
  /// Error{peer_failed} if that isn't its present join.
  void require_target(std::unique_lock<std::mutex>& guard, const std::string& target) const;
  /// Waits until the rank's previous member isn't used any more. Throws Error{peer_failed} when this process leaves or
  /// the store ends.
  void await_absent(int rank, base::Deadline deadline);
  /// Throws Error{peer_failed} if the rank isn't that join's any more.
  void prepare(int rank, const Card& card, Member member);
  void discard(int rank, Member& member) noexcept;
  void remove(int rank) noexcept;
  void tell(const PoolChange& change);

  /// In the order of the store's events: the sender has the rank now.
  void note_candidate(int from, const Message& message) noexcept;
  void answer_offer(int from, const Message& message);
  void answer_call(int from, const Message& message);
  base::Bytes run_staged(int from, base::ByteView bytes);

  const PoolOptions options_;
  const Rules rules_;
  const std::string node_;
  const std::string forced_;  // HMC_TRANSPORT
  const base::Log log_;
  OwnParts own_;
  Reservation addresses_;
  MakeWires make_wires_;
  std::mutex endpoint_lock_;
  std::unique_ptr<rma::Endpoint> endpoint_;                 // under endpoint_lock_ until it is made
  std::vector<std::pair<std::byte*, std::size_t>> locals_;  // of register_local, under endpoint_lock_

  mutable std::mutex lock_;
  mutable std::condition_variable changed_;
  std::vector<Known> known_;
  bool has_view_ = false;                     // between join's first answer and leave
  std::vector<std::function<void()>> early_;  // events before the view, run under lock_
  std::set<int> departed_;                    // since the view
  std::string join_;                          // Card::join_name of this process's present join; empty: it has left
  std::uint64_t joins_ = 0;                   // of the thread of join
  // Held while a member is connected: the threads of join, of the local sockets and of the offers may connect
  // successive holders of one rank. Before lock_.
  std::mutex connecting_;
  std::atomic<bool> stop_join_{false};  // relaxed: ends the waits of a join, and orders nothing
  std::uint64_t version_ = 0;
  bool ended_ = false;
  std::map<std::uint64_t, Pending> pending_;
  std::uint64_t last_id_ = 0;
  std::function<void(const PoolChange&)> on_change_;
  OnCall on_call_;
  std::atomic<bool> is_member_{false};  // release after the table is complete
  std::atomic<int> rank_;
  MemberTable table_;
  // Last: their threads use the other members. The control plane ends first.
  // service_: offers of candidates. copies_: copies for other members. removals_: the wire's work for former members.
  std::unique_ptr<TaskThread> service_, copies_, removals_, handlers_, tellers_;
  std::unique_ptr<Control> control_;
};

}  // namespace hmc::pool
