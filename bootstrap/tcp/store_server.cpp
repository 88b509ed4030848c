#include "bootstrap/tcp/store_server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include <hmc/error.hpp>

#include "bootstrap/facts.hpp"
#include "bootstrap/tcp/completion.hpp"
#include "bootstrap/tcp/peer_loop.hpp"
#include "bootstrap/tcp/socket.hpp"
#include "bootstrap/tcp/store_keys.hpp"
#include "bootstrap/tcp/store_rounds.hpp"

namespace hmc::bootstrap {

/// Only the loop's thread may access members other than `over_`.
class StoreServer::Server final : public PeerLoop::Handler {
 public:
  Server(const Secret& secret, int job_size, const std::string& bind, Events events)
      : size_(job_size),
        events_(std::move(events)),
        facts_(static_cast<std::size_t>(job_size)),
        homes_(static_cast<std::size_t>(job_size)),
        rounds_(job_size),
        loop_(secret, *this) {
    base::UniqueFd listener = listen_tcp(bind);
    address_ = address_of(listener.get());
    loop_.add_listener(std::move(listener));
    loop_.start("hmc-store");
  }
  ~Server() override { loop_.stop(); }

  const std::string& address() const noexcept { return address_; }
  std::size_t unknown_connections() const noexcept { return loop_.unknown_connections(); }
  bool wait_for_goodbyes(base::Deadline deadline) { return over_.wait(deadline); }

  void on_frame(ControlPeer& from, const Frame& frame, std::vector<base::UniqueFd> fds) override;
  void on_end(ControlPeer& peer) override;

 private:
  // Each returns false if the message violates the protocol.
  bool handle(ControlPeer& from, const NodeHello& message);
  bool handle(ControlPeer& from, const Join& message);
  bool handle(ControlPeer& from, const Contribution& message);
  bool handle(ControlPeer& from, const Publish& message);
  bool handle(ControlPeer& from, const Lookup& message);
  bool handle(ControlPeer& from, const MissingQuery& message);
  bool handle(ControlPeer& from, const Abort& message);
  bool handle(ControlPeer& from, const Death& message);
  bool handle(ControlPeer& from, const Goodbye& message);
  template <typename Message> bool handle_as(ControlPeer& from, const Frame& frame) {
    const auto message = decode<Message>(frame);
    return message && handle(from, *message);
  }
  bool dispatch(ControlPeer& from, const Frame& frame);

  bool in_job(int rank) const noexcept { return rank >= 0 && rank < size_; }
  bool lives_at(int rank, const ControlPeer& peer) const noexcept { return in_job(rank) && home(rank) == &peer; }
  ControlPeer* home(int rank) const noexcept { return homes_[static_cast<std::size_t>(rank)]; }

  template <typename Message> void send_to_all(const Message& message) {
    const base::Bytes payload = encode(message);
    for (const auto& peer : loop_.peers()) {
      if (peer->registered) peer->connection.send_encoded(Message::type, payload);
    }
  }
  void tell_homes(const std::vector<Reply>& replies);
  void welcome_everybody();
  void fail(Notice notice);

