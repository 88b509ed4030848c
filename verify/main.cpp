// hmc-verify: proves every algorithm's schedules, or shows where one is wrong.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "verify/checker.hpp"
#include "verify/mutants.hpp"
#include "verify/plan.hpp"

namespace {

using namespace hmc::verify;
using Clock = std::chrono::steady_clock;

struct Options {
  bool quick = false, list = false;
  unsigned threads = std::max(1U, std::thread::hardware_concurrency());
  std::string only;
  int size = 0, up_to = 4096;
  double limit = 2e8;
  bool mutants = false;
  std::uint64_t seed = 1;
  unsigned thin = 1;
};

struct Row {
  const schedule::Algorithm* algorithm = nullptr;
  std::size_t cases = 0, steps = 0, skipped = 0;
  int largest = 0;
  double seconds = 0;
  std::string wrong{};  ///< the smallest team's first counterexample
  int wrong_at = 0;
};

std::string name_of(const schedule::Algorithm& algorithm) {
  return fmt::format("{}:{}", schedule::name_of(algorithm.collective), algorithm.name);
}

std::string text_of(const Case& subject, const std::vector<schedule::Schedule>& schedules,
                    const Counterexample& found) {
  std::string text = fmt::format("{}\n  rank {}: {}\n", subject.text(), found.rank, found.what);
  if (found.rank < 0 || found.step < 0) return text;
  const auto& steps = schedules[static_cast<std::size_t>(found.rank)].steps;
  const long end = std::min(found.step + 3, static_cast<long>(steps.size()));
  for (long i = std::max(0L, found.step - 4); i < end; ++i)
    text += fmt::format("  {} step {:3}: {}\n", i == found.step ? ">" : " ", i,
                        hmc::verify::text_of(steps[static_cast<std::size_t>(i)]));
  return text;
}

class Run {
 public:
  Run(const Options& options) : options_(options) {
    const Effort effort = options.quick ? Effort::quick : Effort::full;
    for (const schedule::Algorithm& algorithm : schedule::algorithms()) {
      if (name_of(algorithm).find(options.only) == std::string::npos) continue;
      rows_.push_back({.algorithm = &algorithm});
    }
    // The largest teams first: no core is left alone with one at the end.
    std::vector<int> sizes = options.size > 0 ? std::vector<int>{options.size} : sizes_for(effort);
    for (auto size = sizes.rbegin(); size != sizes.rend(); ++size)
      for (Row& row : rows_)
        if (*size <= options.up_to) jobs_.push_back({&row, *size});
  }

  void work() {
    for (std::size_t i = next_++; i < jobs_.size(); i = next_++) check_size(*jobs_[i].row, jobs_[i].size);
  }
  const std::vector<Row>& rows() const { return rows_; }

 private:
  struct Job {
    Row* row;
    int size;
  };

  void check_size(Row& row, int size) {
    Row part{.algorithm = row.algorithm};
    const auto begin = Clock::now();
    for_each_case(*row.algorithm, size, options_.quick ? Effort::quick : Effort::full, [&](const Case& subject) {
      if (!part.wrong.empty()) return;
      if (size > 64 && cost_of(subject) > options_.limit) {
        ++part.skipped;
        return;
      }
      const auto schedules = subject.build();
      ++part.cases;
      part.largest = size;
      if (const auto found = check(subject, schedules, &part.steps)) {
        part.wrong = text_of(subject, schedules, *found);
        part.wrong_at = size;
      }
    });
    part.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    const std::lock_guard lock(mutex_);
    row.cases += part.cases;
    row.steps += part.steps;
    row.skipped += part.skipped;
    row.seconds += part.seconds;
    row.largest = std::max(row.largest, part.largest);
    if (!part.wrong.empty() && (row.wrong.empty() || part.wrong_at < row.wrong_at)) {
      row.wrong = part.wrong;
      row.wrong_at = part.wrong_at;
    }
  }

