// The agent's handling of its ranks' messages.
#include <fmt/format.h>

#include <algorithm>

#include "bootstrap/tcp/agent.hpp"

namespace hmc::bootstrap {

namespace {

/// After this time an incomplete round is sent to the store, so that the store can name the missing ranks.
constexpr auto gather_for = std::chrono::milliseconds(20);

}  // namespace

bool NodeAgent::Agent::dispatch_rank(ControlPeer& from, const Frame& frame, std::vector<base::UniqueFd>& fds) {
  if (!from.registered) return handle_as<Join>(from, frame);
  // Before the table has arrived the members are unknown, so contributions can't be gathered.
  const bool early = members_.empty();
  switch (frame.type) {
    case MessageType::contribution: return !early && handle_as<Contribution>(from, frame);
    case MessageType::share_offer: {
      const auto message = decode<ShareOffer>(frame);
      return !early && message && handle(from, *message, fds);
    }
    case MessageType::publish: return handle_as<Publish>(from, frame);
    case MessageType::lookup: return handle_as<Lookup>(from, frame);
    case MessageType::missing_query: return handle_as<MissingQuery>(from, frame);
    case MessageType::abort: return handle_as<Abort>(from, frame);
    case MessageType::goodbye: return handle_as<Goodbye>(from, frame);
    default: return false;
  }
}

bool NodeAgent::Agent::handle(ControlPeer& from, Join message) {
  const auto refuse = [&from](std::string text) {
    from.connection.send(Refusal({Code::invalid_config, -1, 0, std::move(text)}));
    return false;
  };
  if (message.ranks.size() != 1) return false;
  const RankFacts& facts = message.ranks.front();
  if (message.job_size != job_size_) {
    return refuse(fmt::format("this job has {} ranks, but rank {} (process {}) has HMC_SIZE={}", job_size_, facts.rank,
                              facts.pid, message.job_size));
  }
  if (facts.rank < 0 || facts.rank >= job_size_) {
    return refuse(fmt::format("rank {} isn't in a job of {} ranks", facts.rank, job_size_));
  }
  if (ranks_.contains(facts.rank)) return refuse(fmt::format("rank {} has joined already, on this node", facts.rank));
  if (!members_.empty()) return refuse(fmt::format("rank {} is too late: all ranks have joined already", facts.rank));

  from.registered = true;
  from.rank = facts.rank;
  ranks_[facts.rank] = Local{&from, false};
  joining_.push_back(facts);
  from.connection.send(Page{page_.nonce()}, {page_fd_});
  if (failure_) from.connection.send(*failure_);
  return true;
}

bool NodeAgent::Agent::handle(ControlPeer& from, Contribution message) {
  if (message.entries.size() != 1 || message.entries.front().rank != from.rank) return false;
  const LocalRound fresh{{message.round, message.kind, {}}, 0, base::Deadline::after(gather_for)};
  LocalRound& round = rounds_.try_emplace(message.round, fresh).first->second;
  // A message to the store has contributions of one kind. A contribution of another kind is sent in a separate message,
  // and the store detects the mismatch.
  if (round.unsent.kind != message.kind) {
    send_round(round);
    round.unsent.kind = message.kind;
  }
  round.unsent.entries.push_back(std::move(message.entries.front()));
  ++round.arrived;
  return true;
}

bool NodeAgent::Agent::handle(ControlPeer& from, const ShareOffer& message, std::vector<base::UniqueFd>& fds) {
  if (fds.size() > 1 || !shares_->admits(local_index_of(from.rank), message)) return false;
  SharedFd fd = fds.empty() ? nullptr : std::make_shared<base::UniqueFd>(std::move(fds.front()));
  if (shares_->offer(local_index_of(from.rank), message, std::move(fd))) {
    answer_share(message.round);
    return true;
  }
  for (const std::size_t seat : shares_->missing(message.round)) {
    const int peer = members_[seat];
    if (!ranks_[peer].left) continue;
    fail_share(message.round, peer);
    break;
  }
  return true;
}

void NodeAgent::Agent::answer_share(std::uint64_t round) {
  for (const std::size_t seat : shares_->local_indexes(round)) {
    ControlPeer* const peer = ranks_[members_[seat]].peer;
    if (peer == nullptr) continue;
    for (NodeShares::Part& part : shares_->answer(round, seat))
      peer->connection.send(part.message, std::move(part.fds));
  }
  shares_->finish(round);
}

void NodeAgent::Agent::fail_share(std::uint64_t round, int left) {
  const RoundFailed failed{RoundFailed::Scope::node, round, Code::closed, left,
                           fmt::format("rank {} has left the job", left)};
  send_to_ranks(MessageType::round_failed, encode(failed));
}

bool NodeAgent::Agent::handle(ControlPeer& from, Publish message) {
  message.rank = from.rank;
  send_to_store(message);
  return true;
}

bool NodeAgent::Agent::handle(ControlPeer& from, Lookup message) {
  message.rank = from.rank;
  send_to_store(message);
  return true;
}

bool NodeAgent::Agent::handle(ControlPeer& from, MissingQuery message) {
  message.rank = from.rank;
  if (message.what == MissingQuery::What::share) {
    MissingReply reply{message.id, from.rank, {}};
    if (shares_) {
      for (const std::size_t seat : shares_->missing(message.round)) reply.missing.push_back(members_[seat]);
    }
    from.connection.send(reply);
    return true;
  }
  // The store must have the contributions of all ranks that have arrived before it names the missing ranks.
  for (auto& [number, round] : rounds_) {
    if (!round.unsent.entries.empty()) send_round(round);
  }
  send_to_store(message);
  return true;
}

bool NodeAgent::Agent::handle(ControlPeer& from, Abort message) {
  message.rank = from.rank;
  send_to_store(message);
  fail(message);
  return true;
}

bool NodeAgent::Agent::handle(ControlPeer& from, const Goodbye& /*message*/) {
  ranks_[from.rank].left = true;
  send_to_store(Goodbye{from.rank});
  if (shares_) {
    for (const std::uint64_t round : shares_->rounds_without(local_index_of(from.rank))) fail_share(round, from.rank);
  }
  finish_if_all_left();
  return true;
}

}  // namespace hmc::bootstrap
