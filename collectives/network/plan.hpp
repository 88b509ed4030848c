// Plan: a schedule, cached for later calls with the same parameters, and the copies from scratch to the caller's output
// that it can skip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/schedule/schedule.hpp"
#include "collectives/select/selector.hpp"

namespace hmc::collectives {

/// Peers put into scratch, because they don't have the addresses of the caller's buffers. If this rank only copies a
/// range to its output and forwards it, the range can be received directly in the output and forwarded from there. This
/// saves the copy. Requires support of the wire (rma::receive_into).
struct Arrival {
  std::size_t step = 0;  ///< the first step that reads the range: the copy, or a put that forwards it
  std::uint64_t scratch = 0;
  std::uint64_t output = 0;
  std::uint64_t bytes = 0;
};

/// Finds the long ranges that can be received directly in the output, in step order. They can arrive at any time, under
/// these conditions:
/// - only the copy, and puts that forward the bytes, read the range;
/// - no step of this rank writes the scratch range;
/// - no other step accesses the output range.
void find_arrivals(const schedule::Schedule& schedule, bool in_place, std::vector<Arrival>& arrivals);

/// A sum in scratch that is only copied to the output. It can be computed in the output.
struct Result {
  std::size_t step = 0;  ///< the reduce
  std::size_t copy = 0;
  std::uint64_t output = 0;
};

/// Finds long ranges only, in step order. Finds none for in-place calls, because the output holds the input of later
/// steps.
void find_results(const schedule::Schedule& schedule, bool in_place, std::vector<Result>& results);

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

 private:
  static constexpr std::size_t kept = 32;
  std::shared_ptr<Plan> take_place();

  AreaLimits room_;
  schedule::Shape shape_;
  int rank_;
  bool finds_arrivals_;
  std::uint64_t clock_ = 0;
  std::vector<std::shared_ptr<Plan>> plans_;
  std::shared_ptr<Plan> irregular_;
};

/// Changes the call to a v-form with the same count for all ranks. Fills the two vectors; the call's spans refer to
/// them.
void make_uniform(schedule::Call& call, int size, std::uint64_t count, std::uint64_t stride,
                  std::vector<std::uint64_t>& counts, std::vector<std::uint64_t>& displacements);

}  // namespace hmc::collectives
