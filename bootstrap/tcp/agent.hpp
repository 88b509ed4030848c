// The implementation of a NodeAgent: its handling of each message.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bootstrap/tcp/completion.hpp"
#include "bootstrap/tcp/node_agent.hpp"
#include "bootstrap/tcp/node_shares.hpp"
#include "bootstrap/tcp/peer_loop.hpp"

namespace hmc::bootstrap {

/// Only the loop's thread may access members other than the page and `over_`.
class NodeAgent::Agent final : public PeerLoop::Handler {
 public:
  Agent(const Secret& secret, base::UniqueFd listener, Connection store, int job_size, Events events, int store_rank);
  ~Agent() override;

  const base::NodePage& page() const noexcept { return page_; }
  void report_death(int rank, std::string cause);
  bool wait_for_goodbyes(base::Deadline deadline) { return over_.wait(deadline); }
  std::vector<int> ranks_without_goodbye();

  bool admits(int socket) override;
  void on_frame(Peer& from, const Frame& frame, std::vector<base::UniqueFd> fds) override;
  void on_end(Peer& peer) override;
  int on_turn() override;

 private:
  struct Local {           // a rank of this node
    Peer* peer = nullptr;  // null: its connection has ended
    bool left = false;
  };
  struct LocalRound {  // this node's part of an allgather or barrier
    Contribution unsent;
    std::size_t arrived = 0;
    base::Deadline send_by;
  };

  // from ranks; each returns false if the message violates the protocol
  bool dispatch_rank(Peer& from, const Frame& frame, std::vector<base::UniqueFd>& fds);
  bool take(Peer& from, Join message);
  bool take(Peer& from, Contribution message);
  bool take(Peer& from, const ShareOffer& message, std::vector<base::UniqueFd>& fds);
  bool take(Peer& from, Publish message);
  bool take(Peer& from, Lookup message);
  bool take(Peer& from, MissingQuery message);
  bool take(Peer& from, Abort message);
  bool take(Peer& from, const Goodbye& message);
  template <typename Message> bool take_as(Peer& from, const Frame& frame) {
    auto message = decode<Message>(frame);
    return message && take(from, *std::move(message));
  }

  // from the store
  bool dispatch_store(const Frame& frame);
  bool know(const Table& table);
  bool pass_on(int rank, MessageType type, const base::Bytes& payload);
  bool refuse_rank(const Refusal& refusal);

  template <typename Message> void tell_store(const Message& message) {
    flush_joins();  // the store must receive a rank's join before any other message about that rank
    if (store_ != nullptr) store_->connection.send(message);
  }
  void flush_joins();
  void tell_ranks(MessageType type, const base::Bytes& payload);
  void answer_share(std::uint64_t round);
  void fail_share(std::uint64_t round, int left);
  void send_round(LocalRound& round);
  void lose(int rank, const std::string& cause, bool tell_events);
  void lose_store(const std::string& why);
  void fail(const Notice& notice);
  void look_whether_over();
  bool all_left() const;
  std::size_t seat_of(int rank) const;

  int job_size_;
  int store_rank_;
  Events events_;
  base::NodePage page_;
  SharedFd page_fd_;
  PeerLoop loop_;
  Peer* store_ = nullptr;
  std::map<int, Local> ranks_;
  std::vector<RankFacts> joining_;  // not yet sent to the store
  std::vector<int> members_;        // empty until the table has arrived
  std::map<std::uint64_t, LocalRound> rounds_;
  std::optional<NodeShares> shares_;
  std::set<int> dead_;
  std::optional<Failure> failure_;
  Completion over_;
};

}  // namespace hmc::bootstrap
