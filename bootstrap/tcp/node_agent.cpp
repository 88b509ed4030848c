#include "bootstrap/tcp/node_agent.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include <hmc/error.hpp>

#include "bootstrap/common.hpp"
#include "bootstrap/tcp/shared_store_messages.hpp"
#include "runtime/base/env.hpp"
#include "runtime/base/interrupt.hpp"
#include "runtime/base/outage.hpp"
#include "runtime/base/process_stat.hpp"
#include "runtime/control/socket.hpp"

namespace hmc::bootstrap {

namespace {

/// After this time an incomplete round is sent to the store, so that the store can name the missing ranks.
constexpr auto gather_for = std::chrono::milliseconds(20);
/// A process that has closed its connection and goes on, or whose end isn't reported, counts as lost after this time.
constexpr auto report_for = std::chrono::milliseconds(5);

/// Connects to the store. Throws Error if the store rejects this node.
control::Connection introduce(base::UniqueFd socket, const control::Secret& secret, const std::string& store,
                              std::string_view label, int job_size, base::Deadline deadline) {
  const auto refused = [&store](const std::string& fault, Code code = Code::refused) {
    // A store that rejects the hello closes the connection without an answer.
    return Error(code, "join",
                 fmt::format("the store at {} closed the connection{}{}", store, fault.empty() ? "" : ": ", fault),
                 "do all ranks have the same HMC_SECRET and the same version of HMC?");
  };
  control::Connection link(std::move(socket), secret, control::Connection::Side::client, &payload_limit);
  base::detect_lost_host(link.fd(), base::Env::lost_host_s());
  constexpr std::size_t longest_label = 200;
  link.send(NodeHello{job_size, ::getpid(), std::string(label.substr(0, longest_label))});
  std::vector<base::UniqueFd> fds;
  for (;;) {
    if (const auto frame = link.next(fds)) {
      if (decode<Welcome>(*frame)) return link;
      if (const auto refusal = decode<Refusal>(*frame)) throw Error(refusal->code, "join", refusal->text);
      throw refused("it sent an unexpected message");
    }
    if (link.ended()) throw refused(link.fault(), link.fault_code());
    if (deadline.expired() || base::is_interrupted())
      throw Error(Code::timeout, "join", fmt::format("the store at {} doesn't answer", store));
    control::move_or_sleep(link, std::min(deadline.left_ms(), 20));
  }
}

}  // namespace

std::unique_ptr<NodeAgent> NodeAgent::start(const control::Secret& secret, const std::string& store,
                                            std::string_view node_label, int job_size, Events events,
                                            base::Deadline deadline, int store_rank, const std::function<void()>& check,
                                            base::UniqueFd to_store) {
  base::UniqueFd listener = control::listen_unix(socket_name(secret, node_label));
  if (!listener) return nullptr;
  if (!to_store) to_store = control::connect_tcp(store, deadline, check);
  control::Connection link = introduce(std::move(to_store), secret, store, node_label, job_size, deadline);
  return std::unique_ptr<NodeAgent>(
      new NodeAgent(secret, std::move(listener), std::move(link), job_size, std::move(events), store_rank));
}

std::string NodeAgent::socket_name(const control::Secret& secret, std::string_view node_label) {
  const control::Secret name = secret.derive({base::as_bytes("hmc node socket"), base::as_bytes(node_label)});
  constexpr std::size_t digits = 32;  // 128 bits: no collision with another job's name
  return "hmc-" + name.hex().substr(0, digits);
}

NodeAgent::NodeAgent(const control::Secret& secret, base::UniqueFd listener, control::Connection store, int job_size,
                     Events events, int store_rank)
    : job_size_(job_size),
      store_rank_(store_rank),
      events_(std::move(events)),
      page_(base::NodePage::create(job_size)),
      page_fd_(std::make_shared<base::UniqueFd>(::fcntl(page_.segment()->fd(), F_DUPFD_CLOEXEC, 0))),
      loop_(secret, *this, &payload_limit) {
  if (!*page_fd_) throw Error(Code::error, "dup", "no descriptor is left", "raise `ulimit -n`");
  loop_.add_listener(std::move(listener));
  store_ = &loop_.add(std::move(store));
  loop_.start("hmc-agent");
}

NodeAgent::~NodeAgent() {
  loop_.stop();
  if (store_ == nullptr || !all_gone()) return;
  // The goodbyes must arrive, so close only after the store has read them and has closed its end.
  control::Connection& store = store_->connection;
  const auto deadline = base::Deadline::after(std::chrono::milliseconds(500));
  while (store.wants_write() && !store.ended() && !deadline.expired())
    control::move_or_sleep(store, deadline.left_ms());
  store.finish();
  while (!store.ended() && !deadline.expired()) control::move_or_sleep(store, deadline.left_ms());
}

std::string NodeAgent::refusal_of(int socket) {
  return control::peer_of(socket).uid == ::geteuid() ? "" : "it belongs to another user";
}

void NodeAgent::report_death(int rank, std::string cause, std::string no_replacement) {
  loop_.post([this, rank, cause = std::move(cause), no_replacement = std::move(no_replacement)] {
    // The rank's goodbye may be unread in its socket.
    const auto found = ranks_.find(rank);
    if (found != ranks_.end() && found->second.peer != nullptr) loop_.drain(*found->second.peer);
    unreported_.erase(rank);
    rank_lost(rank, cause, false);
    if (!no_replacement.empty()) send_to_store(NoReplacement{rank, no_replacement});
  });
}

std::vector<int> NodeAgent::ranks_without_goodbye() { return ranks_that(false); }

bool NodeAgent::has_goodbye(int rank) {
  const std::vector<int> ranks = ranks_that(true);
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

/// The ranks that have joined, and have or haven't left.
std::vector<int> NodeAgent::ranks_that(bool left) {
  struct Answer {
    std::vector<int> ranks;
    control::Completion done;
  };
  const auto answer = std::make_shared<Answer>();  // the task may run after the wait has timed out
  loop_.post([this, left, answer] {
    for (auto& [rank, local] : ranks_) {
      if (local.peer != nullptr) loop_.drain(*local.peer);  // its goodbye may be unread in the socket
      if (local.left == left) answer->ranks.push_back(rank);
    }
    answer->done.set();
  });
  if (!answer->done.wait(base::Deadline::after(std::chrono::seconds(1)))) return {};
  return answer->ranks;
}

void NodeAgent::on_frame(control::Peer& from, const control::Frame& frame, std::vector<base::UniqueFd> fds) {
  const bool good = &from == store_ ? dispatch_store(frame) : dispatch_rank(from, frame, fds);
  if (!good) loop_.drop(from);
}

void NodeAgent::on_end(control::Peer& peer) {
  const std::string why = peer.connection.fault().empty() ? "" : ": " + peer.connection.fault();
  std::erase(asking_, &peer);
  if (&peer == store_) {
    store_ = nullptr;
    if (events_.on_store_lost) events_.on_store_lost();
    if (all_left()) return;
    if (store_rank_ < 0) return fail({Code::aborted, -1, 0, "the connection to the job's store (hmcrun) ended" + why});
    fail({Code::peer_failed, store_rank_, 0,
          fmt::format("rank {}, which ran the job's store, has ended{}", store_rank_, why)});
    // The store decides votes. A rank that waits for a decision ends its wait when its connection ends.
    for (const auto& [rank, each] : ranks_)
      if (each.peer != nullptr) loop_.drop(*each.peer);
    return;
  }
  if (!peer.registered) return;
  ranks_[peer.rank].peer = nullptr;
  if (peer.connection.lost_descriptors())
    return rank_lost(peer.rank, fmt::format("the node's agent closed the connection to rank {}{}", peer.rank, why),
                     true);
  std::string cause = fmt::format("rank {} ended without Runtime::close{}", peer.rank, why);
  if (!events_.will_report || failure_) return rank_lost(peer.rank, cause, true);
  unreported_.insert_or_assign(peer.rank,
                               Unreported{std::move(cause), ranks_[peer.rank].pid, base::Deadline::after(report_for)});
}

/// The pid of a rank whose end will be reported; 0 for a process that a rank's wrapper has started.
pid_t NodeAgent::reported_process(const control::Peer& peer) const {
  if (!events_.will_report) return 0;
  const pid_t pid = control::peer_of(peer.connection.fd()).pid;
  pid_t ancestor = pid;
  for (int level = 0; level < 3; ++level) {  // the keeper, its guard, the launcher
    const std::optional<base::ProcessStat> process = base::stat_of(ancestor);
    if (!process) return 0;
    ancestor = process->parent;
  }
  return ancestor == ::getpid() ? pid : 0;
}

void NodeAgent::report_unreported() {
  for (auto next = unreported_.begin(); next != unreported_.end();) {
    const auto each = next++;
    if (!each->second.until.expired()) continue;
    if (const pid_t pid = each->second.pid; pid != 0) {
      const std::optional<base::ProcessStat> process = base::stat_of(pid);
      if (!process || process->is_over) {  // the report comes
        each->second.until = base::Deadline::after(report_for);
        continue;
      }
    }
    rank_lost(each->first, each->second.cause, true);
    unreported_.erase(each);
  }
}

int NodeAgent::on_turn() {
  flush_joins();
  report_unreported();
  int wanted_ms = -1;
  for (const auto& [rank, each] : unreported_)
    wanted_ms = wanted_ms < 0 ? each.until.left_ms() : std::min(wanted_ms, each.until.left_ms());
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

void NodeAgent::flush_joins() {
  if (joining_.empty()) return;
  if (store_ != nullptr) store_->connection.send(Join{job_size_, std::move(joining_)});
  joining_.clear();
}

void NodeAgent::send_round(LocalRound& round) {
  send_to_store(round.unsent);
  round.unsent.entries.clear();
}

void NodeAgent::send_to_ranks(MessageType type, const base::Bytes& payload) {
  for (auto& [rank, local] : ranks_) {
    if (local.peer != nullptr && !local.left) local.peer->connection.send_encoded(on_wire(type), payload);
  }
}

bool NodeAgent::all_left() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const auto& each) { return each.second.left; });
}

