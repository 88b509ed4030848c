#include "bootstrap/inproc.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include <hmc/error.hpp>

#include "bootstrap/common.hpp"

namespace hmc::bootstrap {

namespace {

using SharedSegment = std::shared_ptr<base::Segment>;

/// One exchange within a group: every member contributes an item and receives all items.
template <typename Item> struct Round {
  explicit Round(std::size_t members) : items(members) {}
  std::string operation;  // of the first member that arrives; a different operation is a mismatch
  std::vector<std::optional<Item>> items;
  std::string mismatch;
  std::size_t arrived = 0;
  std::size_t gone = 0;
};

/// The job's state, held by every rank's Bootstrap. One mutex and one condition variable suffice for the cold path.
struct Job {
  Job(int ranks, int nodes);

  template <typename Item> struct Meetings {
    std::vector<int> members;
    std::map<std::uint64_t, Round<Item>> rounds;
  };

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<RankFacts> facts;
  std::vector<base::NodePage> pages;
  std::vector<bool> left;
  Meetings<base::Bytes> world;
  std::vector<Meetings<SharedSegment>> nodes;
  std::map<std::pair<int, std::uint64_t>, Meetings<SharedSegment>> groups;  // by node and round
  std::map<std::string, base::Bytes, std::less<>> published;

  void raise(Code code, int peer, std::string_view text) noexcept {
    for (const base::NodePage& page : pages) page.raise_abort(code, peer, text);
    changed.notify_all();
  }
};

Job::Job(int ranks, int node_count) : left(static_cast<std::size_t>(ranks)) {
  const RankFacts mine = own_facts(0);
  for (int rank = 0; rank < ranks; ++rank) {
    facts.push_back(mine);
    facts.back().rank = rank;
    facts.back().node = static_cast<std::int32_t>(std::int64_t{rank} * node_count / ranks);
    world.members.push_back(rank);
  }
  number_nodes(facts);
  for (int node = 0; node < node_count; ++node) {
    nodes.push_back({members_of(facts, node), {}});
    pages.push_back(base::NodePage::create(static_cast<int>(nodes.back().members.size())));
  }
  for (const RankFacts& each : facts) sign_page(pages[static_cast<std::size_t>(each.node)], each);
}

class InprocBootstrap final : public Bootstrap, private base::NodeLink {
 public:
  InprocBootstrap(std::shared_ptr<Job> job, int rank, const char* launcher)
      : job_(std::move(job)), rank_(rank), mine_(job_->facts[static_cast<std::size_t>(rank)]), launcher_(launcher) {}

  ~InprocBootstrap() override {
    const std::lock_guard lock(job_->mutex);
    if (!job_->left[index()]) {
      job_->raise(Code::peer_failed, rank_, fmt::format("rank {} ended without Runtime::close", rank_));
    }
  }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return static_cast<int>(job_->facts.size()); }
  std::string launcher() const override { return launcher_; }
  const std::vector<RankFacts>& facts() const noexcept override { return job_->facts; }
  base::NodeLink& node_link() noexcept override { return *this; }
  const base::NodePage& node_page() const noexcept override { return job_->pages[node()]; }

  std::vector<base::Bytes> allgather(base::ByteView mine, base::Deadline deadline) override {
    return run_round(job_->world, rounds_++, index(), base::Bytes(mine.begin(), mine.end()), "allgather", deadline);
  }
  void barrier(base::Deadline deadline) override {
    run_round(job_->world, rounds_++, index(), base::Bytes{}, "barrier", deadline);
  }
  const std::vector<int>& members() const noexcept override { return job_->nodes[node()].members; }
  std::vector<SharedSegment> share(const SharedSegment& mine, base::Deadline deadline) override {
    return run_round(job_->nodes[node()], shares_++, static_cast<std::size_t>(mine_.local_index), SharedSegment(mine),
                     "share", deadline);
  }
  std::vector<SharedSegment> share_among(const base::ShareGroup& group, const SharedSegment& mine,
                                         base::Deadline deadline) override;

  void publish(std::string_view key, base::ByteView value) override;
  base::Bytes lookup(std::string_view key, base::Deadline deadline) override;

  void abort(int /*exit_code*/, std::string_view text) noexcept override { job_->raise(Code::aborted, rank_, text); }
  void leave() noexcept override {
    const std::lock_guard lock(job_->mutex);
    job_->left[index()] = true;
    job_->changed.notify_all();
  }

 private:
  std::size_t index() const noexcept { return static_cast<std::size_t>(rank_); }
  std::size_t node() const noexcept { return static_cast<std::size_t>(mine_.node); }

  /// Polls the page's abort word, because other code may set it without notifying the condition variable.
  void doze(std::unique_lock<std::mutex>& lock, base::Deadline deadline) {
    constexpr std::chrono::nanoseconds look_again = std::chrono::milliseconds(20);
    job_->changed.wait_for(lock, std::min(deadline.left(), look_again));
  }

