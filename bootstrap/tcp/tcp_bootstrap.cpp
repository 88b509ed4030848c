#include "bootstrap/tcp/tcp_bootstrap.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include <hmc/error.hpp>
#include <hmc/store.hpp>

#include "bootstrap/common.hpp"
#include "bootstrap/membership.hpp"
#include "bootstrap/tcp/hosted_services.hpp"
#include "bootstrap/tcp/shared_store_messages.hpp"
#include "runtime/base/interrupt.hpp"
#include "runtime/base/limits.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/poller.hpp"
#include "runtime/control/connection.hpp"
#include "runtime/control/socket.hpp"

namespace hmc::bootstrap {

namespace {

using base::Deadline;
using SharedSegment = std::shared_ptr<base::Segment>;

/// One rank's connection to its node's agent, and the services that this process runs for other ranks. Sends requests,
/// and waits for each answer until the deadline, an abort, or the end of the agent. One thread at a time, except abort.
class TcpBootstrap final : public Bootstrap, private base::NodeLink, private Membership {
 public:
  TcpBootstrap(const base::Env& env, std::unique_ptr<HostedServices> services, Deadline deadline,
               std::function<void()> check);
  ~TcpBootstrap() override;

  int rank() const noexcept override { return mine_.rank; }
  int size() const noexcept override { return job_size_; }
  std::string launcher() const override { return launcher_.empty() ? "by hand (HMC_RANK)" : launcher_; }
  const std::vector<RankFacts>& facts() const noexcept override { return facts_; }
  std::array<std::byte, 32> wire_key() const override { return control::key_of_wires(services_->secret()); }
  base::NodeLink& node_link() noexcept override { return *this; }
  const base::NodePage& node_page() const noexcept override { return page_; }

  std::vector<base::Bytes> allgather(base::ByteView mine, Deadline deadline) override {
    return run_round(RoundKind::allgather, mine, deadline);
  }
  void barrier(Deadline deadline) override { (void)run_round(RoundKind::barrier, {}, deadline); }
  std::vector<base::RankState> states(const std::vector<int>& ranks) override;

  const std::vector<int>& members() const noexcept override { return members_; }
  std::vector<SharedSegment> share(const SharedSegment& mine, Deadline deadline) override {
    return share({shares_++, {}, members_.size()}, mine, deadline);
  }
  std::vector<SharedSegment> share_among(const base::ShareGroup& group, const SharedSegment& mine,
                                         Deadline deadline) override {
    return share(round_among(group), mine, deadline);
  }
  std::vector<base::UniqueFd> pass(const base::ShareGroup& group, const base::UniqueFd& mine,
                                   Deadline deadline) override;

  void publish(std::string_view key, base::ByteView value) override;
  base::Bytes lookup(std::string_view key, Deadline deadline) override;

  void abort(int exit_code, std::string_view text) noexcept override;
  void leave() noexcept override;

  void fail_job(int peer, std::string_view text) noexcept override;
  bool report(std::string_view text, std::chrono::nanoseconds waited) noexcept override;
  Membership* membership() noexcept override { return this; }
  bool is_replacement() const noexcept override { return replaces_; }
  Decision agree(const Ballot& ballot, std::chrono::nanoseconds timeout) override;
  void require_alive(const std::vector<RankProcess>& processes) override;
  base::Bytes lookup_for(const std::vector<RankProcess>& processes, std::string_view key, Deadline deadline) override;

 private:
  struct ShareRound {
    std::uint64_t number = 0;
    std::vector<std::uint32_t> local_indexes;  // empty: the whole node
    std::size_t members = 0;
  };
  struct Received {  // of one share
    ShareResult::Item item;
    base::UniqueFd fd;
  };

  void join(Deadline deadline);
  std::vector<base::Bytes> run_round(RoundKind kind, base::ByteView mine, Deadline deadline);
  ShareRound round_among(const base::ShareGroup& group) const;
  std::vector<SharedSegment> share(const ShareRound& round, const SharedSegment& mine, Deadline deadline);
  std::vector<Received> exchange(const ShareRound& round, ShareOffer offer, int fd, Deadline deadline);

