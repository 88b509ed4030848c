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

using base::Deadline;

RankClient::RankClient(base::UniqueFd socket, const Secret& secret, RankFacts mine, int job_size)
    : mine_(mine),
      job_size_(job_size),
      agent_pid_(peer_of(socket.get()).pid),
      connection_(std::move(socket), secret, ControlConnection::Side::client) {}

// ---- waiting

RankClient::Outcome RankClient::wait(const char* operation, Deadline deadline, const Ready& ready) {
  // The page's abort word may be set without a message, for example by a rank that calls abort.
  constexpr int look_again_ms = 20;
  for (;;) {
    read_messages();
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
  (void)::poll(&wait, 1, timeout_ms);  // without the lock, because abort() may be called meanwhile
}

void RankClient::read_messages() {
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
    handle(*frame, std::move(fds));
    fds.clear();
  }
  if (ended) agent_lost();
}

void RankClient::throw_if_over(const char* operation) {
  if (refusal_) throw_failure(refusal_->code, operation, mine_.rank, -1, refusal_->text, "is each rank started once?");
  if (left_) throw_failure(Code::closed, operation, mine_.rank, -1, "this rank has left the job");
  if (page_.segment()) throw_if_aborted(page_, operation, mine_.rank);
  if (failure_) throw_failure(failure_->code, operation, mine_.rank, failure_->rank, failure_->text);
}

/// The agent's process ended or closed this connection. This rank may be the only one that can report it to the node.
void RankClient::agent_lost() {
  if (left_ || refusal_ || failure_) return;
  const std::string why = connection_.fault().empty() ? "" : ": " + connection_.fault();
  if (!page_.segment()) {
    failure_.emplace(Notice{Code::refused, -1, 0, "the node's agent closed the connection" + why});
    return;
  }
  if (connection_.lost_descriptors()) {
    Notice notice{Code::peer_failed, mine_.rank, 0, fmt::format("rank {}{}", mine_.rank, why)};
    page_.raise_abort(notice.code, notice.rank, notice.text);
    failure_.emplace(std::move(notice));
    return;
  }
  const auto host = std::find_if(facts_.begin(), facts_.end(), [this](const RankFacts& each) {
    return each.pid == agent_pid_ && each.node == mine_.node && each.rank != mine_.rank;
  });
  Notice notice{Code::aborted, -1, 0, "the node's agent (hmcrun) has ended" + why};
  if (host != facts_.end()) {
    notice = {Code::peer_failed, host->rank, 0,
              fmt::format("rank {}, which ran the node's agent, has ended{}", host->rank, why)};
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
    throw_failure(Code::timeout, operation, mine_.rank, -1,
                  "the deadline passed, and the node's agent or the store doesn't answer");
  }
  throw_missing(operation, mine_.rank, missing_->missing);
}

// ---- incoming messages

void RankClient::handle(const Frame& frame, std::vector<base::UniqueFd> fds) {
  switch (frame.type) {
    case MessageType::page:
      if (auto page = decode<Page>(frame)) receive_page(*page, std::move(fds));
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
      if (auto result = decode<ShareResult>(frame)) receive_share(*result, std::move(fds));
      return;
    case MessageType::reply:
      if (auto reply = decode<Reply>(frame)) reply_ = std::move(reply);
      return;
    case MessageType::missing_reply:
      if (auto missing = decode<MissingReply>(frame)) missing_ = std::move(missing);
      return;
    default: receive_end(frame);
  }
}

void RankClient::receive_end(const Frame& frame) {
  if (auto refusal = decode<Refusal>(frame)) refusal_ = std::move(refusal);
  if (auto failure = decode<Failure>(frame)) {
    if (page_.segment()) page_.raise_abort(failure->code, failure->rank, failure->text);
    if (!failure_) failure_ = std::move(failure);
  }
}

void RankClient::receive_page(const Page& page, std::vector<base::UniqueFd> fds) {
  if (fds.size() != 1) return;
  page_ = base::NodePage::adopt(base::Segment::map(std::move(fds.front()), base::NodePage::bytes_for(job_size_)),
                                page.nonce);
}

void RankClient::receive_share(const ShareResult& result, std::vector<base::UniqueFd> fds) {
  if (result.round != share_round_) return;  // result of a share that timed out
  std::size_t next = 0;
  for (const ShareResult::Item& each : result.items) {
    Received received{each, {}};
    if (each.what == ShareResult::What::descriptor && next < fds.size()) received.fd = std::move(fds[next++]);
    received_.push_back(std::move(received));
  }
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

void RankClient::abort(int exit_code, std::string_view text) noexcept {
  try {
    // Send the message, as far as the socket accepts it, before setting the page's abort word. A rank that sees the
    // abort word may exit at once. The agent must have the cause before that; otherwise the exit of that rank is
    // reported to the other nodes first.
    constexpr std::size_t longest_text = 4096;
    send(Abort({Code::aborted, mine_.rank, exit_code, std::string(text.substr(0, longest_text))}));
  } catch (...) {  // no memory for a message: the page still notifies the node
  }
  if (page_.segment()) page_.raise_abort(Code::aborted, mine_.rank, text);
  try {
    flush(Deadline::after(std::chrono::seconds(1)));
  } catch (...) {
  }
}

void RankClient::send_goodbye() noexcept try {
  if (left_.exchange(true)) return;
  send(Goodbye{mine_.rank});
  flush(Deadline::after(std::chrono::seconds(1)));
} catch (...) {  // the agent then reports the exit of this rank as a failure
}

}  // namespace hmc::bootstrap
