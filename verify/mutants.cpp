#include "verify/mutants.hpp"

#include "collectives/schedule/algorithms/algorithms.hpp"
#include "verify/checker.hpp"
#include "verify/plan.hpp"
#include "verify/replay.hpp"

namespace hmc::verify {
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