bool NodeAgent::all_gone() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [this](const auto& each) { return each.second.left || dead_.contains(each.first); });
}

std::size_t NodeAgent::local_index_of(int rank) const {
  return static_cast<std::size_t>(std::lower_bound(members_.begin(), members_.end(), rank) - members_.begin());
}

void NodeAgent::finish_if_all_left() {
  if (failure_ || (!members_.empty() && all_left())) over_.set();
  if (!members_.empty() && all_gone()) all_gone_.set();
}

void NodeAgent::rank_lost(int rank, const std::string& cause, bool notify) {
  if (const auto found = ranks_.find(rank); found != ranks_.end() && found->second.left) return;
  if (!dead_.insert(rank).second) return;
  // The node page may already hold a failure, reported by this rank or by another rank of this node. That failure is
  // the cause, and the end of this rank may be its consequence. So the cause is sent to the other nodes.
  Notice notice{Code::peer_failed, rank, 0, cause};
  const base::Status known = page_.aborted();
  const std::string text = page_.abort_text();
  if (known.code == Code::peer_failed && known.peer >= 0 && !text.empty()) {
    notice.rank = known.peer;
    notice.text = text;
  }
  fail(notice);
  send_to_store(Death{rank, notice});
  finish_if_all_left();
  if (notify && events_.on_rank_lost) events_.on_rank_lost(rank, cause);
}

