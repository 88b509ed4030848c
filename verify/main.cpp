// hmc-verify: proves the schedules of every algorithm, or prints a counterexample.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <limits>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "collectives/schedule/algorithms/algorithms.hpp"
#include "runtime/base/usage.hpp"
#include "verify/cases.hpp"
#include "verify/checker.hpp"
#include "verify/mutants.hpp"

namespace {

using namespace hmc::verify;
using Clock = std::chrono::steady_clock;

struct VerifyOptions {
  bool quick = false, list = false;
  unsigned threads = std::max(1U, std::thread::hardware_concurrency());
  std::string only;
  int size = 0, up_to = 4096;
  double limit = usual_limit;
  bool mutants = false;
  std::uint64_t seed = 1;
  unsigned thin = 1;
};

/// The share of all combinations that was checked, by the size of the team.
struct Coverage {
  static constexpr int last_of[] = {20, 64, std::numeric_limits<int>::max()};
  int smallest = std::numeric_limits<int>::max(), largest = 0;
  std::size_t cases = 0, combinations = 0;
};

struct ResultRow {
  const schedule::Algorithm* algorithm = nullptr;
  std::size_t cases = 0, steps = 0, skipped = 0, omitted = 0;
  int largest = 0;              ///< the largest team that was proved with data
  std::vector<int> unproved{};  ///< team sizes at which every case with data was skipped
  double seconds = 0;
  std::string wrong{};  ///< the smallest team's first counterexample
  int wrong_at = 0;
};

std::string name_of(const schedule::Algorithm& algorithm) {
  return fmt::format("{}:{}", name_of(algorithm.collective), algorithm.name);
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

class Verification {
 public:
  Verification(const VerifyOptions& options) : options_(options) {
    const Effort effort = options.quick ? Effort::quick : Effort::full;
    for (const schedule::Algorithm& algorithm : schedule::algorithms()) {
      if (name_of(algorithm).find(options.only) == std::string::npos) continue;
      rows_.push_back({.algorithm = &algorithm});
    }
    // The largest teams first, so that all cores have work until the end.
    std::vector<int> sizes = options.size > 0 ? std::vector<int>{options.size} : sizes_for(effort);
    for (auto size = sizes.rbegin(); size != sizes.rend(); ++size)
      for (ResultRow& row : rows_)
        if (*size <= options.up_to) jobs_.push_back({&row, *size});
  }

  void work() {
    for (std::size_t i = next_++; i < jobs_.size(); i = next_++) check_size(*jobs_[i].row, jobs_[i].size);
  }
  const std::vector<ResultRow>& rows() const { return rows_; }
  const auto& coverage() const { return coverage_; }

 private:
  struct SizeJob {
    ResultRow* row;
    int size;
  };

  void check_size(ResultRow& row, int size) {
    ResultRow part{.algorithm = row.algorithm};
    const auto begin = Clock::now();
    const auto prove = [&](const Case& subject) {
      if (!part.wrong.empty()) return;
      const auto schedules = subject.build();
      ++part.cases;
      // Cases without data have few steps.
      if (subject.has_count()) part.largest = size;
      if (const auto found = check(subject, schedules, &part.steps)) {
        part.wrong = text_of(subject, schedules, *found);
        part.wrong_at = size;
      }
    };
    for_each_case_within(
        options_.limit, *row.algorithm, size, options_.quick ? Effort::quick : Effort::full, prove,
        [&](const Case&) { ++part.skipped; }, [&](const Case&) { ++part.omitted; });
    part.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    const std::lock_guard lock(mutex_);
    Coverage& range = coverage_[size <= Coverage::last_of[0] ? 0 : size <= Coverage::last_of[1] ? 1 : 2];
    range.smallest = std::min(range.smallest, size);
    range.largest = std::max(range.largest, size);
    range.cases += part.cases;
    range.combinations += part.cases + part.skipped + part.omitted;
    row.cases += part.cases;
    row.steps += part.steps;
    row.skipped += part.skipped;
    if (part.skipped > 0 && part.largest == 0) row.unproved.push_back(size);
    row.seconds += part.seconds;
    row.largest = std::max(row.largest, part.largest);
    if (!part.wrong.empty() && (row.wrong.empty() || part.wrong_at < row.wrong_at)) {
      row.wrong = part.wrong;
      row.wrong_at = part.wrong_at;
    }
  }

  const VerifyOptions& options_;
  std::vector<ResultRow> rows_;
  std::array<Coverage, std::size(Coverage::last_of)> coverage_{};
  std::vector<SizeJob> jobs_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;
};

/// The skipped cases per algorithm, and the team sizes without any case with data.
void report_skipped(const std::vector<ResultRow>& rows, double limit) {
  std::size_t skipped = 0;
  for (const ResultRow& row : rows) skipped += row.skipped;
  if (skipped == 0) return;
  fmt::print("\n{} cases of more than 64 ranks were skipped as too expensive (--limit {:.3g}):\n", skipped, limit);
  for (const ResultRow& row : rows) {
    if (row.skipped == 0) continue;
    std::vector<int> sizes = row.unproved;
    std::sort(sizes.begin(), sizes.end());
    fmt::print("  {:<40} {:>8}{}\n", name_of(*row.algorithm), row.skipped,
               sizes.empty() ? "" : fmt::format(", including all cases with data at {} ranks", fmt::join(sizes, ", ")));
  }
}

int report(const Verification& run, double limit, double seconds) {
  const std::vector<ResultRow>& rows = run.rows();
  fmt::print("{:<42} {:>8} {:>12} {:>8} {:>8} {:>8}\n", "algorithm", "cases", "steps", "ranks", "skipped", "seconds");
  std::size_t cases = 0, steps = 0, skipped = 0, wrong = 0;
  // An algorithm without a checked case with data isn't proved.
  const auto is_proved = [](const ResultRow& row) { return row.largest > 0; };
  for (const ResultRow& row : rows) {
    fmt::print("{:<42} {:>8} {:>12} {:>8} {:>8} {:>8.2f}{}\n", name_of(*row.algorithm), row.cases, row.steps,
               row.largest, row.skipped, row.seconds, row.wrong.empty() ? "" : "  WRONG");
    cases += row.cases;
    steps += row.steps;
    skipped += row.skipped;
    if (!row.wrong.empty() || !is_proved(row)) ++wrong;
  }
  report_skipped(rows, limit);
  for (const ResultRow& row : rows) {
    if (!row.wrong.empty()) fmt::print("\nWRONG {}", row.wrong);
    if (!is_proved(row))
      fmt::print("\n{}: no case with data {}\n", name_of(*row.algorithm), row.skipped > 0 ? "was checked" : "applies");
  }
  fmt::print("\nchecked cases, of all combinations of counts, roots, forms, segments, radices and nodes:\n");
  for (const Coverage& range : run.coverage())
    if (range.combinations > 0)
      fmt::print("  {:>4} to {:>4} ranks: {:>7} of {:>7} ({:.1f} %)\n", range.smallest, range.largest, range.cases,
                 range.combinations,
                 100.0 * static_cast<double>(range.cases) / static_cast<double>(range.combinations));
  fmt::print("\n{} algorithms, {} cases, {} steps in {:.1f} s: {}\n", rows.size(), cases, steps, seconds,
             wrong > 0     ? fmt::format("{} not proved", wrong)
             : skipped > 0 ? fmt::format("all proved, except {} skipped cases", skipped)
                           : "all proved");
  return wrong == 0 && !rows.empty() ? 0 : 1;
}

/// Returns 0 if every error was detected or is harmless, and each kind and each algorithm has a detected error.
int report_mutants(const VerifyOptions& options) {
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
  fmt::print("\nharmless: accepted by the proof, and never wrong when executed. The first of each:\n");
  for (const std::string& text : report.harmless) fmt::print("  {}\n", text);
  for (const std::string& text : report.missed) fmt::print("MISSED {}\n", text);
  for (const std::string& text : report.wrong_executions) fmt::print("WRONG WHEN EXECUTED {}\n", text);
  for (const std::string& text : report.never_refuted) fmt::print("NO MISTAKE REFUTED IN {}\n", text);
  fmt::print("\n{} algorithms: {}\n", report.algorithms,
             missed > 0   ? "MISTAKES WERE MISSED"
             : !all_tried ? "no mistake was missed, but too few were planted (--thin)"
                          : "no mistake was missed");
  return missed == 0 && all_tried ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  VerifyOptions options;
  CLI::App app(
      "Proves that schedules are correct: results, order, races, waits, bounds. 'ranks' is the largest team "
      "proved with data.",
      "hmc-verify");
  app.add_flag("--quick", options.quick, "check fewer sizes and variants");
  app.add_flag("--list", options.list, "print the algorithms' names");
  app.add_option("--only", options.only, "check algorithms whose collective:algorithm contains this");
  app.add_option("--size", options.size, "check teams of this size only");
  app.add_option("--up-to", options.up_to, "check no larger teams");
  app.add_option("--threads", options.threads, "number of threads; default: one per core")->check(CLI::Range(1, 1024));
  app.add_option("--limit", options.limit,
                 "the cost limit of an algorithm's cases of one size above 64 (1e9 is about a second)");
  app.add_flag("--mutants", options.mutants, "plant mistakes in every algorithm, and check that they're refuted");
  app.add_option("--seed", options.seed, "seed of the mistakes");
  app.add_option("--thin", options.thin, "plant in one of this many cases, and in each algorithm's first")
      ->check(CLI::Range(1U, 1000000U));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    return hmc::base::usage_error("hmc-verify", error.what(), app.help());
  }
  if (options.list) {
    for (const auto& algorithm : schedule::algorithms()) fmt::print("{}\n", name_of(algorithm));
    return 0;
  }
  if (options.mutants) return report_mutants(options);
  const auto begin = Clock::now();
  Verification run(options);
  std::vector<std::thread> others;
  for (unsigned i = 1; i < options.threads; ++i) others.emplace_back([&] { run.work(); });
  run.work();
  for (std::thread& other : others) other.join();
  return report(run, options.limit, std::chrono::duration<double>(Clock::now() - begin).count());
}
