#include "bootstrap/tcp/rank_client.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

#include <hmc/error.hpp>

#include "bootstrap/facts.hpp"
#include "bootstrap/failures.hpp"
#include "bootstrap/tcp/await.hpp"
#include "bootstrap/tcp/socket.hpp"

namespace hmc::bootstrap {

namespace {

using base::Deadline;
using SharedSegment = std::shared_ptr<base::Segment>;

[[noreturn]] void fail(Code code, const char* operation, int rank, int peer, std::string text, std::string hint = {}) {
  ErrorDetail detail;
  detail.code = code;
  detail.operation = operation;
  detail.rank = rank;
  detail.peer = peer;
  detail.message = std::move(text);
  detail.hint = std::move(hint);
  throw Error(std::move(detail));
}

}  // namespace

RankClient::RankClient(base::UniqueFd socket, const Secret& secret, RankFacts mine, int job_size)
    : mine_(mine),
      job_size_(job_size),
      agent_pid_(peer_of(socket.get()).pid),
      connection_(std::move(socket), secret, Connection::Side::client) {}

// ---- waiting

RankClient::Outcome RankClient::wait(const char* operation, Deadline deadline, const Ready& ready) {
  // The page may be raised by somebody who sends no message, such as a rank that calls abort.
  constexpr int look_again_ms = 20;
  for (;;) {
    take_what_came();
    if (ready()) return Outcome::ready;
    throw_if_over(operation);
    if (deadline.expired()) return Outcome::expired;
    sleep_on_socket(std::min(deadline.left_ms(), look_again_ms));
  }
}

void RankClient::sleep_on_socket(int timeout_ms) {
  pollfd wait{connection_.fd(), POLLIN, 0};
  {
    const std::lock_guard lock(mutex_);
    if (connection_.stalled()) timeout_ms = 1;
    if (connection_.wants_write() && !connection_.stalled()) wait.events |= POLLOUT;
  }
  (void)::poll(&wait, 1, timeout_ms);  // without the lock: abort() may come meanwhile
}

void RankClient::take_what_came() {
  std::vector<base::UniqueFd> fds;
  bool ended = false;
  for (;;) {
    std::optional<Frame> frame;
    {
      const std::lock_guard lock(mutex_);
      connection_.write();
      if (!connection_.ended()) connection_.read();
      frame = connection_.next(fds);
      ended = connection_.ended();
    }
    if (!frame) break;
    take(*frame, std::move(fds));
    fds.clear();
  }
  if (ended) lose_agent();
}

void RankClient::throw_if_over(const char* operation) {
  if (refusal_) fail(refusal_->code, operation, mine_.rank, -1, refusal_->text, "is each rank started once?");
  if (left_) fail(Code::closed, operation, mine_.rank, -1, "this rank has left the job");
  if (page_.segment()) throw_if_aborted(page_, operation, mine_.rank);
  if (failure_) fail(failure_->code, operation, mine_.rank, failure_->rank, failure_->text);
}

/// The agent's process ended or dropped us, which nobody else may be able to tell the node.
void RankClient::lose_agent() {
  if (left_ || refusal_ || failure_) return;
  const std::string why = connection_.fault().empty() ? "" : ": " + connection_.fault();
  if (!page_.segment()) {
    failure_.emplace(Notice{Code::refused, -1, 0, "the node's agent ended the conversation" + why});
    return;
  }
  const auto host = std::find_if(facts_.begin(), facts_.end(), [this](const RankFacts& each) {
    return each.pid == agent_pid_ && each.node == mine_.node && each.rank != mine_.rank;
  });
  Notice notice{Code::aborted, -1, 0, "the node's agent (hmcrun) is gone" + why};
  if (host != facts_.end()) {
    notice = {Code::peer_failed, host->rank, 0,
              fmt::format("rank {}, which ran the node's agent, is gone{}", host->rank, why)};
  }
  page_.raise_abort(notice.code, notice.rank, notice.text);
  failure_.emplace(std::move(notice));
}

void RankClient::report_missing(const char* operation, MissingQuery::What what, std::uint64_t round) {
  const std::uint64_t id = requests_++;
  missing_.reset();
  send(MissingQuery{id, mine_.rank, what, round});
  const auto answered = [&] { return missing_ && missing_->id == id; };
  if (wait(operation, Deadline::after(std::chrono::seconds(1)), answered) == Outcome::expired) {
    fail(Code::timeout, operation, mine_.rank, -1,
         "the deadline passed, and the node's agent or the store doesn't answer");
  }
  throw_missing(operation, mine_.rank, missing_->missing);
}

// ---- what comes

void RankClient::take(const Frame& frame, std::vector<base::UniqueFd> fds) {
  switch (frame.type) {
    case MessageType::page:
      if (auto page = decode<Page>(frame)) take_page(*page, std::move(fds));
      return;
    case MessageType::table:
      if (auto table = decode<Table>(frame)) facts_ = std::move(table->ranks);
      return;
    case MessageType::result:
      if (auto result = decode<Result>(frame)) result_ = std::move(result);
      return;
    case MessageType::round_failed:
      if (auto failed = decode<RoundFailed>(frame)) round_failed_ = std::move(failed);
      return;
    case MessageType::share_result:
      if (auto result = decode<ShareResult>(frame)) take_share(*result, std::move(fds));
      return;
    case MessageType::reply:
      if (auto reply = decode<Reply>(frame)) reply_ = std::move(reply);
      return;
    case MessageType::missing_reply:
      if (auto missing = decode<MissingReply>(frame)) missing_ = std::move(missing);
      return;
    default: take_ending(frame);
  }
}

void RankClient::take_ending(const Frame& frame) {
  if (auto refusal = decode<Refusal>(frame)) refusal_ = std::move(refusal);
  if (auto failure = decode<Failure>(frame)) {
    if (page_.segment()) page_.raise_abort(failure->code, failure->rank, failure->text);
    if (!failure_) failure_ = std::move(failure);
  }
}

void RankClient::take_page(const Page& page, std::vector<base::UniqueFd> fds) {
  if (fds.size() != 1) return;
  page_ = base::NodePage::adopt(base::Segment::map(std::move(fds.front())), page.nonce);
}

void RankClient::take_share(const ShareResult& result, std::vector<base::UniqueFd> fds) {
  if (result.round != shares_ - 1) return;  // of a share that timed out
  std::size_t next = 0;
  for (const ShareResult::Item& each : result.items) {
    Received received{each, {}};
    if (each.what == ShareResult::What::descriptor && next < fds.size()) received.fd = std::move(fds[next++]);
    received_.push_back(std::move(received));
  }
}

// ---- the calls

void RankClient::join(Deadline deadline) {
  constexpr const char* operation = "join";
  send(Join{job_size_, {mine_}});
  if (wait(operation, deadline, [this] { return page_.segment() != nullptr; }) == Outcome::expired) {
    fail(Code::timeout, operation, mine_.rank, -1, "the node's agent doesn't answer");
  }
  if (wait(operation, deadline, [this] { return !facts_.empty(); }) == Outcome::expired) {
    report_missing(operation, MissingQuery::What::join, 0);
  }
  if (facts_.size() != static_cast<std::size_t>(job_size_)) {
    fail(Code::error, operation, mine_.rank, -1, "the store's table has another size than the job");
  }
  mine_ = facts_[static_cast<std::size_t>(mine_.rank)];
  members_ = members_of(facts_, mine_.node);
  sign_page(page_, mine_);
}

void RankClient::throw_if_failed(const char* operation, RoundFailed::Scope scope, std::uint64_t round) {
  if (!round_failed_ || round_failed_->scope != scope || round_failed_->round != round) return;
  fail(round_failed_->code, operation, mine_.rank, round_failed_->peer, round_failed_->text);
}

std::vector<base::Bytes> RankClient::meet(RoundKind kind, base::ByteView mine, Deadline deadline) {
  const char* const operation = name_of(kind);
  if (mine.size() > largest_round_bytes / static_cast<std::size_t>(job_size_)) {
    fail(Code::invalid_argument, operation, mine_.rank, -1,
         fmt::format("{} bytes are more than a rank may give to the control plane", mine.size()));
  }
  throw_if_over(operation);
  const std::uint64_t round = rounds_++;
  send(Contribution{round, kind, {{mine_.rank, {mine.begin(), mine.end()}}}});
  const auto ready = [&] {
    throw_if_failed(operation, RoundFailed::Scope::job, round);
    return result_ && result_->round == round;
  };
  if (wait(operation, deadline, ready) == Outcome::expired) {
    report_missing(operation, MissingQuery::What::round, round);
  }
  std::vector<base::Bytes> all = std::move(result_->by_rank);
  result_.reset();
  return all;
}

std::vector<SharedSegment> RankClient::share(const SharedSegment& mine, Deadline deadline) {
  constexpr const char* operation = "share";
  throw_if_over(operation);
  const std::uint64_t round = shares_++;
  received_.clear();
  std::vector<SharedFd> fds;
  if (mine) {
    base::UniqueFd copy(::fcntl(mine->fd(), F_DUPFD_CLOEXEC, 0));
    if (!copy) fail(Code::error, operation, mine_.rank, -1, "no descriptor is left", "raise `ulimit -n`");
    fds.push_back(std::make_shared<base::UniqueFd>(std::move(copy)));
  }
  send(ShareOffer{round, mine ? mine->bytes() : 0, mine ? mine->file_offset() : 0}, std::move(fds));
  const auto ready = [&] {
    throw_if_failed(operation, RoundFailed::Scope::node, round);
    return received_.size() == members_.size();
  };
  if (wait(operation, deadline, ready) == Outcome::expired) {
    report_missing(operation, MissingQuery::What::share, round);
  }
  std::vector<SharedSegment> all;
  for (Received& each : received_) {
    switch (each.item.what) {
      case ShareResult::What::nothing: all.push_back(nullptr); break;
      case ShareResult::What::your_own: all.push_back(mine); break;
      case ShareResult::What::descriptor:
        all.push_back(base::Segment::map(std::move(each.fd), each.item.bytes, each.item.file_offset));
        break;
    }
  }
  received_.clear();
  return all;
}

Reply RankClient::ask(const char* operation, std::uint64_t id, Deadline deadline) {
  const auto answered = [&] { return reply_ && reply_->id == id; };
  if (wait(operation, deadline, answered) == Outcome::ready) return *std::exchange(reply_, std::nullopt);
  Reply none;
  none.code = Code::timeout;
  return none;
}

void RankClient::publish(std::string_view key, base::ByteView value, Deadline deadline) {
  constexpr const char* operation = "publish";
  if (key.size() > longest_key_bytes || value.size() > longest_value_bytes) {
    fail(Code::invalid_argument, operation, mine_.rank, -1,
         fmt::format("a key may have {} bytes and its value {}", longest_key_bytes, longest_value_bytes));
  }
  throw_if_over(operation);
  const std::uint64_t id = requests_++;
  send(Publish{id, mine_.rank, std::string(key), {value.begin(), value.end()}});
  const Reply reply = ask(operation, id, deadline);
  if (reply.code == Code::timeout) fail(reply.code, operation, mine_.rank, -1, "the store doesn't answer");
  if (reply.code != Code::success) fail(reply.code, operation, mine_.rank, -1, std::string(base::as_text(reply.value)));
}

base::Bytes RankClient::lookup(std::string_view key, Deadline deadline) {
  constexpr const char* operation = "lookup";
  if (key.size() > longest_key_bytes) fail(Code::invalid_argument, operation, mine_.rank, -1, "the key is too long");
  throw_if_over(operation);
  const std::uint64_t id = requests_++;
  send(Lookup{id, mine_.rank, std::string(key)});
  Reply reply = ask(operation, id, deadline);
  if (reply.code == Code::timeout) {
    fail(Code::not_found, operation, mine_.rank, -1, fmt::format("nobody published the key '{}' in time", key));
  }
  return std::move(reply.value);
}

// ---- endings

void RankClient::flush(Deadline deadline) {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      connection_.write();
      if (!connection_.wants_write() || connection_.ended()) return;
    }
    if (deadline.expired()) return;
    sleep_on_socket(std::min(deadline.left_ms(), 5));
  }
}

void RankClient::abort(int exit_code, std::string_view text) noexcept try {
  // The page first: those who spin on this node see it at once, even if the socket is stuck.
  if (page_.segment()) page_.raise_abort(Code::aborted, mine_.rank, text);
  constexpr std::size_t longest_text = 4096;
  send(Abort({Code::aborted, mine_.rank, exit_code, std::string(text.substr(0, longest_text))}));
  flush(Deadline::after(std::chrono::seconds(1)));
} catch (...) {  // no memory for a message: the page has told the node
}

void RankClient::say_goodbye() noexcept try {
  if (left_.exchange(true)) return;
  send(Goodbye{mine_.rank});
  flush(Deadline::after(std::chrono::seconds(1)));
} catch (...) {  // then this rank's end counts as a failure, which it is
}

}  // namespace hmc::bootstrap
