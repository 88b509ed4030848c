// The state of the store, without sockets: StoreRounds, the allgathers and barriers in progress; StoreAgreements, the
// votes in progress.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
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

/// The current process of each rank, and the undecided agreements. An agreement doesn't wait for a process that has
/// ended.
class StoreAgreements {
 public:
  /// `no_replacement`: the reason why no process will ever come in place of another; empty: one may come.
  explicit StoreAgreements(int job_size, std::string no_replacement = {})
      : no_replacement_(std::move(no_replacement)),
        ranks_(static_cast<std::size_t>(job_size)),
        members_(ranks_.size()) {}

  RankProcess process(int rank) const noexcept { return {rank, at(rank).life}; }
  bool has_ended(int rank) const noexcept { return at(rank).ended; }
  bool were_used() const noexcept { return used_; }
  /// True if no process is left that could call grow(): only replacements that wait for it. This is final.
  bool has_no_member() const noexcept { return members_ == 0; }

  // Each returns the decisions to send.
  std::vector<DecisionFor> vote(const Vote& vote);
  std::vector<DecisionFor> end(int rank);    ///< the rank's process has ended
  std::vector<DecisionFor> leave(int rank);  ///< the rank has sent its goodbye
  /// No process will replace the rank's last one, which has ended.
  std::vector<DecisionFor> no_replacement(int rank, std::string text);
  std::vector<DecisionFor> expire();  ///< decides the agreements whose deadlines have passed
  /// A new process has joined as this rank, whose last process has ended.
  void replace(int rank);
  /// The time until expire() has work; -1: none.
  int left_ms() const noexcept;

 private:
  struct Agreement {
    Ballot::Step step{};
    std::vector<RankProcess> members;
    std::set<RankProcess> voted;
    bool ok = true;
    std::string text;
    Code code = Code::success;
    std::optional<base::Deadline> deadline;
  };
  using Open = std::map<std::uint64_t, Agreement>;
  struct Rank {
    std::uint32_t life = 0;      // of its last process
    bool ended = false;          // the last process
    bool left = false;           // it has sent its goodbye
    bool is_member = true;       // of the current world, or may become one; false for a replacement that waits for grow
    bool stands_by = false;      // a replacement that has voted for the next grow
    std::string no_replacement;  // the reason why no further process will come; empty: one may come
    bool can_vote() const noexcept { return is_member && !ended && !left; }
  };
  template <typename Change> void change(int rank, Change change) {
    members_ -= at(rank).can_vote() ? 1 : 0;
    change(at(rank));
    members_ += at(rank).can_vote() ? 1 : 0;
  }

  Rank& at(int rank) noexcept { return ranks_[static_cast<std::size_t>(rank)]; }
  const Rank& at(int rank) const noexcept { return ranks_[static_cast<std::size_t>(rank)]; }
  std::int32_t size() const noexcept { return static_cast<std::int32_t>(ranks_.size()); }
  bool is_gone(const RankProcess& one) const noexcept { return one != process(one.rank) || has_ended(one.rank); }
  std::vector<std::int32_t> missing(const Agreement& agreement) const;
  bool is_hopeless(const Agreement& agreement, const std::vector<std::int32_t>& missing, std::string& text) const;
  std::vector<DecisionFor> decide_ready();
  std::vector<DecisionFor> decide(Open::iterator which);

  const std::string no_replacement_;  // of every rank
  std::vector<Rank> ranks_;
  std::size_t members_;  // number of ranks that can_vote()
  Open open_;
  std::map<std::uint64_t, Decision> failed_;  // for votes that arrive after the decision
  bool used_ = false;
};

}  // namespace hmc::bootstrap
