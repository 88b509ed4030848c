#include "bootstrap/tcp/store_server.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include <hmc/error.hpp>

#include "bootstrap/common.hpp"
#include "runtime/base/env.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/outage.hpp"
#include "runtime/control/socket.hpp"

namespace hmc::bootstrap {

namespace {

constexpr std::int32_t for_store = -2;  // the asking rank of the store's own queries
/// The time that a report waits for the nodes' replies.
constexpr auto states_for = std::chrono::milliseconds(500);
/// The maximum total size of the ranks' keys and values.
constexpr std::size_t most_value_bytes = std::size_t{256} << 20;

}  // namespace

StoreServer::StoreServer(const control::Secret& secret, int job_size, const std::string& bind, Events events,
                         std::string no_replacement)
    : size_(job_size),
      lost_host_s_(base::Env::lost_host_s()),
      events_(std::move(events)),
      facts_(static_cast<std::size_t>(job_size)),
      homes_(static_cast<std::size_t>(job_size)),
      rounds_(job_size),
      values_(*this, {.value_bytes = longest_value_bytes, .bytes = most_value_bytes}),
      agreements_(job_size, std::move(no_replacement)),
      shared_(loop_),
      loop_(secret, *this, &payload_limit) {
  if (bind.empty()) {
    address_ = "127.0.0.1:0";
  } else {
    base::UniqueFd listener = control::listen_tcp(bind);
    address_ = control::address_of(listener.get());
    loop_.add_listener(std::move(listener));
  }
  loop_.start("hmc-store");
}

StoreServer::~StoreServer() { loop_.stop(); }

base::UniqueFd StoreServer::connect_here() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error(Code::error, "socketpair", std::strerror(errno));
  const auto mine = std::make_shared<base::UniqueFd>(ends[0]);
  loop_.post([this, mine] { loop_.admit(std::move(*mine)); });
  return base::UniqueFd(ends[1]);
}

bool StoreServer::dispatch(control::Peer& from, const control::Frame& frame) {
  if (!from.registered) return handle_as<NodeHello>(from, frame);
  switch (type_of(frame)) {
    case MessageType::join: return handle_as<Join>(from, frame);
    case MessageType::contribution: return handle_as<Contribution>(from, frame);
    case MessageType::rank_call: return handle_as<RankCall>(from, frame);
    case MessageType::missing_query: return handle_as<MissingQuery>(from, frame);
    case MessageType::abort: return handle_as<Abort>(from, frame);
    case MessageType::death: return handle_as<Death>(from, frame);
    case MessageType::goodbye: return handle_as<Goodbye>(from, frame);
    case MessageType::vote: return handle_as<Vote>(from, frame);
    case MessageType::no_replacement: return handle_as<NoReplacement>(from, frame);
    case MessageType::failure: return handle_as<Failure>(from, frame);
    case MessageType::state_query: return handle_as<StateQuery>(from, frame);
    case MessageType::report: return handle_as<Report>(from, frame);
    case MessageType::state_reply: return handle_as<StateReply>(from, frame);
    default: return false;
  }
}

void StoreServer::on_frame(control::Peer& from, const control::Frame& frame, std::vector<base::UniqueFd> /*fds*/) {
  if (SharedStore::serves(type_of(frame)) && !from.registered) return shared_.on_frame(from, frame);
  if (shared_.has(from) || !dispatch(from, frame)) loop_.drop(from);
}

bool StoreServer::handle(control::Peer& from, const NodeHello& message) {
  if (message.job_size != size_) {
    from.connection.send(Refusal(
        {Code::invalid_config, -1, 0,
         fmt::format("this job has {} ranks, but node {} has HMC_SIZE={}", size_, message.label, message.job_size)}));
    return false;
  }
  base::detect_lost_host(from.connection.fd(), lost_host_s_);
  from.registered = true;
  from.rank = registrations_++;  // the node's provisional number
  from.pid = message.pid;
  from.connection.send(Welcome{});
  if (events_.on_node) events_.on_node(message.label);
  if (failure_) from.connection.send(*failure_);
  return true;
}

bool StoreServer::handle(control::Peer& from, const Join& message) {
  for (const RankFacts& each : message.ranks) {
    if (!in_job(each.rank)) return false;
    const auto index = static_cast<std::size_t>(each.rank);
    if (facts_[index].rank >= 0 && agreements_.has_ended(each.rank)) {  // a replacement
      agreements_.replace(each.rank);
      facts_[index].pid = each.pid;
      homes_[index] = &from;
      continue;
    }
    if (facts_[index].rank >= 0) {
      from.connection.send(
          Refusal({Code::invalid_config, each.rank, 0,
                   fmt::format("rank {} has joined already, as process {}", each.rank, facts_[index].pid)}));
      continue;
    }
    facts_[index] = each;
    facts_[index].node = from.rank;
    homes_[index] = &from;
    if (++joined_ == size_) {
      number_nodes(facts_);
      send_to_all(Table{facts_});
    }
  }
  return true;
}

