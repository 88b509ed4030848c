// NodeAgent: represents one node to the store. hmcrun runs it; without hmcrun, the node's rank that joins first.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/tcp/node_shares.hpp"
#include "runtime/base/node_page.hpp"
#include "runtime/control/peer_loop.hpp"
#include "runtime/control/service_thread.hpp"

namespace hmc::bootstrap {

/// Ranks of the node connect to its abstract Unix socket, named after the job's secret and the node's label, and get
/// the node page. The agent checks the peer's uid. It holds the node's only connection to the store, merges its ranks'
/// contributions into one message, and passes descriptors between ranks.
///
/// If a rank's connection ends without a goodbye, the rank has failed: the agent raises the abort word and notifies the
/// store. Owns a thread that sleeps in poll. Only that thread may access members other than the page and `over_`.
class NodeAgent final : private control::PeerLoop::Handler {
 public:
  struct Events {  // called on the agent's thread; must not block
    /// Called when a rank's connection has ended without goodbye, except after report_death for that rank.
    std::function<void(int rank, std::string_view cause)> on_rank_lost;
    /// The ranks' parent is a grandchild of the caller (launcher/keeper.hpp), which calls report_death with the signal
    /// or status of each rank that ends. A rank's connection ends before its parent can reap the rank, so the agent
    /// waits for that call.
    bool will_report = false;
    std::function<void(int value)> on_command;
    std::function<void()> on_store_lost;
    /// A process of this node fails because of another one: see name_cause.
    std::function<void(int pid, int cause)> on_cause;
  };
  /// Null if another agent already serves this node. Throws Error if the store can't be reached or rejects this node.
  /// Doesn't wait for ranks. `store_rank`: the rank that runs the store, or -1; its failure is reported when the store
  /// ends. `check`: called while the store can't be reached; throws to end the wait. `to_store`: a connection to it.
  static std::unique_ptr<NodeAgent> start(const control::Secret& secret, const std::string& store,
                                          std::string_view node_label, int job_size, Events events,
                                          base::Deadline deadline, int store_rank = -1,
                                          const std::function<void()>& check = nullptr, base::UniqueFd to_store = {});
  ~NodeAgent() override;  ///< stops and joins the thread

  const base::NodePage& page() const noexcept { return page_; }
  /// Called by the parent process when a rank of this node has exited. Raises the abort word and notifies the store.
  /// Ignored after the rank's goodbye. `no_replacement`: why no process will be started in place of this one; empty:
  /// one may be. From any thread.
  void report_death(int rank, std::string cause, std::string no_replacement = {});
  /// Returns true when every rank of the node has sent its goodbye or the job has failed, and false at the deadline.
  bool wait_for_goodbyes(base::Deadline deadline) { return over_.wait(deadline); }
  /// Returns true when every rank of the node has sent its goodbye or has ended.
  bool wait_for_all(base::Deadline deadline) { return all_gone_.wait(deadline); }

  /// Ranks of the node that joined and whose goodbye hasn't arrived yet. From any thread; waits for the agent's thread,
  /// at most a second.
  std::vector<int> ranks_without_goodbye();
  /// True if the rank's goodbye has arrived. As ranks_without_goodbye.
  bool has_goodbye(int rank);

  /// The abstract socket's name, for ranks of this job and node.
  static std::string socket_name(const control::Secret& secret, std::string_view node_label);

 private:
  NodeAgent(const control::Secret& secret, base::UniqueFd listener, control::Connection store, int job_size,
            Events events, int store_rank);

  std::string refusal_of(int socket) override;
  void on_frame(control::Peer& from, const control::Frame& frame, std::vector<base::UniqueFd> fds) override;
  void on_end(control::Peer& peer) override;
  int on_turn() override;

  struct Local {                    // a rank of this node
    control::Peer* peer = nullptr;  // null: its connection has ended
    bool left = false;
    std::uint32_t life = 0;  // the number of its earlier processes
    pid_t pid = 0;           // if its end will be reported, see Events::will_report; else 0
  };
  struct LocalRound {  // this node's part of an allgather or barrier
    Contribution unsent;
    std::size_t arrived = 0;
    base::Deadline send_by;
  };

  // from ranks; each returns false if the message violates the protocol
  bool dispatch_rank(control::Peer& from, const control::Frame& frame, std::vector<base::UniqueFd>& fds);
  bool handle(control::Peer& from, Join message);
  bool handle(control::Peer& from, Contribution message);
  bool handle(control::Peer& from, const ShareOffer& message, std::vector<base::UniqueFd>& fds);
  bool handle(control::Peer& from, MissingQuery message);
  bool handle(control::Peer& from, Abort message);
  bool handle(control::Peer& from, const Goodbye& message);
  bool handle(control::Peer& from, const Failure& message);
  bool handle(control::Peer& from, Vote message);
  template <typename Message> bool handle_as(control::Peer& from, const control::Frame& frame) {
    auto message = decode<Message>(frame);
    return message && handle(from, *std::move(message));
  }

  /// Forwards a request; the store sends the answer.
  template <typename Message> bool ask_store(control::Peer& from, const control::Frame& frame) {
    auto message = decode<Message>(frame);
    if (!message) return false;
    message->rank = from.rank;
    send_to_store(*message);
    return true;
  }

  // from the store
  bool dispatch_store(const control::Frame& frame);
  std::vector<base::RankState> states_of(const std::vector<std::int32_t>& ranks) const;
  bool forward(int rank, MessageType type, const base::Bytes& payload);

  template <typename Message> void send_to_store(const Message& message) {
    flush_joins();  // the store must receive a rank's join before any other message about that rank
    if (store_ != nullptr) store_->connection.send(message);
  }
  std::vector<int> ranks_that(bool left);
  void flush_joins();
  void send_to_ranks(MessageType type, const base::Bytes& payload);
  void answer_causes();
  void fail_share(std::uint64_t round, int left);
  void send_round(LocalRound& round);
  void rank_lost(int rank, const std::string& cause, bool notify);
  void report_unreported();
  pid_t reported_process(const control::Peer& peer) const;
  void fail(const Notice& notice);
  void finish_if_all_left();
  bool all_left() const;
  bool all_gone() const;
  std::size_t local_index_of(int rank) const;

  int job_size_;
  int store_rank_;
  Events events_;
  base::NodePage page_;
  control::SharedFd page_fd_;
  control::PeerLoop loop_;
  control::Peer* store_ = nullptr;
  std::map<int, Local> ranks_;
  std::vector<RankFacts> joining_;  // not yet sent to the store
  std::vector<int> members_;        // empty until the table has arrived
  std::map<std::uint64_t, LocalRound> rounds_;
  std::optional<NodeShares> shares_;
  Table table_;  // for replacements
  struct Unreported {
    std::string cause;
    pid_t pid;  // as Local::pid
    base::Deadline until;
  };
  std::map<int, Unreported> unreported_;  // by rank: ended connections, see Events::will_report
  std::set<int> dead_;                    // not those that were replaced
  std::optional<Failure> failure_;
  std::vector<control::Peer*> asking_;  // have sent a Cause; answered when failure_ is known
  control::Completion over_;
  control::Completion all_gone_;
};

}  // namespace hmc::bootstrap
