#include "verify/cases.hpp"

#include <algorithm>
#include <iterator>

namespace hmc::verify {

namespace {

/// The count of a pair of ranks: some are 0, some equal, most different.
std::uint64_t varied(std::uint64_t a, std::uint64_t b, std::uint64_t largest) {
  const std::uint64_t mixed = (a * 7 + b * 13 + 3) % 11;
  return mixed == 0 ? 0 : mixed == 1 ? largest : (a * 5 + b * 3) % (largest + 1);
}

std::vector<std::uint64_t> displacements_of(const std::vector<std::uint64_t>& counts, bool gaps) {
  std::vector<std::uint64_t> displacements;
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (gaps) at += i % 3;
    displacements.push_back(at);
    at += counts[i];
  }
  return displacements;
}

}  // namespace

Case::Case(const schedule::Algorithm& algorithm, schedule::Shape shape, const schedule::Call& call)
    : algorithm_(algorithm), shape_(shape), call_(call) {}

void Case::make_irregular(std::uint64_t largest, bool gaps) {
  const auto size = static_cast<std::size_t>(shape_.size);
  if (call_.collective != CollectiveKind::alltoall) {
    for (std::size_t r = 0; r < size; ++r) counts_.push_back(varied(r, 1, largest));
    if (gaps) displacements_ = displacements_of(counts_, true);
    call_.counts = counts_;
    call_.displacements = displacements_;
    return;
  }
  // In place, a rank's outgoing block is replaced by the incoming one, so the counts must be equal.
  const bool symmetric = call_.in_place;
  for (std::size_t me = 0; me < size; ++me) {
    Counts to, from;
    for (std::size_t r = 0; r < size; ++r) {
      to.push_back(symmetric ? varied(me + r, 1, largest) : varied(me, r, largest));
      from.push_back(symmetric ? varied(me + r, 1, largest) : varied(r, me, largest));
    }
    if (gaps) {
      sent_at_.push_back(displacements_of(to, true));
      received_at_.push_back(displacements_of(from, true));
    }
    sent_.push_back(std::move(to));
    received_.push_back(std::move(from));
  }
  call_.largest = largest;
}

bool Case::applies() const {
  for (const int rank : {0, shape_.size - 1})
    if (!algorithm_.applies(shape_, call_of(rank))) return false;
  return true;
}

schedule::Call Case::call_of(int rank) const {
  schedule::Call call = call_;
  if (sent_.empty()) return call;
  const auto r = static_cast<std::size_t>(rank);
  call.counts = sent_[r];
  call.receive_counts = received_[r];
  if (!sent_at_.empty()) {
    call.displacements = sent_at_[r];
    call.receive_displacements = received_at_[r];
  }
  return call;
}

std::vector<schedule::Schedule> Case::build() const {
  std::vector<schedule::Schedule> schedules(static_cast<std::size_t>(shape_.size));
  for (int rank = 0; rank < shape_.size; ++rank)
    algorithm_.build_into(shape_, call_of(rank), rank, schedules[static_cast<std::size_t>(rank)]);
  return schedules;
}

std::string Case::text() const {
  std::string text = std::string(name_of(call_.collective)) + ":" + std::string(algorithm_.name) + ", " +
                     std::to_string(shape_.size) + " ranks";
  if (shape_.per_node > 1) text += " (" + std::to_string(shape_.per_node) + " per node)";
  if (!counts_.empty() || !sent_.empty())
    text += ", irregular counts";
  else
    text += ", count " + std::to_string(call_.count);
  text += " x " + std::to_string(call_.element_bytes) + " B, root " + std::to_string(call_.root);
  if (!displacements_.empty() || !sent_at_.empty()) text += ", gaps";
  if (call_.in_place) text += ", in place";
  if (!call_.commutative) text += ", not commutative";
  if (call_.deterministic) text += ", deterministic";
  if (call_.op == Op::avg) text += ", avg";
  if (call_.segment_bytes > 0) text += ", segments of " + std::to_string(call_.segment_bytes) + " B";
  if (call_.radix > 0) text += ", radix " + std::to_string(call_.radix);
  return text;
}

