#include "collectives/network/plan.hpp"

#include <algorithm>

namespace hmc::collectives {

using schedule::Algorithm;
using schedule::Call;

namespace {

/// Compares all parameters on which a schedule depends. Of reduction operators only avg differs, by its division.
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
  // If an operation in flight holds the oldest plan, a new plan replaces it in the cache.
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
  plan->algorithm = nullptr;  // not in the cache until it is complete
  plan->schedule.clear();
  plan->arrivals.clear();
  plan->results.clear();
  ++built_;
  algorithm.build_into(shape_, call, rank_, plan->schedule);
  if (plan->schedule.scratch_bytes > room_.scratch_bytes || plan->schedule.slots > room_.slots) return nullptr;
  if (finds_arrivals_) find_arrivals(plan->schedule, call.in_place, plan->arrivals);
  if (schedule::reduces(call.collective)) find_results(plan->schedule, call.in_place, plan->results);
  plan->used = ++clock_;
  if (!irregular) {
    plan->call = call;
    plan->algorithm = &algorithm;
  }
  return plan;
}

}  // namespace hmc::collectives
