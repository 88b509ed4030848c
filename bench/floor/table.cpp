#include "bench/floor/table.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>

namespace hmc::floor {

namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// The slowest rank's time; the same on all.
double slowest(Bare& bare, double mine) {
  Shared& shared = bare.shared();
  shared.lines[bare.rank()].seconds.value = mine;
  bare.barrier();
  double most = 0;
  for (int rank = 0; rank < shared.ranks(); ++rank) most = std::max(most, shared.lines[rank].seconds.value);
  bare.barrier();
  return most;
}

constexpr double longest_row_ns = 4e9;

/// Nanoseconds per call.
double time_loop(Bare& bare, const Row& row, const Loop& loop) {
  if (!row.before) {
    loop(std::max(1, row.times / 10));  // warm
    bare.barrier();
    const std::int64_t start = now_ns();
    loop(row.times);
    return slowest(bare, static_cast<double>(now_ns() - start) / row.times);
  }
  std::vector<double> calls;
  for (int i = 0; i < row.times + 1; ++i) {
    row.before(i);
    bare.barrier();
    const std::int64_t start = now_ns();
    loop(1);
    if (i > 0) calls.push_back(static_cast<double>(now_ns() - start));
  }
  bare.barrier();
  return slowest(bare, median(std::move(calls)));
}

std::string show(double ns) {
  char text[32];
  std::snprintf(text, sizeof text, ns < 1000 ? "%.1f ns" : "%.2f us", ns < 1000 ? ns : ns / 1000);
  return text;
}

struct Times {
  std::vector<std::vector<double>> bare;  // by contestant, by round
  std::vector<double> hmc;
};

Times run(Bare& bare, const Row& row, int rounds) {
  Times times;
  times.bare.resize(row.bare.size());
  const std::int64_t start = now_ns();
  for (int round = -1; round < rounds; ++round) {  // the first one warms up
    // On a busy machine fewer rounds are made; rank 0's clock decides for all.
    if (round > 4 && bare.broadcast(static_cast<double>(now_ns() - start)) > longest_row_ns) break;
    const auto keep = [&](std::vector<double>& list, double value) {
      if (round >= 0) list.push_back(value);
    };
    if (round % 2 != 0) keep(times.hmc, time_loop(bare, row, row.hmc));  // alternate which one is first
    for (std::size_t i = 0; i < row.bare.size(); ++i) keep(times.bare[i], time_loop(bare, row, row.bare[i].loop));
    if (round % 2 == 0) keep(times.hmc, time_loop(bare, row, row.hmc));
  }
  return times;
}

/// True if the limit is met.
bool print(const Row& row, const Times& times, bool all) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < times.bare.size(); ++i)
    if (median(times.bare[i]) < median(times.bare[best])) best = i;
  const Verdict verdict(row.limit, times.bare[best], times.hmc);
  // Of the quiet rounds: the ratio without the effect of other work on the machine.
  const double quiet = quantile(times.hmc, 0.1) / quantile(times.bare[best], 0.1);
  std::printf("| %-27s | %10s | %10s | %6.2f | %6.2f | %-22s | %s\n", row.name.c_str(),
              show(median(times.bare[best])).c_str(), show(median(times.hmc)).c_str(), verdict.ratio, quiet,
              verdict.text.c_str(), row.bare[best].name.c_str());
  for (std::size_t i = 0; all && i < times.bare.size() && times.bare.size() > 1; ++i)
    std::printf("|   %-40s %10s\n", row.bare[i].name.c_str(), show(median(times.bare[i])).c_str());
  std::fflush(stdout);
  return verdict.kept;
}

}  // namespace

int measure(Bare& bare, const std::vector<Row>& rows, const Settings& settings) {
  if (bare.rank() == 0)
    std::printf("| %-27s | %10s | %10s | %6s | %6s | %-22s | %s\n", "median of rounds", "bare", "HMC", "ratio", "quiet",
                "limit", "best bare form");
  int missed = 0;
  for (const Row& row : rows) {
    const Times times = run(bare, row, settings.rounds);
    if (bare.rank() == 0 && !print(row, times, settings.all)) ++missed;
  }
  return missed;
}

}  // namespace hmc::floor
