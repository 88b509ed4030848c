// The state of the store, without sockets: StoreRounds, the allgathers and barriers in progress; StoreKeys, the
// published keys and the lookups that wait for a key.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "bootstrap/tcp/protocol.hpp"

namespace hmc::bootstrap {

/// Contributions in, results out.
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

}  // namespace hmc::bootstrap
