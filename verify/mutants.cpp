#include "verify/mutants.hpp"

#include "collectives/schedule/algorithms/algorithms.hpp"
#include "verify/cases.hpp"
#include "verify/checker.hpp"
#include "verify/replay.hpp"

namespace hmc::verify {

namespace {

using schedule::Schedule;
using schedule::Step;
using schedule::StepBuffer;
using schedule::StepKind;

bool carries(const Step& step) {
  return step.bytes > 0 && step.kind != StepKind::wait && step.kind != StepKind::flush_local;
}

bool allows(const std::vector<Step>& steps, std::size_t i, Mistake mistake, std::size_t ranks, std::uint64_t element,
            bool ordered) {
  const Step& step = steps[i];
  switch (mistake) {
    case Mistake::dropped_step: return step.kind != StepKind::wait && step.kind != StepKind::flush_local;
    case Mistake::dropped_wait: return step.kind == StepKind::wait;
    case Mistake::dropped_flush: return step.kind == StepKind::flush_local;
    case Mistake::early_step: return i > 0;
    case Mistake::shifted_from: return carries(step) && step.kind != StepKind::scale;
    case Mistake::shifted_to:
    case Mistake::longer: return carries(step);
    case Mistake::shorter: return carries(step) && step.bytes >= element;
    case Mistake::swapped_peer: return (step.kind == StepKind::put || step.kind == StepKind::get) && ranks > 2;
    case Mistake::swapped_slot: return step.kind == StepKind::put;
    case Mistake::swapped_order: return step.kind == StepKind::reduce && ordered;
    case Mistake::swapped_inputs:
      return step.kind == StepKind::fold && ordered && step.inputs > 1 && step.bytes > 0 &&
             step.from_buffer == StepBuffer::scratch;
  }
  return false;
}

/// Swaps the first two inputs of a fold, through scratch that no other step uses.
void swap_fold_inputs(Schedule& schedule, std::size_t i) {
  const Step fold = schedule.steps[i];
  const std::uint64_t first = fold.from, second = fold.from + fold.stride(), aside = schedule.scratch_bytes;
  schedule.scratch_bytes += fold.bytes;
  const auto copy = [&](std::uint64_t from, std::uint64_t to) {
    Step step;
    step.kind = StepKind::copy;
    step.from_buffer = step.to_buffer = StepBuffer::scratch;
    step.from = from;
    step.to = to;
    step.bytes = fold.bytes;
    return step;
  };
  schedule.steps.insert(schedule.steps.begin() + static_cast<std::ptrdiff_t>(i),
                        {copy(first, aside), copy(second, first), copy(aside, second)});
}

void apply(Schedule& schedule, std::size_t i, Mistake mistake, std::size_t rank, std::size_t ranks,
           std::uint64_t element, std::mt19937_64& random) {
  std::vector<Step>& steps = schedule.steps;
  Step& step = steps[i];
  const auto shift_by_element = [&](std::uint64_t& at) {
    at = at >= element && random() % 2 == 0 ? at - element : at + element;
  };
  switch (mistake) {
    case Mistake::dropped_step:
    case Mistake::dropped_wait:
    case Mistake::dropped_flush: steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(i)); break;
    case Mistake::early_step: std::swap(steps[i], steps[i - 1]); break;
    case Mistake::shifted_from: shift_by_element(step.from); break;
    case Mistake::shifted_to: shift_by_element(step.to); break;
    case Mistake::shorter: step.bytes -= element; break;
    case Mistake::longer: step.bytes += element; break;
    case Mistake::swapped_peer: {
      const std::uint32_t was = step.peer;
      while (step.peer == was || step.peer == rank) step.peer = static_cast<std::uint32_t>(random() % ranks);
      break;
    }
    case Mistake::swapped_slot: step.slot = step.slot > 0 && random() % 2 == 0 ? step.slot - 1 : step.slot + 1; break;
    case Mistake::swapped_order: step.reversed = !step.reversed; break;
    case Mistake::swapped_inputs: swap_fold_inputs(schedule, i); break;
  }
}

}  // namespace

