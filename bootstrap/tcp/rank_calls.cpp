// A rank's requests to its node's agent.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <hmc/error.hpp>

#include "bootstrap/facts.hpp"
#include "bootstrap/failures.hpp"
#include "bootstrap/tcp/rank_client.hpp"
#include "runtime/base/limits.hpp"

namespace hmc::bootstrap {

using base::Deadline;
using SharedSegment = std::shared_ptr<base::Segment>;

void RankClient::join(Deadline deadline) {
  constexpr const char* operation = "join";
  send(Join{job_size_, {mine_}});
  if (wait(operation, deadline, [this] { return page_.segment() != nullptr; }) == Outcome::expired) {
    throw_failure(Code::timeout, operation, mine_.rank, -1, "the node's agent doesn't answer");
  }
  if (wait(operation, deadline, [this] { return !facts_.empty(); }) == Outcome::expired) {
    report_missing(operation, MissingQuery::What::join, 0);
  }
  if (facts_.size() != static_cast<std::size_t>(job_size_)) {
    throw_failure(Code::error, operation, mine_.rank, -1, "the store's table doesn't have the size of the job");
  }
  mine_ = facts_[static_cast<std::size_t>(mine_.rank)];
  members_ = members_of(facts_, mine_.node);
  sign_page(page_, mine_);
}

void RankClient::throw_if_failed(const char* operation, RoundFailed::Scope scope, std::uint64_t round) {
  if (!round_failed_ || round_failed_->scope != scope || round_failed_->round != round) return;
  throw_failure(round_failed_->code, operation, mine_.rank, round_failed_->peer, round_failed_->text);
}

std::vector<base::Bytes> RankClient::meet(RoundKind kind, base::ByteView mine, Deadline deadline) {
  const char* const operation = name_of(kind);
  if (mine.size() > largest_round_bytes / static_cast<std::size_t>(job_size_)) {
    throw_failure(Code::invalid_argument, operation, mine_.rank, -1,
                  fmt::format("{} bytes exceed a rank's limit in a control plane allgather", mine.size()));
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

RankClient::ShareRound RankClient::round_among(const std::vector<int>& members, std::uint64_t number) const {
  ShareRound among{number, {}, members.size()};
  for (const int member : members) {
    const auto seat = std::lower_bound(members_.begin(), members_.end(), member) - members_.begin();
    among.local_indexes.push_back(static_cast<std::uint32_t>(seat));
  }
  return among;
}

std::vector<SharedSegment> RankClient::share_among(const std::vector<int>& members, std::uint64_t round,
                                                   const SharedSegment& mine, Deadline deadline) {
  return share(round_among(members, round), mine, deadline);
}

/// Offers a descriptor (-1: none), and waits for the descriptors of all participants.
void RankClient::offer(const ShareRound& round, const ShareOffer& what, int fd, Deadline deadline) {
  constexpr const char* operation = "share";
  throw_if_over(operation);
  share_round_ = round.number;
  received_.clear();
  std::vector<SharedFd> fds;
  if (fd >= 0) {
    base::UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!copy) {
      send(ShareOffer{round.number, 0, 0,
                      what.local_indexes});  // without a descriptor, so that the other ranks don't wait
      throw_failure(
          Code::error, operation, mine_.rank, mine_.rank,
          fmt::format("rank {}: no descriptor is left for shared memory: {}", mine_.rank, base::descriptor_limit()),
          "raise `ulimit -n` for that rank");
    }
    fds.push_back(std::make_shared<base::UniqueFd>(std::move(copy)));
  }
  send(what, std::move(fds));
  const auto ready = [&] {
    throw_if_failed(operation, RoundFailed::Scope::node, round.number);
    return received_.size() == round.members;
  };
  if (wait(operation, deadline, ready) == Outcome::expired) {
    report_missing(operation, MissingQuery::What::share, round.number);
  }
}

std::vector<SharedSegment> RankClient::share(const ShareRound& round, const SharedSegment& mine, Deadline deadline) {
  offer(round, {round.number, mine ? mine->bytes() : 0, mine ? mine->file_offset() : 0, round.local_indexes},
        mine ? mine->fd() : -1, deadline);
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

std::vector<base::UniqueFd> RankClient::pass(const std::vector<int>& members, std::uint64_t round,
                                             const base::UniqueFd& mine, Deadline deadline) {
  const ShareRound among = round_among(members, round);
  offer(among, {round, 0, 0, among.local_indexes}, mine.get(), deadline);
  std::vector<base::UniqueFd> all;
  for (Received& each : received_) all.push_back(std::move(each.fd));
  received_.clear();
  return all;
}

Reply RankClient::request(const char* operation, std::uint64_t id, Deadline deadline) {
  const auto answered = [&] { return reply_ && reply_->id == id; };
  if (wait(operation, deadline, answered) == Outcome::ready) return *std::exchange(reply_, std::nullopt);
  Reply none;
  none.code = Code::timeout;
  return none;
}

void RankClient::publish(std::string_view key, base::ByteView value, Deadline deadline) {
  constexpr const char* operation = "publish";
  if (key.size() > longest_key_bytes || value.size() > longest_value_bytes) {
    throw_failure(
        Code::invalid_argument, operation, mine_.rank, -1,
        fmt::format("a key may have at most {} bytes, and its value {}", longest_key_bytes, longest_value_bytes));
  }
  throw_if_over(operation);
  const std::uint64_t id = requests_++;
  send(Publish{id, mine_.rank, std::string(key), {value.begin(), value.end()}});
  const Reply reply = request(operation, id, deadline);
  if (reply.code == Code::timeout) throw_failure(reply.code, operation, mine_.rank, -1, "the store doesn't answer");
  if (reply.code != Code::success)
    throw_failure(reply.code, operation, mine_.rank, -1, std::string(base::as_text(reply.value)));
}

base::Bytes RankClient::lookup(std::string_view key, Deadline deadline) {
  constexpr const char* operation = "lookup";
  if (key.size() > longest_key_bytes)
    throw_failure(Code::invalid_argument, operation, mine_.rank, -1, "the key is too long");
  throw_if_over(operation);
  const std::uint64_t id = requests_++;
  send(Lookup{id, mine_.rank, std::string(key)});
  Reply reply = request(operation, id, deadline);
  if (reply.code == Code::timeout) {
    throw_failure(Code::not_found, operation, mine_.rank, -1,
                  fmt::format("the key '{}' wasn't published before the deadline", key));
  }
  return std::move(reply.value);
}

}  // namespace hmc::bootstrap
