// Case: one collective call of a whole team, and the checked algorithm.
#pragma once

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
  bool has_count() const { return call_.count > 0 || call_.collective == schedule::Collective::barrier; }
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

}  // namespace hmc::verify
