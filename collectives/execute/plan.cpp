#include "collectives/execute/plan.hpp"

#include <algorithm>

namespace hmc::collectives {

using schedule::Algorithm;
using schedule::Call;

namespace {

/// What a schedule depends on. Reductions differ only by whether an avg is to be divided.
bool same(const Call& a, const Call& b) noexcept {
  return a.count == b.count && a.collective == b.collective && a.element_bytes == b.element_bytes && a.root == b.root &&
         a.in_place == b.in_place && (a.op == Op::avg) == (b.op == Op::avg) && a.commutative == b.commutative &&
         a.deterministic == b.deterministic && a.segment_bytes == b.segment_bytes && a.radix == b.radix;
}

}  // namespace

void make_uniform(Call& call, int size, std::uint64_t count, std::uint64_t stride, std::vector<std::uint64_t>& counts,
                  std::vector<std::uint64_t>& displacements) {
  const auto ranks = static_cast<std::size_t>(size);
  counts.assign(ranks, count);
  displacements.resize(ranks);
  for (std::size_t i = 0; i < ranks; ++i) displacements[i] = i * stride;
  call.count = 0;
  call.counts = counts;
  call.displacements = displacements;
  if (call.collective != schedule::Collective::alltoall) return;
  call.receive_counts = counts;
  call.receive_displacements = displacements;
  call.largest = count;
}

std::shared_ptr<Plan> Plans::take_place() {
  if (plans_.size() < kept) return plans_.emplace_back(std::make_shared<Plan>());
  // Operations under way hold theirs: then its place is taken by a new one.
  std::shared_ptr<Plan>& oldest =
      *std::min_element(plans_.begin(), plans_.end(), [](const auto& a, const auto& b) { return a->used < b->used; });
  if (oldest.use_count() > 1) oldest = std::make_shared<Plan>();
  return oldest;
}

std::shared_ptr<const Plan> Plans::get(const Algorithm& algorithm, const Call& call) {
  const bool irregular = call.irregular();
  if (!irregular) {
    for (const auto& plan : plans_) {
      if (plan->algorithm != &algorithm || !same(plan->call, call)) continue;
      plan->used = ++clock_;
      return plan;
    }
  } else if (irregular_ == nullptr || irregular_.use_count() > 1) {
    irregular_ = std::make_shared<Plan>();
  }
  const std::shared_ptr<Plan> plan = irregular ? irregular_ : take_place();
  plan->algorithm = nullptr;  // until it is whole
  plan->schedule.clear();
  algorithm.build_into(shape_, call, rank_, plan->schedule);
  if (plan->schedule.scratch_bytes > arena_.scratch_bytes() || plan->schedule.slots > arena_.slots()) return nullptr;
  plan->used = ++clock_;
  if (!irregular) {
    plan->call = call;
    plan->algorithm = &algorithm;
  }
  return plan;
}

bool Plans::fits(const Algorithm& algorithm, Call call, std::uint64_t count) {
  if (call.irregular()) {
    make_uniform(call, shape_.size, count, count, counts_, displacements_);
  } else {
    call.count = count;
  }
  for (const bool in_place : {false, true}) {
    if (in_place && call.collective == schedule::Collective::alltoall) break;  // Operation stages it
    call.in_place = in_place;
    for (int rank = 0; rank < shape_.size; ++rank) {
      trial_.clear();
      algorithm.build_into(shape_, call, rank, trial_);
      if (trial_.scratch_bytes > arena_.scratch_bytes() || trial_.slots > arena_.slots()) return false;
    }
  }
  return true;
}

std::uint64_t Plans::longest(const Algorithm& algorithm, const Call& call) {
  const bool irregular = call.irregular();
  for (const Limit& limit : limits_)
    if (limit.algorithm == &algorithm && limit.element == call.element_bytes && limit.root == call.root &&
        limit.irregular == irregular && limit.commutative == call.commutative)
      return limit.count;
  // 4, 3, 2, 1.5, 1, 3/4 ... of the area, in whole lines where there is room for one. Some algorithms keep less
  // than the whole message in scratch, others several times as much.
  std::uint64_t count = 0;
  for (std::uint64_t bytes = 4 * arena_.scratch_bytes(); bytes >= call.element_bytes && count == 0; bytes /= 2) {
    for (const std::uint64_t candidate : {bytes, bytes / 4 * 3}) {
      const std::uint64_t elements = std::max<std::uint64_t>(
          candidate >= 64 ? candidate / 64 * 64 / call.element_bytes : candidate / call.element_bytes, 1);
      if (!fits(algorithm, call, elements)) continue;
      count = elements;
      break;
    }
  }
  limits_.push_back({&algorithm, call.element_bytes, call.root, irregular, call.commutative, count});
  return count;
}

}  // namespace hmc::collectives