  /// False at the deadline. Throws if the job has ended or this rank was rejected.
  bool wait(const char* operation, Deadline deadline, const std::function<bool()>& ready);
  /// The store's answer; none at the deadline. Throws the store's failure, and peer_failed if one of `processes` has
  /// ended.
  std::optional<StoreAnswer> ask(const char* operation, StoreCall call, Deadline deadline,
                                 const std::vector<RankProcess>& processes);
  void sleep_on_socket(int timeout_ms);
  void read_messages();
  void handle(const control::Frame& frame, std::vector<base::UniqueFd> fds);
  void agent_lost();
  void throw_if_over(const char* operation) { throw_if_over(operation, page_status()); }
  void throw_if_over(const char* operation, const base::Status& page);
  /// ok without a page.
  base::Status page_status() const noexcept;
  void throw_if_lost(const std::vector<RankProcess>& processes, const char* operation) const;
  void throw_if_failed(const char* operation, RoundFailed::Scope scope, std::uint64_t round);
  [[noreturn]] void report_missing(const char* operation, MissingQuery::What what, std::uint64_t round);
  [[noreturn]] void fail(Code code, const char* operation, std::string text) const {
    throw_failure(code, operation, mine_.rank, -1, std::move(text));
  }

  template <typename Message> void send(const Message& message, std::vector<control::SharedFd> fds = {}) {
    const std::lock_guard lock(mutex_);
    connection_.send(message, std::move(fds));
  }
  void flush(Deadline deadline);

  std::string launcher_;  // empty: by hand
  std::chrono::nanoseconds timeout_;
  std::chrono::nanoseconds report_;
  const base::Log log_;
  const std::unique_ptr<HostedServices> services_;
  RankFacts mine_;
  int job_size_;
  int agent_pid_ = 0;
  std::mutex mutex_;  // connection_: abort may be called from any thread
  control::Connection connection_;

  base::NodePage page_;
  std::vector<RankFacts> facts_;
  std::vector<int> members_;
  std::uint64_t rounds_ = 0;  // the number of the next one
  std::uint64_t shares_ = 0;
  std::uint64_t share_round_ = 0;  // the round of `received_`
  std::uint64_t requests_ = 0;
  std::atomic<bool> left_{false};
  std::function<void()> check_;  // throws if the join can't complete; null after the join
  bool replaces_ = false;
  bool recovering_ = false;  // the failure of the job no longer ends this object's calls
  bool agent_lost_ = false;
  std::vector<RankProcess> lost_;

