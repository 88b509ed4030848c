// Plan: a schedule that was built, and kept for the next call like it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/execute/arena.hpp"
#include "collectives/schedule/schedule.hpp"

namespace hmc::collectives {

struct Plan {
  schedule::Schedule schedule;
  // of what, if it may be found again
  const schedule::Algorithm* algorithm = nullptr;
  schedule::Call call;
  std::uint64_t used = 0;
};

/// The last few plans of a team, and how large a call of each algorithm may be. One thread.
class Plans {
 public:
  Plans(const Arena& arena, const schedule::Shape& shape, int rank) : arena_(arena), shape_(shape), rank_(rank) {}

  /// Builds it if it isn't there. Calls with counts of their own (v-forms) are built each time. Null if it
  /// needs more than an area has, which is a mistake of `longest`. May throw bad_alloc.
  std::shared_ptr<const Plan> get(const schedule::Algorithm& algorithm, const schedule::Call& call);
  /// The largest count (of a block, or of the whole vector) for which no rank needs more than an area has. Equal
  /// on all ranks, since it is found by building all of their schedules, once per kind of call.
  std::uint64_t longest(const schedule::Algorithm& algorithm, const schedule::Call& call);

 private:
  static constexpr std::size_t kept = 32;
  struct Limit {
    const schedule::Algorithm* algorithm;
    std::uint32_t element;
    int root;
    bool irregular;
    bool commutative;
    std::uint64_t count;
  };
  std::shared_ptr<Plan> take_place();
  bool fits(const schedule::Algorithm& algorithm, schedule::Call call, std::uint64_t count);

  const Arena& arena_;
  schedule::Shape shape_;
  int rank_;
  std::uint64_t clock_ = 0;
  std::vector<std::shared_ptr<Plan>> plans_;
  std::vector<Limit> limits_;
  std::shared_ptr<Plan> irregular_;
  schedule::Schedule trial_;
  std::vector<std::uint64_t> counts_, displacements_;
};

/// The call with another count for everyone; spans in the v-form point to the two vectors, which are filled.
void make_uniform(schedule::Call& call, int size, std::uint64_t count, std::uint64_t stride,
                  std::vector<std::uint64_t>& counts, std::vector<std::uint64_t>& displacements);

}  // namespace hmc::collectives