void NodeAgent::fail(const Notice& notice) {
  // Set the page first: ranks that poll in a collective see it at once.
  page_.raise_abort(notice.code, notice.rank, notice.text);
  if (failure_) return;  // the first cause is kept
  failure_.emplace(notice);
  send_to_ranks(MessageType::failure, encode(*failure_));
  answer_causes();
  finish_if_all_left();
}

void NodeAgent::answer_causes() {
  if (!failure_) return;
  for (control::Peer* const each : asking_) {
    each->connection.send_encoded(on_wire(MessageType::failure), encode(*failure_));
    loop_.drop(*each);
  }
  asking_.clear();
}

// ---- from ranks

bool NodeAgent::dispatch_rank(control::Peer& from, const control::Frame& frame, std::vector<base::UniqueFd>& fds) {
  if (const auto cause = from.registered ? std::nullopt : decode<Cause>(frame)) {
    if (events_.on_cause) events_.on_cause(control::peer_of(from.connection.fd()).pid, cause->pid);
    asking_.push_back(&from);
    answer_causes();
    return true;
  }
  if (!from.registered) return handle_as<Join>(from, frame);
  // Before the table has arrived the members are unknown, so contributions can't be gathered.
  const bool early = members_.empty();
  switch (type_of(frame)) {
    case MessageType::contribution: return !early && handle_as<Contribution>(from, frame);
    case MessageType::share_offer: {
      const auto message = decode<ShareOffer>(frame);
      return !early && message && handle(from, *message, fds);
    }
    case MessageType::rank_call: return ask_store<RankCall>(from, frame);
    case MessageType::missing_query: return handle_as<MissingQuery>(from, frame);
    case MessageType::abort: return handle_as<Abort>(from, frame);
    case MessageType::goodbye: return handle_as<Goodbye>(from, frame);
    case MessageType::vote: return handle_as<Vote>(from, frame);
    case MessageType::failure: return handle_as<Failure>(from, frame);
    case MessageType::state_query: return ask_store<StateQuery>(from, frame);
    case MessageType::report: return ask_store<Report>(from, frame);
    default: return false;
  }
}

