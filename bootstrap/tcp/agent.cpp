#include "bootstrap/tcp/agent.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include <hmc/error.hpp>

#include "bootstrap/facts.hpp"
#include "bootstrap/tcp/await.hpp"
#include "bootstrap/tcp/socket.hpp"

namespace hmc::bootstrap {

namespace {

SharedFd duplicate(int fd) {
  base::UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy) throw Error(Code::error, "dup", "no descriptor is left", "raise `ulimit -n`");
  return std::make_shared<base::UniqueFd>(std::move(copy));
}

}  // namespace

NodeAgent::Agent::Agent(const Secret& secret, base::UniqueFd listener, ControlConnection store, int job_size,
                        Events events, int store_rank)
    : job_size_(job_size),
      store_rank_(store_rank),
      events_(std::move(events)),
      page_(base::NodePage::create(job_size)),
      page_fd_(duplicate(page_.segment()->fd())),
      loop_(secret, *this) {
  loop_.add_listener(std::move(listener));
  store_ = &loop_.add(std::move(store));
  loop_.start("hmc-agent");
}

NodeAgent::Agent::~Agent() {
  loop_.stop();
  if (store_ == nullptr || !all_left()) return;
  // The goodbyes must arrive, so close only after the store has read them and has closed its end.
  ControlConnection& store = store_->connection;
  const auto deadline = base::Deadline::after(std::chrono::milliseconds(500));
  while (store.wants_write() && !store.ended() && !deadline.expired()) move_or_sleep(store, deadline.left_ms());
  store.finish();
  while (!store.ended() && !deadline.expired()) move_or_sleep(store, deadline.left_ms());
}

bool NodeAgent::Agent::admits(int socket) { return peer_of(socket).uid == ::geteuid(); }

void NodeAgent::Agent::report_death(int rank, std::string cause) {
  loop_.post([this, rank, cause = std::move(cause)] {
    // The rank's goodbye may be unread in its socket.
    const auto found = ranks_.find(rank);
    if (found != ranks_.end() && found->second.peer != nullptr) loop_.drain(*found->second.peer);
    rank_lost(rank, cause, false);
  });
}

std::vector<int> NodeAgent::Agent::ranks_without_goodbye() {
  struct Answer {
    std::vector<int> ranks;
    Completion done;
  };
  const auto answer = std::make_shared<Answer>();  // the task may run after the wait has timed out
  loop_.post([this, answer] {
    for (auto& [rank, local] : ranks_) {
      if (local.peer != nullptr) loop_.drain(*local.peer);  // its goodbye may be unread in the socket
      if (!local.left) answer->ranks.push_back(rank);
    }
    answer->done.set();
  });
  if (!answer->done.wait(base::Deadline::after(std::chrono::seconds(1)))) return {};
  return answer->ranks;
}

void NodeAgent::Agent::on_frame(ControlPeer& from, const Frame& frame, std::vector<base::UniqueFd> fds) {
  const bool good = &from == store_ ? dispatch_store(frame) : dispatch_rank(from, frame, fds);
  if (!good) loop_.drop(from);
}

void NodeAgent::Agent::on_end(ControlPeer& peer) {
  const std::string why = peer.connection.fault().empty() ? "" : ": " + peer.connection.fault();
  if (&peer == store_) {
    store_ = nullptr;
    if (!all_left()) store_lost(why);
    return;
  }
  if (!peer.registered) return;
  ranks_[peer.rank].peer = nullptr;
  rank_lost(peer.rank,
            peer.connection.lost_descriptors()
                ? fmt::format("the node's agent closed the connection to rank {}{}", peer.rank, why)
                : fmt::format("rank {} ended without Runtime::close{}", peer.rank, why),
            true);
}

int NodeAgent::Agent::on_turn() {
  flush_joins();
  int wanted_ms = -1;
  for (auto& [number, round] : rounds_) {
    if (round.unsent.entries.empty()) continue;
    if (round.arrived == members_.size() || round.send_by.expired()) {
      send_round(round);
    } else {
      const int left_ms = round.send_by.left_ms();
      wanted_ms = wanted_ms < 0 ? left_ms : std::min(wanted_ms, left_ms);
    }
  }
  return wanted_ms;
}

void NodeAgent::Agent::flush_joins() {
  if (joining_.empty()) return;
  if (store_ != nullptr) store_->connection.send(Join{job_size_, std::move(joining_)});
  joining_.clear();
}

void NodeAgent::Agent::send_round(LocalRound& round) {
  send_to_store(round.unsent);
  round.unsent.entries.clear();
}

