// StoreRounds: the allgathers and barriers in progress at the store.
#pragma once

#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "bootstrap/tcp/messages.hpp"

namespace hmc::bootstrap {

/// State only, no sockets: contributions in, results out.
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
  static Result result_of(std::uint64_t number, Round& round);

  std::size_t size_;
  std::map<std::uint64_t, Round> rounds_;
  std::map<std::uint64_t, RoundFailed> failed_;  // for contributions that arrive after the failure
  std::vector<bool> left_;
  std::size_t left_count_ = 0;
};

}  // namespace hmc::bootstrap
