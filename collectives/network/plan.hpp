// Plan: a schedule, cached for later calls with the same parameters.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/network/shortcuts.hpp"
#include "collectives/schedule/schedule.hpp"
#include "collectives/select/area_limits.hpp"

namespace hmc::collectives {

struct Plan {
  schedule::Schedule schedule;
  std::vector<Arrival> arrivals;  ///< empty if all ranks reach each other by load and store
  std::vector<Result> results;
  // the cache key; null if the plan can't be reused
  const schedule::Algorithm* algorithm = nullptr;
  schedule::Call call;
  std::uint64_t used = 0;
};

/// A cache of the most recently used plans of one rank in a team. One thread.
class Plans {
 public:
  Plans(const AreaLimits& room, const schedule::Shape& shape, int rank, bool finds_arrivals)
      : room_(room), shape_(shape), rank_(rank), finds_arrivals_(finds_arrivals) {}

  /// Returns the cached plan or builds one. Plans of v-forms are built for each call. Null if the schedule doesn't fit
  /// an area, which `largest_piece` should prevent. May throw bad_alloc.
  std::shared_ptr<const Plan> get(const schedule::Algorithm& algorithm, const schedule::Call& call);
  std::uint64_t scratch_bytes() const noexcept { return room_.scratch_bytes; }
  /// Number of schedules built for calls.
  std::uint64_t built() const noexcept { return built_; }

 private:
  static constexpr std::size_t kept = 32;
  std::shared_ptr<Plan> take_place();

  AreaLimits room_;
  schedule::Shape shape_;
  int rank_;
  bool finds_arrivals_;
  std::uint64_t clock_ = 0;
  std::uint64_t built_ = 0;
  std::vector<std::shared_ptr<Plan>> plans_;
  std::shared_ptr<Plan> irregular_;
};

/// Changes the call to a v-form with the same count for all ranks. Fills the two vectors; the call's spans refer to
/// them.
void make_uniform(schedule::Call& call, int size, std::uint64_t count, std::uint64_t stride,
                  std::vector<std::uint64_t>& counts, std::vector<std::uint64_t>& displacements);

}  // namespace hmc::collectives