namespace {

using schedule::Algorithm;
using schedule::Call;
using schedule::Shape;

enum class CountForm { uniform, irregular, gaps };

/// One variant of a call, without its count.
struct CallVariant {
  int per_node = 1;
  int root = 0;
  bool in_place = false;
  bool commutative = true;
  bool deterministic = false;
  Op op = Op::sum;
  CountForm form = CountForm::uniform;
  std::uint64_t segment_bytes = 0;
  int radix = 0;
};

/// Multiplies `variants` by the values of one field.
template <typename T> void vary(std::vector<CallVariant>& variants, T CallVariant::*field, std::vector<T> values) {
  std::vector<CallVariant> all;
  for (const CallVariant& variant : variants)
    for (const T& value : values) {
      all.push_back(variant);
      all.back().*field = value;
    }
  variants = std::move(all);
}

std::vector<CallVariant> variants_of(const Algorithm& algorithm, int size) {
  const CollectiveKind collective = algorithm.collective;
  std::vector<CallVariant> variants(1);
  if (collective == CollectiveKind::barrier) return variants;
  if (has_root(collective)) {
    std::vector<int> roots{0};
    if (size > 1) roots.push_back(size - 1);
    if (size > 2) roots.push_back((size + 1) / 2);
    vary(variants, &CallVariant::root, roots);
  }
  vary(variants, &CallVariant::in_place, {false, true});
  if (has_blocks(collective)) {
    vary(variants, &CallVariant::form, {CountForm::uniform, CountForm::irregular, CountForm::gaps});
    std::erase_if(variants, [&](const CallVariant& variant) {
      return variant.form == CountForm::gaps && collective == CollectiveKind::reduce_scatter;
    });
  }
  if (reduces(collective)) {
    std::vector<CallVariant> all = variants;
    vary(all, &CallVariant::commutative, {true, false});
    std::vector<CallVariant> other = variants;
    vary(other, &CallVariant::deterministic, {true});
    all.insert(all.end(), other.begin(), other.end());
    vary(other, &CallVariant::op, {Op::avg});
    all.insert(all.end(), other.begin(), other.end());
    vary(other, &CallVariant::deterministic, {false});
    all.insert(all.end(), other.begin(), other.end());
    variants = std::move(all);
  }
  // On many ranks many segments are expensive, and find the same errors as on few ranks.
  if (algorithm.tuned_by.segments)
    vary(variants, &CallVariant::segment_bytes,
         size <= 24 ? std::vector<std::uint64_t>{0, 16, 72} : std::vector<std::uint64_t>{0, 200});
  if (algorithm.tuned_by.radix) vary(variants, &CallVariant::radix, {0, 2, 3, 5});
  if (algorithm.hierarchical) vary(variants, &CallVariant::per_node, {1, 2, 3, 4, 8});
  return variants;
}

constexpr std::uint64_t huge = std::uint64_t{1} << 32;

std::vector<std::uint64_t> counts_for(CollectiveKind collective, int size) {
  if (collective == CollectiveKind::barrier) return {0};
  const auto n = static_cast<std::uint64_t>(size);
  std::vector<std::uint64_t> counts{0, 1, n > 1 ? n - 1 : 2};
  if (has_blocks(collective))
    counts.insert(counts.end(), {13, 37});
  else
    counts.insert(counts.end(), {97, 5 * n + 3});
  // Counts beyond 32 bits. The cost of a check doesn't depend on the number of bytes.
  if (size <= 9) counts.push_back(2 * huge + 7);
  return counts;
}

Call call_of(CollectiveKind collective, const CallVariant& variant, std::uint64_t count, std::uint32_t element_bytes) {
  Call call;
  call.collective = collective;
  call.element_bytes = element_bytes;
  call.count = count;
  call.root = variant.root;
  call.in_place = variant.in_place;
  call.commutative = variant.commutative;
  call.deterministic = variant.deterministic;
  call.op = variant.op;
  call.segment_bytes = variant.segment_bytes;
  call.radix = variant.radix;
  return call;
}

}  // namespace

