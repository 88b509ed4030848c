// StoreServer: the rendezvous of one job. hmcrun runs it; without hmcrun, rank 0 does.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/tcp/shared_store.hpp"
#include "bootstrap/tcp/store_state.hpp"
#include "runtime/control/peer_loop.hpp"
#include "runtime/control/service_thread.hpp"

namespace hmc::bootstrap {

/// One connection per node (its NodeAgent), and one per client of the shared store (<hmc/store.hpp>). Owns a thread
/// that sleeps in poll. Unknown connections (no valid first message within 2 s, or a wrong MAC) are dropped and
/// counted. Only its thread may access members other than `over_`.
class StoreServer final : private control::PeerLoop::Handler, private StoreSink {
 public:
  struct Events {  // called on the server's thread; must not block
    std::function<void(int rank, int exit_code, std::string text)> on_abort;
    std::function<void(std::string label)> on_node;  ///< a node's agent has registered
    /// The first rank that has failed.
    std::function<void(int rank, std::string text)> on_failure;
    /// The connection to the agent of ranks that haven't left has ended. `rank`: one of them.
    std::function<void(int rank, std::string text)> on_node_lost;
    /// No process is left that could call grow(), so no rank can be replaced any more.
    std::function<void()> on_no_member;
  };
  /// Listens on `bind` ("127.0.0.1:0", "[::1]:0", ":4242" for all interfaces; empty: only connect_here()).
  /// `no_replacement`: as StoreAgreements. Throws Error.
  StoreServer(const control::Secret& secret, int job_size, const std::string& bind, Events events,
              std::string no_replacement = {});
  ~StoreServer() override;  ///< stops and joins the thread

  /// A connection of an agent in this process, without a network.
  base::UniqueFd connect_here();
  const std::string& address() const noexcept { return address_; }  ///< host:port, for HMC_STORE
  std::size_t unknown_connections() const noexcept { return loop_.unknown_connections(); }
  /// Returns true when every rank has sent its goodbye or the job has failed: then the store is no longer needed. False
  /// at the deadline.
  bool wait_for_goodbyes(base::Deadline deadline) { return over_.wait(deadline); }
  /// Sends a Command to all nodes. From any thread.
  void send_command(int value);
  /// Returns true when every rank has sent its goodbye or has ended.
  bool wait_for_all(base::Deadline deadline) { return all_gone_.wait(deadline); }

 private:
  void on_frame(control::Peer& from, const control::Frame& frame, std::vector<base::UniqueFd> fds) override;
  void on_end(control::Peer& peer) override;
  int on_turn() override;
  void answer(StoreOwner to, const StoreAnswer& answer) override;
  void event(StoreOwner /*to*/, const StoreEvent& /*event*/) override {}  // ranks watch no keys

  // Each returns false if the message violates the protocol.
  bool handle(control::Peer& from, const NodeHello& message);
  bool handle(control::Peer& from, const Join& message);
  bool handle(control::Peer& from, const Contribution& message);
  bool handle(control::Peer& from, const RankCall& message);
  bool handle(control::Peer& from, const MissingQuery& message);
  bool handle(control::Peer& from, const Abort& message);
  bool handle(control::Peer& from, const Death& message);
  bool handle(control::Peer& from, const Goodbye& message);
  bool handle(control::Peer& from, const Failure& message);
  bool handle(control::Peer& from, const Vote& message);
  bool handle(control::Peer& from, const NoReplacement& message);
  bool handle(control::Peer& from, const StateQuery& message);
  bool handle(control::Peer& from, const StateReply& message);
  bool handle(control::Peer& from, const Report& message);
  template <typename Message> bool handle_as(control::Peer& from, const control::Frame& frame) {
    const auto message = decode<Message>(frame);
    return message && handle(from, *message);
  }
  bool dispatch(control::Peer& from, const control::Frame& frame);

  bool in_job(int rank) const noexcept { return rank >= 0 && rank < size_; }
  bool lives_at(int rank, const control::Peer& peer) const noexcept { return in_job(rank) && home(rank) == &peer; }
  control::Peer* home(int rank) const noexcept { return homes_[static_cast<std::size_t>(rank)]; }

  template <typename Message> void send_to_all(const Message& message) {
    const base::Bytes payload = encode(message);
    for (const auto& peer : loop_.peers()) {
      if (peer->registered) peer->connection.send_encoded(on_wire(Message::type), payload);
    }
  }
  void send_decisions(const std::vector<DecisionFor>& decisions);
  void rank_ended(int rank);
  void print_report();
  void finish_if_all_gone();
  void fail(Notice notice);

  int size_;
  int lost_host_s_;
  Events events_;
  std::string address_;
  std::vector<RankFacts> facts_;       // rank -1: hasn't joined
  std::vector<control::Peer*> homes_;  // by rank: its node's agent
  int joined_ = 0;
  std::int32_t registrations_ = 0;
  StoreRounds rounds_;
  SharedValues values_;  // an owner is a rank
  StoreAgreements agreements_;
  bool has_member_ = true;
  std::optional<Failure> failure_;
  struct PendingReport {
    std::uint64_t id = 0;  // of the query to the agents
    Report message;
    std::vector<base::RankState> states;
    std::size_t missing_replies = 0;
    base::Deadline until;
  };
  std::optional<PendingReport> report_;
  std::uint64_t reports_ = 0;
  base::Deadline next_report_ = base::Deadline::after({});
  control::Completion over_;
  control::Completion all_gone_;
  SharedStore shared_;
  control::PeerLoop loop_;  // last: its thread uses the other members
};

}  // namespace hmc::bootstrap
