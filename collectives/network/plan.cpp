#include "collectives/network/plan.hpp"

#include <algorithm>
#include <optional>
#include <span>

namespace hmc::collectives {

using schedule::Algorithm;
using schedule::Call;
using schedule::Step;
using schedule::StepBuffer;

namespace {

/// Below this size a direct receive costs more than the copy.
constexpr std::uint64_t shortest_bytes = 32 * 1024;
/// Upper limits for the number of stored ranges (each message and each copy searches all of them), and of checked
/// ranges (each is compared with all steps).
constexpr std::size_t most = 16;
constexpr int most_checked = 64;

bool ranges_overlap(std::uint64_t a, std::uint64_t a_bytes, std::uint64_t b, std::uint64_t b_bytes) noexcept {
  return a < b + b_bytes && b < a + a_bytes;
}

std::uint64_t bytes_read(const Step& step) noexcept {
  return step.kind == schedule::StepKind::fold && step.inputs > 0 ? (step.inputs - 1) * step.stride() + step.bytes
                                                                  : step.bytes;
}

bool reads(const Step& step) noexcept {
  return step.kind == schedule::StepKind::put || step.kind == schedule::StepKind::copy ||
         step.kind == schedule::StepKind::reduce || step.kind == schedule::StepKind::fold;
}
/// True if the step writes memory of this rank. A put writes memory of its target.
bool writes(const Step& step) noexcept {
  return step.kind == schedule::StepKind::copy || step.kind == schedule::StepKind::reduce ||
         step.kind == schedule::StepKind::fold || step.kind == schedule::StepKind::scale ||
         step.kind == schedule::StepKind::get;
}

/// True if the step accesses that range of a buffer.
bool touches(const Step& step, StepBuffer buffer, std::uint64_t at, std::uint64_t bytes) noexcept {
  if (step.bytes == 0) return false;
  return (reads(step) && step.from_buffer == buffer && ranges_overlap(step.from, bytes_read(step), at, bytes)) ||
         (writes(step) && step.to_buffer == buffer && ranges_overlap(step.to, step.bytes, at, bytes));
}

/// True if the step forwards the bytes that `copy` copies, or a part of them.
bool forwards(const Step& step, const Step& copy) noexcept {
  return step.kind == schedule::StepKind::put && step.bytes > 0 && step.from_buffer == StepBuffer::scratch &&
         step.from >= copy.from && step.from + step.bytes <= copy.from + copy.bytes;
}

/// Step `at` is a copy. Returns the first step that reads the copied bytes: this copy, or a put that forwards them.
/// None in these cases:
/// - any other step accesses the source or the destination of the copy;
/// - a wait lies between the steps that read the bytes: after the wait the source may hold another message.
std::optional<std::size_t> first_reader(const std::vector<Step>& steps, std::size_t at) {
  const Step& copy = steps[at];
  std::size_t first = at, last = at;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (i == at) continue;
    if (forwards(steps[i], copy)) {
      first = std::min(first, i);
      last = std::max(last, i);
    } else if (touches(steps[i], StepBuffer::scratch, copy.from, copy.bytes) ||
               touches(steps[i], StepBuffer::output, copy.to, copy.bytes)) {
      return {};
    }
  }
  const auto readers = std::span(steps).subspan(first, last - first);
  if (std::ranges::any_of(readers, [](const Step& step) { return step.kind == schedule::StepKind::wait; })) return {};
  return first;
}

bool is_long_copy_to_output(const Step& step) noexcept {
  return step.kind == schedule::StepKind::copy && step.from_buffer == StepBuffer::scratch &&
         step.to_buffer == StepBuffer::output && step.bytes >= shortest_bytes;
}

/// The copy of the sum that step `at` computes. None in these cases:
/// - another step after `at` accesses the sum;
/// - a step between the two accesses the copy's output;
/// - an earlier put may still read that output.
std::optional<std::size_t> only_copy_of(const std::vector<Step>& steps, std::size_t at) {
  const Step& sum = steps[at];
  std::optional<std::size_t> found;
  for (std::size_t i = at + 1; i < steps.size(); ++i) {
    if (!touches(steps[i], StepBuffer::scratch, sum.to, sum.bytes)) continue;
    if (found || !is_long_copy_to_output(steps[i]) || steps[i].from != sum.to || steps[i].bytes != sum.bytes) return {};
    found = i;
  }
  if (!found) return {};
  const Step& copy = steps[*found];
  for (std::size_t i = 0; i < *found; ++i)
    if ((i > at || steps[i].kind == schedule::StepKind::put) &&
        touches(steps[i], StepBuffer::output, copy.to, copy.bytes))
      return {};
  return found;
}

}  // namespace

void find_arrivals(const schedule::Schedule& schedule, bool in_place, std::vector<Arrival>& arrivals) {
  arrivals.clear();
  const std::vector<Step>& steps = schedule.steps;
  // In place, the input is a part of the output. If a step reads the input, the output must not be written early.
  const auto reads_input = [](const Step& step) {
    return reads(step) && step.bytes > 0 && step.from_buffer == StepBuffer::input;
  };
  if (in_place && std::ranges::any_of(steps, reads_input)) return;
  int checked = 0;
  for (std::size_t i = 0; i < steps.size() && arrivals.size() < most && checked < most_checked; ++i) {
    const Step& copy = steps[i];
    if (!is_long_copy_to_output(copy)) continue;
    ++checked;
    if (const auto first = first_reader(steps, i)) arrivals.push_back({*first, copy.from, copy.to, copy.bytes});
  }
  std::ranges::sort(arrivals, {}, &Arrival::step);
}

void find_results(const schedule::Schedule& schedule, bool in_place, std::vector<Result>& results) {
  results.clear();
  if (in_place) return;
  const std::vector<Step>& steps = schedule.steps;
  int checked = 0;
  for (std::size_t i = 0; i < steps.size() && results.size() < most && checked < most_checked; ++i) {
    if (steps[i].kind != schedule::StepKind::reduce || steps[i].to_buffer != StepBuffer::scratch ||
        steps[i].bytes < shortest_bytes)
      continue;
    ++checked;
    if (const auto copy = only_copy_of(steps, i)) results.push_back({i, *copy, steps[*copy].to});
  }
}

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
  if (call.collective != CollectiveKind::alltoall) return;
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
  algorithm.build_into(shape_, call, rank_, plan->schedule);
  if (plan->schedule.scratch_bytes > room_.scratch_bytes || plan->schedule.slots > room_.slots) return nullptr;
  if (finds_arrivals_ && !algorithm.gets) find_arrivals(plan->schedule, call.in_place, plan->arrivals);
  // Other ranks may get a sum from scratch.
  if (reduces(call.collective) && !algorithm.gets) find_results(plan->schedule, call.in_place, plan->results);
  plan->used = ++clock_;
  if (!irregular) {
    plan->call = call;
    plan->algorithm = &algorithm;
  }
  return plan;
}

}  // namespace hmc::collectives