std::vector<int> sizes_for(Effort effort) {
  std::vector<int> sizes;
  if (effort == Effort::quick) return {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 24, 31, 64, 129};
  for (int size = 1; size <= 64; ++size) sizes.push_back(size);
  for (const int size : {65, 96, 100, 127, 128, 129, 255, 256, 257, 509, 1000, 1024, 2047, 4096}) sizes.push_back(size);
  return sizes;
}

void for_each_case(const Algorithm& algorithm, int size, Effort effort, const std::function<void(const Case&)>& check,
                   const std::function<void(const Case&)>& omit) {
  const std::vector<CallVariant> variants = variants_of(algorithm, size);
  const int all_up_to = effort == Effort::full ? 20 : 6;
  const std::size_t some = size > 64 ? 1 : effort == Effort::full ? 6 : 2;
  // A prime stride spreads the chosen variants over all cases.
  constexpr std::size_t stride = 7919;
  std::size_t turn = static_cast<std::size_t>(size) * 5;
  for (const std::uint64_t count : counts_for(algorithm.collective, size)) {
    std::size_t checked = 0;
    const std::size_t first = turn;
    for (std::size_t i = 0; i < variants.size(); ++i) {
      const bool is_chosen = checked < some || size <= all_up_to;
      if (!is_chosen && !omit) break;
      if (is_chosen) ++turn;
      const std::size_t number = first + i;
      const CallVariant& chosen = variants[number * stride % variants.size()];
      // Too expensive: each of N ranks has N counts.
      if (chosen.form != CountForm::uniform && algorithm.collective == CollectiveKind::alltoall && size > 600) continue;
      const std::uint32_t element_bytes = number % 3 == 0 ? 4 : number % 3 == 1 ? 1 : 12;
      Call call = call_of(algorithm.collective, chosen, count, element_bytes);
      // A few segments find the same errors as many segments.
      if (count > huge) call.segment_bytes = count / 2;
      Case subject(algorithm, Shape{size, chosen.per_node, algorithm.gets}, call);
      if (chosen.form != CountForm::uniform) subject.make_irregular(count, chosen.form == CountForm::gaps);
      if (!subject.applies()) continue;
      if (!is_chosen) {
        omit(subject);
        continue;
      }
      check(subject);
      ++checked;
    }
  }
}

double cost_of(const Case& subject) {
  const int size = subject.shape().size;
  // A root may have far more steps than the others, so the busiest sampled rank counts only once.
  double busiest = 0, all = 0;
  const int ranks[] = {0, size / 3, (size + 1) / 2, size - 1};
  for (const int rank : ranks) {
    const schedule::Schedule one = schedule::build(subject.algorithm(), subject.shape(), subject.call_of(rank), rank);
    double steps = 0;
    for (const schedule::Step& step : one.steps)
      steps += step.kind == schedule::StepKind::fold ? 2.0 * step.inputs : 1.0;
    busiest = std::max(busiest, steps);
    all += steps;
  }
  const double others = (all - busiest) / (std::size(ranks) - 1);
  return (busiest + others * (size - 1)) * (300.0 + size / 3.0);
}

void for_each_case_within(double limit, const Algorithm& algorithm, int size, Effort effort,
                          const std::function<void(const Case&)>& check, const std::function<void(const Case&)>& skip,
                          const std::function<void(const Case&)>& omit) {
  double spent = 0;
  const auto check_within = [&](const Case& subject) {
    if (size > 64) {
      const double cost = cost_of(subject);
      if (spent + cost > limit) return skip(subject);
      spent += cost;
    }
    check(subject);
  };
  for_each_case(algorithm, size, effort, check_within, omit);
}

}  // namespace hmc::verify