const char* name_of(Mistake mistake) {
  constexpr const char* names[mistake_count] = {"dropped step", "dropped wait", "dropped flush", "early step",
                                                "shifted from", "shifted to",   "shorter",       "longer",
                                                "swapped peer", "swapped slot", "swapped order", "swapped inputs"};
  return names[static_cast<int>(mistake)];
}

std::optional<std::string> mutate(std::vector<Schedule>& schedules, Mistake mistake, std::uint64_t element_bytes,
                                  bool ordered, std::mt19937_64& random) {
  struct StepIndex {
    std::size_t rank, step;
  };
  std::vector<StepIndex> places;
  for (std::size_t rank = 0; rank < schedules.size(); ++rank)
    for (std::size_t i = 0; i < schedules[rank].steps.size(); ++i)
      if (allows(schedules[rank].steps, i, mistake, schedules.size(), element_bytes, ordered))
        places.push_back({rank, i});
  if (places.empty()) return std::nullopt;
  const StepIndex at = places[random() % places.size()];
  std::string text = "rank " + std::to_string(at.rank) + " step " + std::to_string(at.step) + " (" +
                     text_of(schedules[at.rank].steps[at.step]) + "): " + name_of(mistake);
  apply(schedules[at.rank], at.step, mistake, at.rank, schedules.size(), element_bytes, random);
  return text;
}

namespace {

constexpr int executions = 30;

class MutantTester {
 public:
  MutantTester(std::uint64_t seed, unsigned thin) : random_(seed), thin_(thin) {}

  void test_case(const Case& subject) {
    // Replay needs memory for each byte of data.
    if (subject.call_of(0).count > 10000) return;
    // The first cases of each algorithm are always used, until one of its errors is detected.
    if (refuted_any_ && random_() % thin_ != 0) return;
    const auto right = subject.build();
    if (const auto wrong = execute(subject, right)) report_.wrong_executions.push_back(subject.text() + ": " + *wrong);
    for (int i = 0; i < mistake_count; ++i) plant(subject, right, static_cast<Mistake>(i));
  }

  bool refuted_any() const { return refuted_any_; }
  void next_algorithm() {
    refuted_any_ = false;
    ++report_.algorithms;
  }
  MutantReport& report() { return report_; }

 private:
  using Schedules = std::vector<schedule::Schedule>;

  std::optional<std::string> execute(const Case& subject, const Schedules& schedules) {
    for (int i = 0; i < executions; ++i)
      if (const auto wrong = replay(subject, schedules, random_)) return wrong;
    return std::nullopt;
  }

  void plant(const Case& subject, const Schedules& right, Mistake mistake) {
    Schedules mutant = right;
    const schedule::Call call = subject.call_of(0);
    const auto text = mutate(mutant, mistake, call.element_bytes, subject.in_rank_order(), random_);
    if (!text) return;
    MistakeCount& count = report_.mistakes[static_cast<std::size_t>(mistake)];
    ++count.made;
    if (check(subject, mutant)) {
      ++count.refuted;
      refuted_any_ = true;
    } else if (const auto wrong = execute(subject, mutant)) {
      ++count.missed;
      if (report_.missed.size() < 10) report_.missed.push_back(subject.text() + ": " + *text + ": " + *wrong);
    } else if (++count.harmless == 1) {
      report_.harmless.push_back(subject.text() + ": " + *text);
    }
  }

  std::mt19937_64 random_;
  unsigned thin_;
  bool refuted_any_ = false;
  MutantReport report_;
};

}  // namespace

MutantReport test_mutants(const std::string& only, std::uint64_t seed, unsigned thin) {
  MutantTester tester(seed, thin);
  for (const schedule::Algorithm& algorithm : schedule::algorithms()) {
    const std::string name = std::string(name_of(algorithm.collective)) + ":" + std::string(algorithm.name);
    if (name.find(only) == std::string::npos) continue;
    tester.next_algorithm();
    for (int size = 2; size <= 9; ++size)
      for_each_case(algorithm, size, Effort::quick, [&](const Case& subject) { tester.test_case(subject); });
    if (!tester.refuted_any()) tester.report().never_refuted.push_back(name);
  }
  return tester.report();
}

}  // namespace hmc::verify
