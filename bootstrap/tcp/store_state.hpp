// The state of the store, without sockets: StoreRounds, the allgathers and barriers in progress; StoreKeys, the
// published keys and the lookups that wait for a key; StoreAgreements, the votes in progress.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "bootstrap/tcp/protocol.hpp"

namespace hmc::bootstrap {

/// The allgathers and barriers in progress.
class StoreRounds {
 public:
  explicit StoreRounds(int job_size) : size_(static_cast<std::size_t>(job_size)), left_(size_) {}

  /// Returns the message for all ranks: a result, a failure of the round, or no message yet. The caller has checked the
  /// ranks of `contribution`. A rank's second contribution to a round is ignored.
  using Outcome = std::variant<std::monostate, Result, RoundFailed>;
  Outcome contribute(Contribution contribution);
  /// The rounds that can't complete after this rank's goodbye.
  std::vector<RoundFailed> leave(int rank);

  /// Ascending.
  std::vector<std::int32_t> missing(std::uint64_t round) const;
  std::size_t left() const noexcept { return left_count_; }
  bool has_left(int rank) const noexcept { return left_[static_cast<std::size_t>(rank)]; }

 private:
  struct Round {
    RoundKind kind{};
    std::vector<std::optional<base::Bytes>> by_rank;
    std::size_t arrived = 0;
    std::size_t bytes = 0;
  };
  RoundFailed fail(std::uint64_t number, Code code, int peer, std::string text);
  std::optional<RoundFailed> impossible(std::uint64_t number, const Round& round);

  std::size_t size_;
  std::map<std::uint64_t, Round> rounds_;
  std::map<std::uint64_t, RoundFailed> failed_;  // for contributions that arrive after the failure
  std::vector<bool> left_;
  std::size_t left_count_ = 0;
};

/// A rank waits for one key at a time: a new lookup replaces the previous one.
class StoreKeys {
 public:
  /// Both return the replies to send; publish() first to the publisher, then to the waiting ranks.
  std::vector<Reply> publish(const Publish& message);
  std::vector<Reply> lookup(const Lookup& message);
  void forget(int rank) { waiting_.erase(rank); }

 private:
  struct Waiting {
    std::uint64_t id = 0;
    std::string key;
  };
  std::map<std::string, base::Bytes> values_;
  std::map<std::int32_t, Waiting> waiting_;  // by rank
  std::size_t bytes_ = 0;
};

/// The current process of each rank, and the undecided agreements. An agreement doesn't wait for a process that has
/// ended.
class StoreAgreements {
 public:
  explicit StoreAgreements(int job_size) : life_(static_cast<std::size_t>(job_size)), ended_(life_.size()) {}

  RankProcess process(int rank) const noexcept { return {rank, life_[static_cast<std::size_t>(rank)]}; }
  bool has_ended(int rank) const noexcept { return ended_[static_cast<std::size_t>(rank)]; }
  bool were_used() const noexcept { return used_; }

  // Each returns the decisions to send.
  std::vector<DecisionFor> vote(const Vote& vote);
  std::vector<DecisionFor> end(int rank);  ///< the rank's process has ended
  std::vector<DecisionFor> expire();       ///< decides the agreements whose deadlines have passed
  /// A new process has joined as this rank, whose last process has ended.
  void replace(int rank);
  /// The time until expire() has work; -1: none.
  int left_ms() const noexcept;

 private:
  struct Agreement {
    Ballot::Step step{};
    std::vector<RankProcess> members;
    std::set<std::int32_t> voted;
    bool ok = true;
    std::string text;
    std::optional<base::Deadline> deadline;
  };
  using Open = std::map<std::uint64_t, Agreement>;

  bool is_gone(const RankProcess& one) const noexcept {
    return one.life != life_[static_cast<std::size_t>(one.rank)] || has_ended(one.rank);
  }
  std::vector<std::int32_t> missing(const Agreement& agreement) const;
  std::vector<DecisionFor> decide_ready();
  std::vector<DecisionFor> decide(Open::iterator which);

  std::vector<std::uint32_t> life_;  // by rank
  std::vector<bool> ended_;          // by rank: its last process
  Open open_;
  std::set<std::int32_t> standing_by_;
  std::map<std::uint64_t, Decision> failed_;  // for votes that arrive after the deadline, or after a mismatch
  bool used_ = false;
};

}  // namespace hmc::bootstrap