bool NodeAgent::handle(control::Peer& from, Join message) {
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
  // A rank that has executed a program without Runtime::close is lost now, and not when the wait for a report ends.
  const auto earlier = ranks_.find(facts.rank);
  const bool is_executed = earlier != ranks_.end() && earlier->second.pid != 0 &&
                           earlier->second.pid == control::peer_of(from.connection.fd()).pid;
  if (is_executed || unreported_.contains(facts.rank)) {
    unreported_.erase(facts.rank);
    rank_lost(facts.rank, fmt::format("rank {} ended without Runtime::close", facts.rank), true);
  }
  const bool replaces = !members_.empty() && ranks_.contains(facts.rank) && dead_.contains(facts.rank);
  if (replaces) {
    dead_.erase(facts.rank);
    from.registered = true;
    from.rank = facts.rank;
    Local& local = ranks_[facts.rank];
    if (local.peer != nullptr) {  // a child of the last process still has the connection
      local.peer->registered = false;
      loop_.drop(*local.peer);
    }
    local.peer = &from;
    local.pid = reported_process(from);
    ++local.life;
    send_to_store(Join{job_size_, {facts}});
    from.connection.send(Page{page_.nonce(), local.life}, {page_fd_});
    from.connection.send(table_);
    return true;
  }
  if (ranks_.contains(facts.rank)) return refuse(fmt::format("rank {} has joined already, on this node", facts.rank));
  if (!members_.empty()) return refuse(fmt::format("rank {} is too late: all ranks have joined already", facts.rank));

  from.registered = true;
  from.rank = facts.rank;
  ranks_[facts.rank] = Local{&from, false, 0, reported_process(from)};
  joining_.push_back(facts);
  from.connection.send(Page{page_.nonce(), 0}, {page_fd_});
  if (failure_) from.connection.send(*failure_);
  return true;
}

