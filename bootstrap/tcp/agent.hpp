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
  Agent(const Secret& secret, base::UniqueFd listener, ControlConnection store, int job_size, Events events,
        int store_rank);
  ~Agent() override;

  const base::NodePage& page() const noexcept { return page_; }
  void report_death(int rank, std::string cause);
  bool wait_for_goodbyes(base::Deadline deadline) { return over_.wait(deadline); }
  std::vector<int> ranks_without_goodbye();

  bool admits(int socket) override;
  void on_frame(ControlPeer& from, const Frame& frame, std::vector<base::UniqueFd> fds) override;
  void on_end(ControlPeer& peer) override;
  int on_turn() override;

 private:
  struct Local {                  // a rank of this node
    ControlPeer* peer = nullptr;  // null: its connection has ended
    bool left = false;
  };
  struct LocalRound {  // this node's part of an allgather or barrier
    Contribution unsent;
    std::size_t arrived = 0;
    base::Deadline send_by;
  };

  // from ranks; each returns false if the message violates the protocol
  bool dispatch_rank(ControlPeer& from, const Frame& frame, std::vector<base::UniqueFd>& fds);
  bool handle(ControlPeer& from, Join message);
  bool handle(ControlPeer& from, Contribution message);
  bool handle(ControlPeer& from, const ShareOffer& message, std::vector<base::UniqueFd>& fds);
  bool handle(ControlPeer& from, Publish message);
  bool handle(ControlPeer& from, Lookup message);
  bool handle(ControlPeer& from, MissingQuery message);
  bool handle(ControlPeer& from, Abort message);
  bool handle(ControlPeer& from, const Goodbye& message);
  template <typename Message> bool handle_as(ControlPeer& from, const Frame& frame) {
    auto message = decode<Message>(frame);
    return message && handle(from, *std::move(message));
  }

  // from the store
  bool dispatch_store(const Frame& frame);
  bool store_table(const Table& table);
  bool forward(int rank, MessageType type, const base::Bytes& payload);
  bool refuse_rank(const Refusal& refusal);

  template <typename Message> void send_to_store(const Message& message) {
    flush_joins();  // the store must receive a rank's join before any other message about that rank
    if (store_ != nullptr) store_->connection.send(message);
  }
  void flush_joins();
  void send_to_ranks(MessageType type, const base::Bytes& payload);
  void answer_share(std::uint64_t round);
  void fail_share(std::uint64_t round, int left);
  void send_round(LocalRound& round);
  void rank_lost(int rank, const std::string& cause, bool notify);
  void store_lost(const std::string& why);
  void fail(const Notice& notice);
  void finish_if_all_left();
  bool all_left() const;
  std::size_t local_index_of(int rank) const;

  int job_size_;
  int store_rank_;
  Events events_;
  base::NodePage page_;
  SharedFd page_fd_;
  PeerLoop loop_;
  ControlPeer* store_ = nullptr;
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