  const Options& options_;
  std::vector<Row> rows_;
  std::vector<Job> jobs_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;
};

int report(const std::vector<Row>& rows, double seconds) {
  fmt::print("{:<42} {:>8} {:>12} {:>8} {:>8}\n", "algorithm", "cases", "steps", "ranks", "seconds");
  std::size_t cases = 0, steps = 0, wrong = 0;
  for (const Row& row : rows) {
    fmt::print("{:<42} {:>8} {:>12} {:>8} {:>8.2f}{}\n", name_of(*row.algorithm), row.cases, row.steps, row.largest,
               row.seconds, row.wrong.empty() ? "" : "  WRONG");
    cases += row.cases;
    steps += row.steps;
    // An algorithm that no case applies to hasn't been shown right.
    if (!row.wrong.empty() || row.cases + row.skipped == 0) ++wrong;
  }
  for (const Row& row : rows) {
    if (!row.wrong.empty()) fmt::print("\nWRONG {}", row.wrong);
    if (row.cases + row.skipped == 0) fmt::print("\n{}: no case applies\n", name_of(*row.algorithm));
  }
  fmt::print("\n{} algorithms, {} cases, {} steps in {:.1f} s: {}\n", rows.size(), cases, steps, seconds,
             wrong == 0 ? "all proved" : fmt::format("{} not proved", wrong));
  return wrong == 0 && !rows.empty() ? 0 : 1;
}

/// 0 where every mistake was refuted or is none, and there was one of each kind, and in each algorithm.
int report_mutants(const Options& options) {
  const MutantReport report = test_mutants(options.only, options.seed, options.thin);
  fmt::print("{:<16} {:>8} {:>8} {:>9} {:>7}\n", "mistake", "made", "refuted", "harmless", "missed");
  std::size_t missed = report.wrong_executions.size();
  bool all_tried = report.algorithms > 0 && report.never_refuted.empty();
  for (int i = 0; i < mistake_count; ++i) {
    const MistakeCount& count = report.mistakes[static_cast<std::size_t>(i)];
    fmt::print("{:<16} {:>8} {:>8} {:>9} {:>7}\n", hmc::verify::name_of(static_cast<Mistake>(i)), count.made,
               count.refuted, count.harmless, count.missed);
    missed += count.missed;
    all_tried = all_tried && (count.refuted > 0 || !options.only.empty());
  }
  fmt::print("\nharmless: proved right all the same, and never wrong when executed. The first of each:\n");
  for (const std::string& text : report.harmless) fmt::print("  {}\n", text);
  for (const std::string& text : report.missed) fmt::print("MISSED {}\n", text);
  for (const std::string& text : report.wrong_executions) fmt::print("WRONG WHEN EXECUTED {}\n", text);
  for (const std::string& text : report.never_refuted) fmt::print("NOTHING REFUTED IN {}\n", text);
  fmt::print("\n{} algorithms: {}\n", report.algorithms,
             missed > 0   ? "MISTAKES WERE MISSED"
             : !all_tried ? "no mistake was missed, but too few were planted (--thin)"
                          : "no mistake was missed");
  return missed == 0 && all_tried ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Proves that schedules are right: results, order, races, waits, bounds. 'ranks' is the largest team.");
  app.add_flag("--quick", options.quick, "fewer sizes and variants");
  app.add_flag("--list", options.list, "the algorithms' names");
  app.add_option("--only", options.only, "a part of collective:algorithm");
  app.add_option("--size", options.size, "this size of team alone");
  app.add_option("--up-to", options.up_to, "no larger teams");
  app.add_option("--threads", options.threads, "default: one per core")->check(CLI::Range(1, 1024));
  app.add_option("--limit", options.limit, "skip cases of more than 64 ranks that cost more (about 1e9 a second)");
  app.add_flag("--mutants", options.mutants, "plant mistakes in every algorithm, and see that they're refuted");
  app.add_option("--seed", options.seed, "of the mistakes");
  app.add_option("--thin", options.thin, "plant in one of so many cases")->check(CLI::Range(1U, 1000000U));
  CLI11_PARSE(app, argc, argv);
  if (options.list) {
    for (const auto& algorithm : schedule::algorithms()) fmt::print("{}\n", name_of(algorithm));
    return 0;
  }
  if (options.mutants) return report_mutants(options);
  const auto begin = Clock::now();
  Run run(options);
  std::vector<std::thread> others;
  for (unsigned i = 1; i < options.threads; ++i) others.emplace_back([&] { run.work(); });
  run.work();
  for (std::thread& other : others) other.join();
  return report(run.rows(), std::chrono::duration<double>(Clock::now() - begin).count());
}
