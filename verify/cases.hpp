// Case: one collective call of a whole team, and the checked algorithm; and the cases with which an algorithm is
// checked.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "collectives/schedule/schedule.hpp"

namespace hmc::verify {

namespace schedule = collectives::schedule;

/// Owns the counts that its calls refer to, so it can't be copied or moved.
class Case {
 public:
  Case(const schedule::Algorithm& algorithm, schedule::Shape shape, const schedule::Call& call);
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  /// Changes the call to its v-form. Block sizes differ, and some are 0. `gaps`: gaps between blocks. Call it before
  /// applies().
  void make_irregular(std::uint64_t largest, bool gaps);

  bool applies() const;
  /// Some bytes move, or it is a barrier.
  bool has_count() const { return call_.count > 0 || call_.collective == CollectiveKind::barrier; }
  /// Contributions must be combined in rank order on every rank: for operations that don't commute, and for
  /// deterministic reductions.
  bool in_rank_order() const { return !call_.commutative || call_.deterministic; }
  const schedule::Algorithm& algorithm() const { return algorithm_; }
  const schedule::Shape& shape() const { return shape_; }
  schedule::Call call_of(int rank) const;
  std::vector<schedule::Schedule> build() const;
  std::string text() const;

 private:
  using Counts = std::vector<std::uint64_t>;

  const schedule::Algorithm& algorithm_;
  schedule::Shape shape_;
  schedule::Call call_;
  Counts counts_, displacements_;
  std::vector<Counts> sent_, received_, sent_at_, received_at_;  ///< alltoallv: per rank
};

enum class Effort { quick, full };

/// The team sizes: every size up to 64 (quick: some of them), then samples up to 4096.
std::vector<int> sizes_for(Effort effort);

/// The combinations of this size that the algorithm applies to: counts 0, 1, N-1, a prime, large; roots, in place,
/// orders, v-forms, gaps, segments, nodes. `check` gets all of them for small teams, for larger teams some, chosen by
/// size and count. `omit`, if set, gets the others.
void for_each_case(const schedule::Algorithm& algorithm, int size, Effort effort,
                   const std::function<void(const Case&)>& check, const std::function<void(const Case&)>& omit = {});

/// The estimated cost of a check, in arbitrary units: steps times their data. Computed from a sample of the ranks.
double cost_of(const Case& subject);

/// The limit on the total cost of an algorithm's cases of one size above 64, so that all checks take one or two
/// minutes.
constexpr double usual_limit = 2e9;

/// The same within `limit`: `skip` gets the chosen cases that exceed it. Cases are checked in order, so large teams are
/// checked with small counts only.
void for_each_case_within(double limit, const schedule::Algorithm& algorithm, int size, Effort effort,
                          const std::function<void(const Case&)>& check, const std::function<void(const Case&)>& skip,
                          const std::function<void(const Case&)>& omit = {});

}  // namespace hmc::verify