bool StoreServer::handle(control::Peer& from, const Contribution& message) {
  for (const Contribution::Entry& each : message.entries) {
    if (!lives_at(each.rank, from)) return false;
  }
  const StoreRounds::Outcome outcome = rounds_.contribute(message);
  if (const auto* const result = std::get_if<Result>(&outcome)) send_to_all(*result);
  if (const auto* const failed = std::get_if<RoundFailed>(&outcome)) send_to_all(*failed);
  return true;
}

bool StoreServer::handle(control::Peer& from, const RankCall& message) {
  if (!lives_at(message.rank, from)) return false;
  const auto owner = static_cast<StoreOwner>(message.rank);
  switch (message.call.op) {
    case StoreOp::swap:
    case StoreOp::get: return values_.handle(owner, message.call);
    case StoreOp::cancel: (void)values_.cancel(owner, static_cast<std::uint64_t>(message.call.number)); return true;
    default: return false;
  }
}

void StoreServer::answer(StoreOwner to, const StoreAnswer& answer) {
  const auto rank = static_cast<int>(to);
  if (control::Peer* const agent = home(rank)) agent->connection.send(RankAnswer{rank, answer});
}

bool StoreServer::handle(control::Peer& from, const MissingQuery& message) {
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

bool StoreServer::handle(control::Peer& from, const Abort& message) {
  if (!lives_at(message.rank, from)) return false;
  if ((!failure_ || agreements_.were_used()) && events_.on_abort)
    events_.on_abort(message.rank, message.exit_code, message.text);
  fail(message);
  return true;
}

bool StoreServer::handle(control::Peer& /*from*/, const Death& message) {
  // The rank may have exited before it joined; then its node is unknown.
  if (!in_job(message.ended) || !in_job(message.cause.rank)) return false;
  if (rounds_.has_left(message.ended)) return true;
  fail(message.cause);
  rank_ended(message.ended);
  return true;
}

bool StoreServer::handle(control::Peer& /*from*/, const Failure& message) {
  if (!in_job(message.rank)) return false;
  fail(message);
  return true;
}

bool StoreServer::handle(control::Peer& /*from*/, const NoReplacement& message) {
  if (!in_job(message.rank)) return false;
  send_decisions(agreements_.no_replacement(message.rank, message.text));
  return true;
}

bool StoreServer::handle(control::Peer& from, const Vote& message) {
  if (!lives_at(message.voter.rank, from)) return false;
  for (const RankProcess& each : message.ballot.members)
    if (!in_job(each.rank)) return false;
  send_decisions(agreements_.vote(message));
  return true;
}

bool StoreServer::handle(control::Peer& from, const StateQuery& message) {
  if (!lives_at(message.rank, from)) return false;
  std::map<control::Peer*, std::vector<std::int32_t>> by_home;
  for (const std::int32_t rank : message.ranks) {
    if (!in_job(rank)) return false;
    if (home(rank) != nullptr) by_home[home(rank)].push_back(rank);
  }
  for (auto& [agent, ranks] : by_home) agent->connection.send(StateQuery{message.id, message.rank, std::move(ranks)});
  return true;
}

bool StoreServer::handle(control::Peer& /*from*/, const StateReply& message) {
  if (message.rank == for_store) {
    if (!report_ || message.id != report_->id) return true;
    report_->states.insert(report_->states.end(), message.states.begin(), message.states.end());
    if (--report_->missing_replies == 0) print_report();
    return true;
  }
  if (!in_job(message.rank)) return false;
  if (control::Peer* const agent = home(message.rank)) agent->connection.send(message);
  return true;
}

/// Nodes report the same wait at about the same time, and again after twice that time. The store prints the first
/// report, with the ranks of all nodes that haven't joined or are in no call that waits.
bool StoreServer::handle(control::Peer& from, const Report& message) {
  if (!lives_at(message.rank, from)) return false;
  if (!next_report_.expired()) return true;
  constexpr std::uint64_t longest_ms = 1000U * 3600 * 24;
  next_report_ = base::Deadline::after(std::chrono::milliseconds(std::min(message.waited_ms, longest_ms) / 2));
  const std::uint64_t id = ++reports_;
  report_.emplace(PendingReport{id, message, {}, 0, base::Deadline::after(states_for)});
  std::map<control::Peer*, std::vector<std::int32_t>> by_home;
  for (int rank = 0; rank < size_; ++rank)
    if (home(rank) != nullptr && !agreements_.has_ended(rank) && !rounds_.has_left(rank))
      by_home[home(rank)].push_back(rank);
  report_->missing_replies = by_home.size();
  for (auto& [agent, ranks] : by_home) agent->connection.send(StateQuery{id, for_store, std::move(ranks)});
  return true;
}

void StoreServer::print_report() {
  const PendingReport report = *std::exchange(report_, std::nullopt);
  constexpr std::size_t most = 16;
  std::string text = report.message.text;
  std::vector<int> absent;
  for (int rank = 0; rank < size_ && joined_ < size_; ++rank)
    if (facts_[static_cast<std::size_t>(rank)].rank < 0) absent.push_back(rank);
  if (!absent.empty())
    text += fmt::format("; {} {} joined the job", list_ranks(absent), absent.size() == 1 ? "hasn't" : "haven't");
  std::size_t idle = 0;
  for (const base::RankState& each : report.states) {
    // `starting`: in Runtime::init, but not in one of its waits for other ranks.
    const bool is_idle = each.activity == base::Activity::computing || each.activity == base::Activity::starting;
    if (absent.empty() && is_idle && ++idle <= most) text += "; " + base::text_of(each);
  }
  if (idle > most) text += fmt::format("; and {} more", idle - most);
  const std::string cycle = base::text_of_deadlock(report.states, report.message.waited_ms);
  if (!cycle.empty())
    text += "; " + cycle;
  else if (idle == 0 && absent.empty())
    text += "; all ranks are in HMC's calls";
  base::Log(base::LogLevel::warn, report.message.rank).warn("{}", text);
}

void StoreServer::send_decisions(const std::vector<DecisionFor>& decisions) {
  if (has_member_ && agreements_.has_no_member()) {
    has_member_ = false;
    if (events_.on_no_member) events_.on_no_member();
  }
  for (const DecisionFor& each : decisions)
    if (control::Peer* const agent = home(each.recipient.rank)) agent->connection.send(each);
}

void StoreServer::rank_ended(int rank) {
  if (agreements_.has_ended(rank)) return;
  values_.forget(static_cast<StoreOwner>(rank));  // a later process of this rank must not get the answer
  send_to_all(Lost{agreements_.process(rank)});
  send_decisions(agreements_.end(rank));
  finish_if_all_gone();
}

void StoreServer::finish_if_all_gone() {
  for (int rank = 0; rank < size_; ++rank)
    if (!rounds_.has_left(rank) && !agreements_.has_ended(rank)) return;
  all_gone_.set();
}

void StoreServer::send_command(int value) {
  loop_.post([this, value] { send_to_all(Command{value}); });
}

int StoreServer::on_turn() {
  send_decisions(agreements_.expire());
  if (report_ && report_->until.expired()) print_report();
  int left_ms = -1;  // until the earliest of them
  for (const int each : {agreements_.left_ms(), shared_.on_turn(), report_ ? report_->until.left_ms() : -1})
    if (each >= 0 && (left_ms < 0 || each < left_ms)) left_ms = each;
  return left_ms;
}

bool StoreServer::handle(control::Peer& from, const Goodbye& message) {
  if (!lives_at(message.rank, from)) return false;
  values_.forget(static_cast<StoreOwner>(message.rank));
  for (const RoundFailed& each : rounds_.leave(message.rank)) send_to_all(each);
  send_decisions(agreements_.leave(message.rank));
  if (rounds_.left() == static_cast<std::size_t>(size_)) over_.set();
  finish_if_all_gone();
  return true;
}

void StoreServer::on_end(control::Peer& peer) {
  if (!peer.registered) return shared_.on_end(peer);
  std::vector<int> lost;
  for (int rank = 0; rank < size_; ++rank) {
    if (home(rank) != &peer) continue;
    homes_[static_cast<std::size_t>(rank)] = nullptr;
    values_.forget(static_cast<StoreOwner>(rank));
    if (!rounds_.has_left(rank)) lost.push_back(rank);
  }
  if (lost.empty()) return;
  const std::string& fault = peer.connection.fault();
  // Without a launcher, one of these ranks ran the agent, and its exit closed the connection.
  const auto host = std::find_if(lost.begin(), lost.end(),
                                 [&](int rank) { return facts_[static_cast<std::size_t>(rank)].pid == peer.pid; });
  std::string text =
      fmt::format("the connection to the node of {} ended{}{}", list_ranks(lost), fault.empty() ? "" : ": ", fault);
  if (events_.on_node_lost) events_.on_node_lost(lost.front(), text);
  fail({Code::peer_failed, host == lost.end() ? lost.front() : *host, 0, std::move(text)});
  for (const int rank : lost) {
    rank_ended(rank);
    // Only a launcher has this event, and it starts no agent again.
    if (events_.on_node_lost) send_decisions(agreements_.no_replacement(rank, "its host is lost"));
  }
}

void StoreServer::fail(Notice notice) {
  if (failure_) return;  // the first cause is kept
  if (notice.code == Code::peer_failed && events_.on_failure) events_.on_failure(notice.rank, notice.text);
  failure_.emplace(std::move(notice));
  send_to_all(*failure_);
  over_.set();
}

}  // namespace hmc::bootstrap