  // received messages that no call has consumed yet
  std::optional<Result> result_;
  std::optional<RoundFailed> round_failed_;
  std::vector<Received> received_;
  std::uint64_t asked_ = 0;  // the id of the last call of the store
  std::optional<StoreAnswer> answer_;
  std::optional<MissingReply> missing_;
  std::optional<Refusal> refusal_;
  std::optional<Failure> failure_;
  std::optional<Decision> decision_;
  std::uint64_t states_id_ = 0;  // of the last query
  std::vector<base::RankState> states_;
};

// ---- joining and leaving

TcpBootstrap::TcpBootstrap(const base::Env& env, std::unique_ptr<HostedServices> services, Deadline deadline,
                           std::function<void()> check)
    : launcher_(env.launcher),
      timeout_(env.timeout),
      report_(env.report),
      log_(env.log, env.rank.value_or(-1)),
      services_(std::move(services)),
      mine_(own_facts(*env.rank)),
      job_size_(*env.size),
      connection_(services_->reach_agent(env, deadline, check), services_->secret(), control::Connection::Side::client,
                  &payload_limit),
      check_(std::move(check)) {
  agent_pid_ = control::peer_of(connection_.fd()).pid;
  join(deadline);
  check_ = nullptr;
  services_->watch_agent(agent_pid_, facts_, members_, page_);
}

void TcpBootstrap::join(Deadline deadline) {
  constexpr const char* operation = "join";
  send(Join{job_size_, {mine_}});
  if (!wait(operation, deadline, [this] { return page_.segment() != nullptr; })) {
    fail(Code::timeout, operation, "the node's agent doesn't answer");
  }
  if (!wait(operation, deadline, [this] { return !facts_.empty(); })) try {
      report_missing(operation, MissingQuery::What::join, 0);
    } catch (const Error& error) {
      // The others on this node report the same, and not the end of this rank. A replacement leaves the job as it is.
      if (!replaces_ && error.code() == Code::timeout)
        page_.raise_abort(error.code(), error.peer(), error.detail().message);
      throw;
    }
  if (facts_.size() != static_cast<std::size_t>(job_size_)) {
    fail(Code::error, operation, "the store's table doesn't have the size of the job");
  }
  mine_ = facts_[static_cast<std::size_t>(mine_.rank)];
  members_ = members_of(facts_, mine_.node);
  sign_page(page_, mine_);
}

void TcpBootstrap::leave() noexcept {
  if (left_.exchange(true)) return;
  services_->stop_watching();  // from here on the host may exit
  try {
    send(Goodbye{mine_.rank});
    flush(Deadline::after(std::chrono::seconds(1)));
  } catch (...) {  // the agent then reports the exit of this rank as a failure
  }
  services_->end(Deadline::after(timeout_),
                 recovering_);  // the services of this process must outlive the ranks that use them
}

TcpBootstrap::~TcpBootstrap() {
  if (left_) return;
  // The rank ends without leave(): a failure. The ranks that use this process's services must be notified before the
  // services end.
  const Deadline soon = Deadline::after(std::chrono::milliseconds(200));
  services_->report_death(mine_.rank, soon);
  services_->stop_watching();
  connection_.finish();
  services_->end(soon, false);
}

void TcpBootstrap::abort(int exit_code, std::string_view text) noexcept {
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

void TcpBootstrap::flush(Deadline deadline) {
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

// ---- calls

std::vector<base::Bytes> TcpBootstrap::run_round(RoundKind kind, base::ByteView mine, Deadline deadline) {
  const char* const operation = name_of(kind);
  if (mine.size() > largest_round_bytes / static_cast<std::size_t>(job_size_)) {
    fail(Code::invalid_argument, operation,
         fmt::format("{} bytes exceed a rank's limit in a control plane allgather", mine.size()));
  }
  throw_if_over(operation);
  const std::uint64_t round = rounds_++;
  send(Contribution{round, kind, {{mine_.rank, {mine.begin(), mine.end()}}}});
  const auto ready = [&] {
    throw_if_failed(operation, RoundFailed::Scope::job, round);
    return result_ && result_->round == round;
  };
  if (!wait(operation, deadline, ready)) {
    report_missing(operation, MissingQuery::What::round, round);
  }
  return std::exchange(result_, std::nullopt).value().by_rank;
}

TcpBootstrap::ShareRound TcpBootstrap::round_among(const base::ShareGroup& group) const {
  ShareRound among{round_of(group), {}, group.members.size()};
  for (const int member : group.members) {
    const auto seat = std::lower_bound(members_.begin(), members_.end(), member) - members_.begin();
    among.local_indexes.push_back(static_cast<std::uint32_t>(seat));
  }
  return among;
}

/// Offers a descriptor (-1: none), and waits for the descriptors of all participants.
std::vector<TcpBootstrap::Received> TcpBootstrap::exchange(const ShareRound& round, ShareOffer offer, int fd,
                                                           Deadline deadline) {
  constexpr const char* operation = "share";
  throw_if_over(operation);
  share_round_ = round.number;
  received_.clear();
  offer.round = round.number;
  offer.local_indexes = round.local_indexes;
  std::vector<control::SharedFd> fds;
  if (fd >= 0) {
    base::UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!copy) {
      send(ShareOffer{round.number, 0, 0, round.local_indexes});  // so that the other ranks don't wait
      throw_failure(
          Code::error, operation, mine_.rank, mine_.rank,
          fmt::format("rank {}: no descriptor is left for shared memory: {}", mine_.rank, base::descriptor_limit()),
          "raise `ulimit -n` for that rank");
    }
    fds.push_back(std::make_shared<base::UniqueFd>(std::move(copy)));
  }
  send(offer, std::move(fds));
  const auto ready = [&] {
    throw_if_failed(operation, RoundFailed::Scope::node, round.number);
    return received_.size() == round.members;
  };
  if (!wait(operation, deadline, ready)) report_missing(operation, MissingQuery::What::share, round.number);
  return std::exchange(received_, {});
}

std::vector<SharedSegment> TcpBootstrap::share(const ShareRound& round, const SharedSegment& mine, Deadline deadline) {
  ShareOffer offer;
  if (mine) {
    offer.bytes = mine->bytes();
    offer.file_offset = mine->file_offset();
  }
  std::vector<SharedSegment> all;
  for (Received& each : exchange(round, std::move(offer), mine ? mine->fd() : -1, deadline)) {
    SharedSegment segment;
    if (each.item.what == ShareResult::What::your_own) segment = mine;
    if (each.item.what == ShareResult::What::descriptor) {
      segment = base::Segment::map(std::move(each.fd), each.item.bytes, each.item.file_offset);
    }
    all.push_back(std::move(segment));
  }
  return all;
}

std::vector<base::UniqueFd> TcpBootstrap::pass(const base::ShareGroup& group, const base::UniqueFd& mine,
                                               Deadline deadline) {
  std::vector<base::UniqueFd> all;
  for (Received& each : exchange(round_among(group), {}, mine.get(), deadline)) all.push_back(std::move(each.fd));
  return all;
}

void TcpBootstrap::publish(std::string_view key, base::ByteView value) {
  constexpr const char* operation = "publish";
  if (value.size() > longest_value_bytes)
    fail(Code::invalid_argument, operation, fmt::format("a value has at most {} bytes", longest_value_bytes));
  const auto answer =
      ask(operation, {.op = StoreOp::swap, .key = std::string(key), .value = {value.begin(), value.end()}},
          Deadline::after(timeout_), {});
  if (!answer) fail(Code::timeout, operation, "the store doesn't answer");
  if (answer->number == 0)
    fail(Code::invalid_argument, operation, fmt::format("the key '{}' is published already", key));
}

base::Bytes TcpBootstrap::lookup(std::string_view key, Deadline deadline) { return lookup_for({}, key, deadline); }

base::Bytes TcpBootstrap::lookup_for(const std::vector<RankProcess>& processes, std::string_view key,
                                     Deadline deadline) {
  constexpr const char* operation = "lookup";
  auto answer = ask(operation, {.op = StoreOp::get, .key = std::string(key), .flag = true}, deadline, processes);
  if (!answer) fail(Code::not_found, operation, fmt::format("the key '{}' wasn't published before the deadline", key));
  return std::move(answer->value);
}

std::optional<StoreAnswer> TcpBootstrap::ask(const char* operation, StoreCall call, Deadline deadline,
                                             const std::vector<RankProcess>& processes) {
  if (call.key.size() > store_longest_key)
    fail(Code::invalid_argument, operation, fmt::format("a key has at most {} bytes", store_longest_key));
  throw_if_over(operation);
  asked_ = call.id = requests_++;
  answer_.reset();
  send(RankCall{mine_.rank, std::move(call)});
  const auto cancel = [&] {
    send(RankCall{mine_.rank, {.op = StoreOp::cancel, .number = static_cast<std::int64_t>(asked_)}});
  };
  const auto answered = [&] {
    throw_if_lost(processes, operation);
    return answer_.has_value();
  };
  try {
    if (!wait(operation, deadline, answered)) {
      cancel();
      return {};
    }
  } catch (const Error&) {
    cancel();
    throw;
  }
  if (answer_->code != Code::success) fail(answer_->code, operation, std::string(base::as_text(answer_->value)));
  return std::exchange(answer_, std::nullopt);
}

std::vector<base::RankState> TcpBootstrap::states(const std::vector<int>& ranks) {
  states_id_ = requests_++;
  states_.clear();
  try {
    send(StateQuery{states_id_, mine_.rank, {ranks.begin(), ranks.end()}});
    const auto answered = [&] { return states_.size() >= ranks.size(); };
    (void)wait("query of states", Deadline::after(std::chrono::milliseconds(500)), answered);
  } catch (const Error&) {  // the job has failed: the caller's error has another cause, and uses the states so far
  }
  return std::exchange(states_, {});
}

void TcpBootstrap::fail_job(int peer, std::string_view text) noexcept {
  try {
    send(Failure({Code::peer_failed, peer, 0, std::string(text)}));
  } catch (...) {  // no memory for a message: the ranks of other nodes aren't notified
  }
  page_.raise_abort(Code::peer_failed, peer, text);
}

bool TcpBootstrap::report(std::string_view text, std::chrono::nanoseconds waited) noexcept {
  try {
    constexpr std::size_t longest_text = 4096;
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(waited).count();
    send(Report{mine_.rank, static_cast<std::uint64_t>(ms), std::string(text.substr(0, longest_text))});
    return true;
  } catch (...) {  // no memory for a message
    return false;
  }
}

// ---- Membership

Decision TcpBootstrap::agree(const Ballot& ballot, std::chrono::nanoseconds timeout) {
  using std::chrono::milliseconds;
  constexpr const char* operation = "agreement on the ranks";
  recovering_ = true;
  decision_.reset();
  const bool has_deadline = timeout > std::chrono::nanoseconds::zero() && timeout != base::Env::no_timeout;
  const auto ms = has_deadline ? std::max<std::int64_t>(1, std::chrono::ceil<milliseconds>(timeout).count()) : 0;
  throw_if_over(operation);
  send(Vote{ballot, static_cast<std::uint64_t>(ms), {mine_.rank, 0}});
  const bool stands_by = ballot.step == Ballot::Step::stand_by;
  const auto decided = [&] { return decision_ && (stands_by || decision_->number == ballot.number); };
  if (!wait(operation, Deadline::after(stands_by && has_deadline ? timeout : base::Env::no_timeout), decided)) {
    if (!stands_by) fail(Code::timeout, operation, "the program interrupted the wait");
    fail(Code::timeout, "Runtime::init",
         "this process replaces an earlier one of its rank, and the other ranks haven't called Team::grow");
  }
  return *std::exchange(decision_, std::nullopt);
}

void TcpBootstrap::throw_if_lost(const std::vector<RankProcess>& processes, const char* operation) const {
  for (const RankProcess& each : processes)
    if (std::find(lost_.begin(), lost_.end(), each) != lost_.end())
      throw_failure(Code::peer_failed, operation, mine_.rank, each.rank, fmt::format("rank {} has ended", each.rank));
}

void TcpBootstrap::require_alive(const std::vector<RankProcess>& processes) {
  constexpr const char* operation = "agreement on the ranks";
  read_messages();
  throw_if_over(operation);
  throw_if_lost(processes, operation);
}

// ---- waiting

bool TcpBootstrap::wait(const char* operation, Deadline deadline, const std::function<bool()>& ready) {
  // The page's abort word may be set before the agent's message arrives, or without one. In long waits it is read less
  // often: otherwise thousands of waiting ranks on one machine would use all its cores.
  constexpr int shortest_look_ms = 20, longest_look_ms = 640;
  std::int64_t interval = report_.count(), next_report = base::now_ns() + interval;
  for (int look_again_ms = shortest_look_ms;; look_again_ms = std::min(2 * look_again_ms, longest_look_ms)) {
    // The agent sends a result before it raises a later failure in the page. The page is loaded before the messages are
    // read, and only that status counts here: a failure that it shows has no earlier result that is still unread.
    const base::Status page = page_status();
    read_messages();
    if (ready()) return true;
    throw_if_over(operation, page);
    if (check_) {
      check_();
      look_again_ms = shortest_look_ms;
    }
    if (deadline.expired() || base::is_interrupted()) return false;
    if (base::now_ns() >= next_report) {
      if (page_.segment() && page_.claim_report(base::now_ns(), interval) && log_.wants(base::LogLevel::warn))
        (void)report(
            fmt::format("{} has waited for {:.3g} s for other ranks", operation, static_cast<double>(interval) * 1e-9),
            std::chrono::nanoseconds(interval));
      next_report += interval;
      interval *= 2;
    }
    sleep_on_socket(std::min(deadline.left_ms(), look_again_ms));
  }
}

void TcpBootstrap::sleep_on_socket(int timeout_ms) {
  base::Readiness wanted{.read = true};
  {
    const std::lock_guard lock(mutex_);
    if (connection_.stalled()) timeout_ms = 1;
    if (connection_.wants_write() && !connection_.stalled()) wanted.write = true;
  }
  (void)base::wait_for(connection_.fd(), wanted,
                       timeout_ms);  // without the lock, because abort() may be called meanwhile
}

base::Status TcpBootstrap::page_status() const noexcept { return page_.segment() ? page_.aborted() : base::Status{}; }

void TcpBootstrap::throw_if_over(const char* operation, const base::Status& page) {
  if (refusal_) throw_failure(refusal_->code, operation, mine_.rank, -1, refusal_->text, "is each rank started once?");
  if (left_) throw_failure(Code::closed, operation, mine_.rank, -1, "this rank has left the job");
  if (recovering_ && page.code != Code::aborted) {
    if (!agent_lost_) return;
    throw_failure(Code::unavailable, operation, mine_.rank, -1, "a process that ran the job's control plane has ended",
                  "under hmcrun the control plane doesn't end with a rank");
  }
  if (!page.ok()) throw_failure(page.code, operation, mine_.rank, page.peer, page_.abort_text());
  if (failure_) throw_failure(failure_->code, operation, mine_.rank, failure_->rank, failure_->text);
}

void TcpBootstrap::throw_if_failed(const char* operation, RoundFailed::Scope scope, std::uint64_t round) {
  if (!round_failed_ || round_failed_->scope != scope || round_failed_->round != round) return;
  throw_failure(round_failed_->code, operation, mine_.rank, round_failed_->peer, round_failed_->text);
}

void TcpBootstrap::report_missing(const char* operation, MissingQuery::What what, std::uint64_t round) {
  const std::uint64_t id = requests_++;
  missing_.reset();
  send(MissingQuery{id, mine_.rank, what, round});
  const auto answered = [&] { return missing_ && missing_->id == id; };
  if (!wait(operation, Deadline::after(std::chrono::seconds(1)), answered)) {
    fail(Code::timeout, operation, "the deadline passed, and the node's agent or the store doesn't answer");
  }
  throw_missing(operation, mine_.rank, missing_->missing);
}

// ---- incoming messages

void TcpBootstrap::read_messages() {
  std::vector<base::UniqueFd> fds;
  bool ended = false;
  for (;;) {
    std::optional<control::Frame> frame;
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

void TcpBootstrap::handle(const control::Frame& frame, std::vector<base::UniqueFd> fds) {
  switch (type_of(frame)) {
    case MessageType::page:
      if (const auto page = decode<Page>(frame); page && fds.size() == 1) {
        page_ = base::NodePage::adopt(base::Segment::map(std::move(fds.front()), base::NodePage::bytes_for(job_size_)),
                                      page->nonce);
        replaces_ = recovering_ = page->life > 0;
        requests_ = std::uint64_t{page->life} << 32;  // a reply to an earlier process has another number
      }
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
    case MessageType::share_result: {
      const auto result = decode<ShareResult>(frame);
      if (!result || result->round != share_round_) return;  // result of a share that timed out
      std::size_t next = 0;
      for (const ShareResult::Item& each : result->items) {
        Received received{each, {}};
        if (each.what == ShareResult::What::descriptor && next < fds.size()) received.fd = std::move(fds[next++]);
        received_.push_back(std::move(received));
      }
      return;
    }
    case MessageType::rank_answer:
      if (auto answer = decode<RankAnswer>(frame); answer && answer->answer.id == asked_)
        answer_ = std::move(answer->answer);
      return;
    case MessageType::missing_reply:
      if (auto missing = decode<MissingReply>(frame)) missing_ = std::move(missing);
      return;
    case MessageType::state_reply:
      if (const auto reply = decode<StateReply>(frame); reply && reply->id == states_id_)
        states_.insert(states_.end(), reply->states.begin(), reply->states.end());
      return;
    case MessageType::decision:
      if (auto decision = decode<DecisionFor>(frame)) decision_ = std::move(decision->decision);
      return;
    case MessageType::lost:
      if (const auto lost = decode<Lost>(frame)) lost_.push_back(lost->process);
      return;
    case MessageType::refusal:
      if (auto refusal = decode<Refusal>(frame)) refusal_ = std::move(refusal);
      return;
    case MessageType::failure:
      if (auto failure = decode<Failure>(frame)) {
        if (page_.segment()) page_.raise_abort(failure->code, failure->rank, failure->text);
        if (!failure_) failure_ = std::move(failure);
      }
      return;
    default: return;
  }
}

/// The agent's process ended or closed this connection. This rank may be the only one that can report it to the node.
void TcpBootstrap::agent_lost() {
  agent_lost_ = true;
  if (left_ || refusal_ || failure_) return;
  const std::string why = connection_.fault().empty() ? "" : ": " + connection_.fault();
  if (!page_.segment()) {
    failure_.emplace(Notice{connection_.fault_code(), -1, 0, "the node's agent closed the connection" + why});
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

}  // namespace

std::unique_ptr<Bootstrap> join_tcp(const base::Env& env, base::Deadline deadline) {
  if (!env.rank || !env.size || *env.rank < 0 || *env.rank >= *env.size || env.store.empty()) {
    throw Error(Code::invalid_config, "join", "HMC_RANK, HMC_SIZE and HMC_STORE don't describe a job");
  }
  return join_tcp(env, std::make_unique<HostedServices>(env), deadline);
}

std::unique_ptr<Bootstrap> join_tcp(const base::Env& env, std::unique_ptr<HostedServices> services, Deadline deadline,
                                    std::function<void()> check) {
  return std::make_unique<TcpBootstrap>(env, std::move(services), deadline, std::move(check));
}

}  // namespace hmc::bootstrap
