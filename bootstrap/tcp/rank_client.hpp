// RankClient: one rank's connection to its node's agent.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/bootstrap.hpp"
#include "bootstrap/tcp/connection.hpp"

namespace hmc::bootstrap {

/// Sends requests, and waits for each answer until the deadline, an abort, or the end of the agent.
/// One thread at a time, except abort() and send_goodbye().
class RankClient {
 public:
  RankClient(base::UniqueFd socket, const Secret& secret, RankFacts mine, int job_size);

  /// Waits for the node page and for all ranks' facts.
  void join(base::Deadline deadline);
  const std::vector<RankFacts>& facts() const noexcept { return facts_; }
  const std::vector<int>& members() const noexcept { return members_; }
  const base::NodePage& page() const noexcept { return page_; }
  int rank() const noexcept { return mine_.rank; }

  std::vector<base::Bytes> meet(RoundKind kind, base::ByteView mine, base::Deadline deadline);
  std::vector<std::shared_ptr<base::Segment>> share(const std::shared_ptr<base::Segment>& mine,
                                                    base::Deadline deadline) {
    return share({shares_++, {}, members_.size()}, mine, deadline);
  }
  std::vector<std::shared_ptr<base::Segment>> share_among(const std::vector<int>& members, std::uint64_t round,
                                                          const std::shared_ptr<base::Segment>& mine,
                                                          base::Deadline deadline);
  std::vector<base::UniqueFd> pass(const std::vector<int>& members, std::uint64_t round, const base::UniqueFd& mine,
                                   base::Deadline deadline);
  void publish(std::string_view key, base::ByteView value, base::Deadline deadline);
  base::Bytes lookup(std::string_view key, base::Deadline deadline);

  void abort(int exit_code, std::string_view text) noexcept;
  void send_goodbye() noexcept;
  bool joined() const noexcept { return !facts_.empty(); }

 private:
  enum class Outcome { ready, expired };
  struct ShareRound {
    std::uint64_t number = 0;
    std::vector<std::uint32_t> local_indexes;  // empty: the whole node
    std::size_t members = 0;
  };
  using Ready = std::function<bool()>;
  /// Throws if the job has ended or this rank was rejected.
  Outcome wait(const char* operation, base::Deadline deadline, const Ready& ready);
  void throw_if_over(const char* operation);
  void throw_if_failed(const char* operation, RoundFailed::Scope scope, std::uint64_t round);
  void read_messages();
  void handle(const Frame& frame, std::vector<base::UniqueFd> fds);
  void receive_page(const Page& page, std::vector<base::UniqueFd> fds);
  void receive_share(const ShareResult& result, std::vector<base::UniqueFd> fds);
  void receive_end(const Frame& frame);
  ShareRound round_among(const std::vector<int>& members, std::uint64_t number) const;
  void offer(const ShareRound& round, const ShareOffer& what, int fd, base::Deadline deadline);
  std::vector<std::shared_ptr<base::Segment>> share(const ShareRound& round, const std::shared_ptr<base::Segment>& mine,
                                                    base::Deadline deadline);
  void agent_lost();
  [[noreturn]] void report_missing(const char* operation, MissingQuery::What what, std::uint64_t round);
  Reply request(const char* operation, std::uint64_t id, base::Deadline deadline);
  void flush(base::Deadline deadline);
  void sleep_on_socket(int timeout_ms);
  template <typename Message> void send(const Message& message, std::vector<SharedFd> fds = {}) {
    const std::lock_guard lock(mutex_);
    connection_.send(message, std::move(fds));
  }

  struct Received {  // of one share
    ShareResult::Item item;
    base::UniqueFd fd;
  };

  RankFacts mine_;
  int job_size_;
  int agent_pid_;
  std::mutex mutex_;  // connection_: abort may be called from any thread
  ControlConnection connection_;

  base::NodePage page_;
  std::vector<RankFacts> facts_;
  std::vector<int> members_;
  std::uint64_t rounds_ = 0;  // the number of the next one
  std::uint64_t shares_ = 0;
  std::uint64_t share_round_ = 0;  // the round of `received_`
  std::uint64_t requests_ = 0;
  std::atomic<bool> left_{false};

  // received messages that no call has consumed yet
  std::optional<Result> result_;
  std::optional<RoundFailed> round_failed_;
  std::vector<Received> received_;
  std::optional<Reply> reply_;
  std::optional<MissingReply> missing_;
  std::optional<Refusal> refusal_;
  std::optional<Failure> failure_;
};

}  // namespace hmc::bootstrap