bool NodeAgent::handle(control::Peer& from, Contribution message) {
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

bool NodeAgent::handle(control::Peer& from, const ShareOffer& message, std::vector<base::UniqueFd>& fds) {
  if (fds.size() > 1 || !shares_->admits(local_index_of(from.rank), message)) return false;
  control::SharedFd fd = fds.empty() ? nullptr : std::make_shared<base::UniqueFd>(std::move(fds.front()));
  if (shares_->offer(local_index_of(from.rank), message, std::move(fd))) {
    for (const std::size_t seat : shares_->local_indexes(message.round)) {
      control::Peer* const peer = ranks_[members_[seat]].peer;
      if (peer == nullptr) continue;
      for (NodeShares::Part& part : shares_->answer(message.round, seat))
        peer->connection.send(part.message, std::move(part.fds));
    }
    shares_->finish(message.round);
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

void NodeAgent::fail_share(std::uint64_t round, int left) {
  const RoundFailed failed{RoundFailed::Scope::node, round, Code::closed, left,
                           fmt::format("rank {} has left the job", left)};
  send_to_ranks(MessageType::round_failed, encode(failed));
}

bool NodeAgent::handle(control::Peer& from, MissingQuery message) {
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

bool NodeAgent::handle(control::Peer& from, Abort message) {
  message.rank = from.rank;
  send_to_store(message);
  fail(message);
  return true;
}

bool NodeAgent::handle(control::Peer& /*from*/, const Failure& message) {
  if (message.code != Code::peer_failed || message.rank < 0 || message.rank >= job_size_) return false;
  send_to_store(message);
  fail(message);
  return true;
}

bool NodeAgent::handle(control::Peer& from, Vote message) {
  message.voter = {from.rank, ranks_[from.rank].life};
  send_to_store(message);
  return true;
}

bool NodeAgent::handle(control::Peer& from, const Goodbye& /*message*/) {
  ranks_[from.rank].left = true;
  send_to_store(Goodbye{from.rank});
  if (shares_) {
    for (const std::uint64_t round : shares_->rounds_without(local_index_of(from.rank))) fail_share(round, from.rank);
  }
  finish_if_all_left();
  return true;
}

// ---- from the store

bool NodeAgent::dispatch_store(const control::Frame& frame) {
  switch (type_of(frame)) {
    case MessageType::table: {
      const auto table = decode<Table>(frame);
      if (!table) return false;
      for (const auto& [rank, local] : ranks_) members_.push_back(rank);
      table_ = *table;
      shares_.emplace(members_.size());
      send_to_ranks(type_of(frame), frame.payload);
      finish_if_all_left();
      return true;
    }
    case MessageType::result: {
      const auto result = decode<Result>(frame);
      if (!result) return false;
      rounds_.erase(result->round);
      send_to_ranks(type_of(frame), frame.payload);
      return true;
    }
    case MessageType::round_failed: {
      const auto failed = decode<RoundFailed>(frame);
      if (!failed) return false;
      rounds_.erase(failed->round);
      send_to_ranks(type_of(frame), frame.payload);
      return true;
    }
    case MessageType::rank_answer: {
      const auto answer = decode<RankAnswer>(frame);
      return answer && forward(answer->rank, type_of(frame), frame.payload);
    }
    case MessageType::missing_reply: {
      const auto reply = decode<MissingReply>(frame);
      return reply && forward(reply->rank, type_of(frame), frame.payload);
    }
    case MessageType::decision: {
      const auto decision = decode<DecisionFor>(frame);
      const auto local = decision ? ranks_.find(decision->recipient.rank) : ranks_.end();
      if (local == ranks_.end()) return false;
      return local->second.life != decision->recipient.life ||  // that process has ended
             forward(decision->recipient.rank, type_of(frame), frame.payload);
    }
    case MessageType::state_query: {
      const auto query = decode<StateQuery>(frame);
      if (query) send_to_store(StateReply{query->id, query->rank, states_of(query->ranks)});
      return query.has_value();
    }
    case MessageType::state_reply: {
      const auto reply = decode<StateReply>(frame);
      return reply && forward(reply->rank, type_of(frame), frame.payload);
    }
    case MessageType::command: {
      const auto command = decode<Command>(frame);
      if (command && events_.on_command) events_.on_command(command->value);
      return command.has_value();
    }
    case MessageType::lost: send_to_ranks(type_of(frame), frame.payload); return true;
    case MessageType::failure: {
      const auto failure = decode<Failure>(frame);
      if (failure) fail(*failure);
      return failure.has_value();
    }
    case MessageType::refusal: {
      const auto refusal = decode<Refusal>(frame);
      const auto found = refusal ? ranks_.find(refusal->rank) : ranks_.end();
      if (found == ranks_.end()) return false;
      if (control::Peer* const peer = found->second.peer) {
        peer->connection.send(*refusal);
        peer->registered = false;  // its end isn't a failure, because another process is the rank with this number
        loop_.drop(*peer);
      }
      ranks_.erase(found);
      return true;
    }
    default: return false;
  }
}

std::vector<base::RankState> NodeAgent::states_of(const std::vector<std::int32_t>& ranks) const {
  const std::set<std::int32_t> wanted(ranks.begin(), ranks.end());
  std::vector<base::RankState> states;
  for (int i = 0; i < page_.capacity(); ++i) {
    // Relaxed: set once, when the rank joins.
    const std::int32_t rank = page_.activity(i).world_rank.load(std::memory_order_relaxed);
    if (!wanted.contains(rank)) continue;
    states.push_back(base::read_state(page_.activity(i)));
  }
  return states;
}

bool NodeAgent::forward(int rank, MessageType type, const base::Bytes& payload) {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) return false;
  if (found->second.peer != nullptr) found->second.peer->connection.send_encoded(on_wire(type), payload);
  return true;
}

}  // namespace hmc::bootstrap