  int size_;
  Events events_;
  std::string address_;
  std::vector<RankFacts> facts_;     // rank -1: hasn't joined
  std::vector<ControlPeer*> homes_;  // by rank: its node's agent
  int joined_ = 0;
  std::int32_t registrations_ = 0;
  StoreRounds rounds_;
  StoreKeys keys_;
  std::optional<Failure> failure_;
  Completion over_;
  PeerLoop loop_;  // last: its thread uses the other members
};

bool StoreServer::Server::dispatch(ControlPeer& from, const Frame& frame) {
  if (!from.registered) return handle_as<NodeHello>(from, frame);
  switch (frame.type) {
    case MessageType::join: return handle_as<Join>(from, frame);
    case MessageType::contribution: return handle_as<Contribution>(from, frame);
    case MessageType::publish: return handle_as<Publish>(from, frame);
    case MessageType::lookup: return handle_as<Lookup>(from, frame);
    case MessageType::missing_query: return handle_as<MissingQuery>(from, frame);
    case MessageType::abort: return handle_as<Abort>(from, frame);
    case MessageType::death: return handle_as<Death>(from, frame);
    case MessageType::goodbye: return handle_as<Goodbye>(from, frame);
    default: return false;
  }
}

void StoreServer::Server::on_frame(ControlPeer& from, const Frame& frame, std::vector<base::UniqueFd> /*fds*/) {
  if (!dispatch(from, frame)) loop_.drop(from);
}

bool StoreServer::Server::handle(ControlPeer& from, const NodeHello& message) {
  if (message.job_size != size_) {
    from.connection.send(Refusal(
        {Code::invalid_config, -1, 0,
         fmt::format("this job has {} ranks, but node {} has HMC_SIZE={}", size_, message.label, message.job_size)}));
    return false;
  }
  from.registered = true;
  from.rank = registrations_++;  // the node's provisional number
  from.pid = message.pid;
  from.connection.send(Welcome{});
  if (failure_) from.connection.send(*failure_);
  return true;
}

bool StoreServer::Server::handle(ControlPeer& from, const Join& message) {
  for (const RankFacts& each : message.ranks) {
    if (!in_job(each.rank)) return false;
    const auto index = static_cast<std::size_t>(each.rank);
    if (facts_[index].rank >= 0) {
      from.connection.send(
          Refusal({Code::invalid_config, each.rank, 0,
                   fmt::format("rank {} has joined already, as process {}", each.rank, facts_[index].pid)}));
      continue;
    }
    facts_[index] = each;
    facts_[index].node = from.rank;
    homes_[index] = &from;
    if (++joined_ == size_) welcome_everybody();
  }
  return true;
}

void StoreServer::Server::welcome_everybody() {
  number_nodes(facts_);
  send_to_all(Table{facts_});
}

bool StoreServer::Server::handle(ControlPeer& from, const Contribution& message) {
  for (const Contribution::Entry& each : message.entries) {
    if (!lives_at(each.rank, from)) return false;
  }
  const StoreRounds::Outcome outcome = rounds_.contribute(message);
  if (const auto* const result = std::get_if<Result>(&outcome)) send_to_all(*result);
  if (const auto* const failed = std::get_if<RoundFailed>(&outcome)) send_to_all(*failed);
  return true;
}

void StoreServer::Server::tell_homes(const std::vector<Reply>& replies) {
  for (const Reply& each : replies) {
    if (ControlPeer* const agent = home(each.rank)) agent->connection.send(each);
  }
}

bool StoreServer::Server::handle(ControlPeer& from, const Publish& message) {
  if (!lives_at(message.rank, from)) return false;
  tell_homes(keys_.publish(message));
  return true;
}

bool StoreServer::Server::handle(ControlPeer& from, const Lookup& message) {
  if (!lives_at(message.rank, from)) return false;
  tell_homes(keys_.lookup(message));
  return true;
}

bool StoreServer::Server::handle(ControlPeer& from, const MissingQuery& message) {
  if (!lives_at(message.rank, from)) return false;
  MissingReply reply{message.id, message.rank, {}};
  if (message.what == MissingQuery::What::join) {
    for (int rank = 0; rank < size_; ++rank) {
      if (home(rank) == nullptr) reply.missing.push_back(rank);
    }
  } else {
    reply.missing = rounds_.missing(message.round);
  }
  from.connection.send(reply);
  return true;
}

bool StoreServer::Server::handle(ControlPeer& from, const Abort& message) {
  if (!lives_at(message.rank, from)) return false;
  if (!failure_ && events_.on_abort) events_.on_abort(message.rank, message.exit_code, message.text);
  fail(message);
  return true;
}

bool StoreServer::Server::handle(ControlPeer& /*from*/, const Death& message) {
  // The rank may have exited before it joined; then its node is unknown.
  if (!in_job(message.rank)) return false;
  if (!rounds_.has_left(message.rank)) fail(message);
  return true;
}

bool StoreServer::Server::handle(ControlPeer& from, const Goodbye& message) {
  if (!lives_at(message.rank, from)) return false;
  keys_.forget(message.rank);
  for (const RoundFailed& each : rounds_.leave(message.rank)) send_to_all(each);
  if (rounds_.left() == static_cast<std::size_t>(size_)) over_.set();
  return true;
}

void StoreServer::Server::on_end(ControlPeer& peer) {
  if (!peer.registered) return;
  std::vector<int> lost;
  for (int rank = 0; rank < size_; ++rank) {
    if (home(rank) != &peer) continue;
    homes_[static_cast<std::size_t>(rank)] = nullptr;
    keys_.forget(rank);
    if (!rounds_.has_left(rank)) lost.push_back(rank);
  }
  if (lost.empty()) return;
  const std::string& fault = peer.connection.fault();
  // Without a launcher, one of these ranks ran the agent, and its exit closed the connection.
  const auto host = std::find_if(lost.begin(), lost.end(),
                                 [&](int rank) { return facts_[static_cast<std::size_t>(rank)].pid == peer.pid; });
  fail({Code::peer_failed, host == lost.end() ? lost.front() : *host, 0,
        fmt::format("the connection to the node of {} ended{}{}", list_ranks(lost), fault.empty() ? "" : ": ", fault)});
}

void StoreServer::Server::fail(Notice notice) {
  if (failure_) return;  // the first cause is kept
  failure_.emplace(std::move(notice));
  send_to_all(*failure_);
  over_.set();
}

StoreServer::StoreServer(const Secret& secret, int job_size, const std::string& bind, Events events) {
  if (job_size < 1) throw Error(Code::invalid_config, "StoreServer", fmt::format("a job of {} ranks", job_size));
  server_ = std::make_unique<Server>(secret, job_size, bind, std::move(events));
}
StoreServer::~StoreServer() = default;

std::string StoreServer::address() const { return server_->address(); }
std::size_t StoreServer::unknown_connections() const noexcept { return server_->unknown_connections(); }
bool StoreServer::wait_for_goodbyes(base::Deadline deadline) { return server_->wait_for_goodbyes(deadline); }

}  // namespace hmc::bootstrap