  template <typename Item>
  std::vector<Item> run_round(Job::Meetings<Item>& place, std::uint64_t number, std::size_t seat, Item mine,
                              const char* operation, base::Deadline deadline);
  template <typename Item>
  void wait_for_all(std::unique_lock<std::mutex>& lock, const Job::Meetings<Item>& place, const Round<Item>& round,
                    const char* operation, base::Deadline deadline);

  std::shared_ptr<Job> job_;
  int rank_;
  RankFacts mine_;
  const char* launcher_;
  std::uint64_t rounds_ = 0;
  std::uint64_t shares_ = 0;
};

template <typename Item>
void InprocBootstrap::wait_for_all(std::unique_lock<std::mutex>& lock, const Job::Meetings<Item>& place,
                                   const Round<Item>& round, const char* operation, base::Deadline deadline) {
  while (round.arrived < round.items.size() && round.mismatch.empty()) {
    throw_if_aborted(node_page(), operation, rank_);
    std::vector<int> missing;
    for (std::size_t i = 0; i < round.items.size(); ++i) {
      if (!round.items[i]) missing.push_back(place.members[i]);
    }
    for (const int peer : missing) {
      if (job_->left[static_cast<std::size_t>(peer)]) throw_left(operation, rank_, peer);
    }
    if (deadline.expired()) throw_missing(operation, rank_, missing);
    doze(lock, deadline);
  }
}

template <typename Item>
std::vector<Item> InprocBootstrap::run_round(Job::Meetings<Item>& place, std::uint64_t number, std::size_t seat,
                                             Item mine, const char* operation, base::Deadline deadline) {
  std::unique_lock lock(job_->mutex);
  throw_if_aborted(node_page(), operation, rank_);
  Round<Item>& round = place.rounds.try_emplace(number, place.members.size()).first->second;
  if (round.operation.empty()) round.operation = operation;
  if (round.operation != operation) round.mismatch = mismatch_text(round.operation, operation, rank_);
  round.items[seat] = std::move(mine);
  ++round.arrived;
  job_->changed.notify_all();
  wait_for_all(lock, place, round, operation, deadline);
  if (!round.mismatch.empty()) throw Error(Code::mismatch, operation, round.mismatch);

  std::vector<Item> all;
  for (const std::optional<Item>& item : round.items) all.push_back(*item);
  if (++round.gone == round.items.size()) place.rounds.erase(number);
  return all;
}

std::vector<SharedSegment> InprocBootstrap::share_among(const base::ShareGroup& group, const SharedSegment& mine,
                                                        base::Deadline deadline) {
  const auto seat = std::lower_bound(group.members.begin(), group.members.end(), rank_) - group.members.begin();
  const std::pair<int, std::uint64_t> key{mine_.node, round_of(group)};
  Job::Meetings<SharedSegment>* place = nullptr;
  {
    const std::lock_guard lock(job_->mutex);
    place = &job_->groups[key];
    place->members = group.members;
  }
  auto all = run_round(*place, 0, static_cast<std::size_t>(seat), SharedSegment(mine), "share", deadline);
  const std::lock_guard lock(job_->mutex);
  // The last member to leave erases the group, and may already have done so.
  if (const auto found = job_->groups.find(key); found != job_->groups.end() && found->second.rounds.empty())
    job_->groups.erase(found);
  return all;
}

void InprocBootstrap::publish(std::string_view key, base::ByteView value) {
  const std::lock_guard lock(job_->mutex);
  throw_if_aborted(node_page(), "publish", rank_);
  if (!job_->published.try_emplace(std::string(key), value.begin(), value.end()).second) {
    throw Error(Code::invalid_argument, "publish", fmt::format("the key '{}' is published already", key));
  }
  job_->changed.notify_all();
}

base::Bytes InprocBootstrap::lookup(std::string_view key, base::Deadline deadline) {
  std::unique_lock lock(job_->mutex);
  for (;;) {
    if (const auto found = job_->published.find(key); found != job_->published.end()) return found->second;
    throw_if_aborted(node_page(), "lookup", rank_);
    if (deadline.expired()) {
      throw Error(Code::not_found, "lookup", fmt::format("the key '{}' wasn't published before the deadline", key));
    }
    doze(lock, deadline);
  }
}

}  // namespace

std::vector<std::unique_ptr<Bootstrap>> make_inproc(int size, int nodes) {
  if (size < 1 || nodes < 1 || nodes > size) {
    throw Error(Code::invalid_argument, "make_inproc", fmt::format("{} ranks on {} nodes", size, nodes));
  }
  const auto job = std::make_shared<Job>(size, nodes);
  std::vector<std::unique_ptr<Bootstrap>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(std::make_unique<InprocBootstrap>(job, rank, "inproc"));
  return ranks;
}

std::unique_ptr<Bootstrap> make_alone() {
  return std::make_unique<InprocBootstrap>(std::make_shared<Job>(1, 1), 0, "alone");
}

}  // namespace hmc::bootstrap