void NodeAgent::Agent::send_to_ranks(MessageType type, const base::Bytes& payload) {
  for (auto& [rank, local] : ranks_) {
    if (local.peer != nullptr && !local.left) local.peer->connection.send_encoded(type, payload);
  }
}

bool NodeAgent::Agent::all_left() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const auto& each) { return each.second.left; });
}

std::size_t NodeAgent::Agent::local_index_of(int rank) const {
  return static_cast<std::size_t>(std::lower_bound(members_.begin(), members_.end(), rank) - members_.begin());
}

void NodeAgent::Agent::finish_if_all_left() {
  if (failure_ || (!members_.empty() && all_left())) over_.set();
}

void NodeAgent::Agent::rank_lost(int rank, const std::string& cause, bool notify) {
  if (const auto found = ranks_.find(rank); found != ranks_.end() && found->second.left) return;
  if (!dead_.insert(rank).second) return;
  // The node page may already hold a failure, reported by this rank or by another rank of this node. That failure is
  // the cause, and the end of this rank may be its consequence. So the cause is sent to the other nodes.
  Notice notice{Code::peer_failed, rank, 0, cause};
  const base::Status known = page_.aborted();
  const std::string told = page_.abort_text();
  if (known.code == Code::peer_failed && known.peer >= 0 && !told.empty()) {
    notice.rank = known.peer;
    notice.text = told;
  }
  fail(notice);
  send_to_store(Death(notice));
  if (notify && events_.on_rank_lost) events_.on_rank_lost(rank, cause);
}

void NodeAgent::Agent::store_lost(const std::string& why) {
  if (store_rank_ < 0) return fail({Code::aborted, -1, 0, "the connection to the job's store (hmcrun) ended" + why});
  fail({Code::peer_failed, store_rank_, 0,
        fmt::format("rank {}, which ran the job's store, has ended{}", store_rank_, why)});
}

void NodeAgent::Agent::fail(const Notice& notice) {
  // Set the page first: ranks that poll in a collective see it at once.
  page_.raise_abort(notice.code, notice.rank, notice.text);
  if (failure_) return;  // the first cause is kept
  failure_.emplace(notice);
  send_to_ranks(MessageType::failure, encode(*failure_));
  finish_if_all_left();
}

// ---- from the store

bool NodeAgent::Agent::dispatch_store(const Frame& frame) {
  switch (frame.type) {
    case MessageType::table: {
      const auto table = decode<Table>(frame);
      return table && store_table(*table);
    }
    case MessageType::result: {
      const auto result = decode<Result>(frame);
      if (!result) return false;
      rounds_.erase(result->round);
      send_to_ranks(frame.type, frame.payload);
      return true;
    }
    case MessageType::round_failed: {
      const auto failed = decode<RoundFailed>(frame);
      if (!failed) return false;
      rounds_.erase(failed->round);
      send_to_ranks(frame.type, frame.payload);
      return true;
    }
    case MessageType::reply: {
      const auto reply = decode<Reply>(frame);
      return reply && forward(reply->rank, frame.type, frame.payload);
    }
    case MessageType::missing_reply: {
      const auto reply = decode<MissingReply>(frame);
      return reply && forward(reply->rank, frame.type, frame.payload);
    }
    case MessageType::failure: {
      const auto failure = decode<Failure>(frame);
      if (failure) fail(*failure);
      return failure.has_value();
    }
    case MessageType::refusal: {
      const auto refusal = decode<Refusal>(frame);
      return refusal && refuse_rank(*refusal);
    }
    default: return false;
  }
}

bool NodeAgent::Agent::store_table(const Table& table) {
  for (const auto& [rank, local] : ranks_) members_.push_back(rank);
  shares_.emplace(members_.size());
  send_to_ranks(MessageType::table, encode(table));
  finish_if_all_left();
  return true;
}

bool NodeAgent::Agent::forward(int rank, MessageType type, const base::Bytes& payload) {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) return false;
  if (found->second.peer != nullptr) found->second.peer->connection.send_encoded(type, payload);
  return true;
}

bool NodeAgent::Agent::refuse_rank(const Refusal& refusal) {
  const auto found = ranks_.find(refusal.rank);
  if (found == ranks_.end()) return false;
  if (ControlPeer* const peer = found->second.peer) {
    peer->connection.send(refusal);
    peer->registered = false;  // its end isn't a failure, because another process is the rank with this number
    loop_.drop(*peer);
  }
  ranks_.erase(found);
  return true;
}

}  // namespace hmc::bootstrap
