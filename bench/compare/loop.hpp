// The loop that every contestant runs: the same buffers, order, dirtying, timing and checks.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/kit/exchange.hpp"
#include "bench/kit/figures.hpp"
#include "bench/kit/lines.hpp"
#include "bench/kit/setup.hpp"

namespace bench {

struct Times {
  std::vector<double> call_ns;  // of each pass, for one call of its batch
  std::vector<double> read_ns;  // of each pass, if this rank has a result to read
  long long loopback_bytes = 0;
};

/// One rank's times of a cell, in ns: of the call, of reading the result, and of both in one pass.
enum Figure : std::size_t { mean, p50, read_mean, read_p50, both_p50, figure_count };
using Figures = std::array<double, figure_count>;

inline Figures figures_of(const Times& times) {
  std::vector<double> both = times.call_ns;
  for (std::size_t i = 0; i < std::min(both.size(), times.read_ns.size()); ++i) both[i] += times.read_ns[i];
  return {mean_of(times.call_ns), median_of(times.call_ns), mean_of(times.read_ns), median_of(times.read_ns),
          median_of(both)};
}

/// The difference of two consecutive readings of the clock. It is subtracted from every time.
inline double clock_cost_ns() {
  std::vector<double> costs(2001);
  for (double& cost : costs) {
    const std::int64_t before = now_ns();
    cost = ns_since(before);
  }
  return median_of(std::move(costs));
}

/// Contestant, the interface of each peer's source:
///   int rank() const, size() const;
///   std::string version() const, settings() const;
///   std::string lacks(Operation) const;       empty, or the reason why it lacks the operation
///   std::byte *source(), *result(), *target();
///     source: a rank's input (broadcast: also its result); result: output of the other collectives, and of get;
///     target: memory that another rank's put writes and its get reads
///   void put(int peer, size_t bytes);         source -> peer's target, visible there on return
///   void get(int peer, size_t bytes);         peer's target -> result, complete
///   void barrier(); void broadcast(size_t bytes) of rank 0; void allgather(size_t bytes);
///   void allreduce(size_t bytes) of floats, sum; and so gather, scatter, alltoall, reduce, reduce_scatter, scan,
///   exscan, allgatherv, alltoallv (these two with counts that are all `bytes`),
///     with rank 0 as the root, `bytes` of a block (Cell)
///   void begin(Operation, size_t bytes), wait();   the non-blocking form, for --overlap
///   void expose();                            untimed: synchronizes this rank's accesses to target with the others'
///   void close();                             collective
template <typename Contestant> class Loop {
 public:
  Loop(Contestant& contestant, const Setup& setup)
      : it_(contestant), setup_(setup), clock_cost_(clock_cost_ns()), start_(now_ns()) {
    if (it_.rank() == 0) lines_.emplace(setup.output, setup.name, it_.size());
  }

  void run() {
    const std::array<double, 2> place = own_place();
    const std::vector<double> places = gather(place.data(), place.size());
    if (lines_) {
      lines_->describe(it_, places);
      lines_->number("clock_ns", clock_cost_);
      lines_->end();
    }
    for (const Cell& cell : setup_.cells) run(cell);
  }

 private:
  static constexpr bool starts = requires(Contestant & it) { it.wait(); };

  void run(const Cell& cell) {
    if (const std::string why = it_.lacks(cell.operation); !why.empty()) return print(cell, "lacks", why);
    // The last cells of a slow contestant get one pass each. If they were skipped, the same cells would always be
    // missing.
    const bool hurried = agree(ns_since(start_) > setup_.limit_seconds * 1e9 ? 1 : 0) != 0;
    std::byte* const in = cell.operation == Operation::get ? it_.target() : it_.source();
    std::byte* const out = cell.operation == Operation::put ? it_.target() : it_.result();
    data_ = exchange_of(cell.operation, it_.rank(), it_.size(), in, out, cell.bytes, float_sums(it_.rank()));
    if (!everyone(validate(cell))) return print(cell, "error", "a rank got wrong bytes or left a barrier early");
    if (setup_.stream) return stream(cell);
    if constexpr (starts) {
      if (setup_.overlap) return overlap(cell);
    }

    const std::size_t batch = hurried ? 1 : choose_batch(cell);
    const std::size_t passes = hurried ? 1 : warm_up(cell, batch);
    Times times;
    times.call_ns.reserve(passes);
    it_.barrier();
    const long long loopback_before = loopback_bytes();
    for (std::size_t i = 0; i < passes; ++i) pass(cell, batch, times);
    it_.barrier();
    times.loopback_bytes = loopback_bytes() - loopback_before;
    if (!everyone(data_.matches(call_))) return print(cell, "error", "a rank got wrong bytes in the timed loop");
    print(cell, batch, hurried, times);
  }

  // Calls one after the other for the cell's time. The mean includes all waits for a core, on a machine with other
  // work.
  void stream(const Cell& cell) {
    const double budget = setup_.cell_seconds * 1e9;
    const std::int64_t begin = now_ns();
    double spent = 0;
    double done = 0;
    for (std::uint64_t step = 1; agree(spent < budget ? 1 : 0) != 0;) {
      for (std::uint64_t i = 0; i < step; ++i) call(cell);
      done += static_cast<double>(step);
      spent = ns_since(begin);
      const double fit = done * budget / 20 / spent;
      step = agree(static_cast<std::uint64_t>(std::clamp(fit, 1.0, 2.0 * static_cast<double>(step))));
    }
    if (!begin_line(cell)) return;
    lines_->number("us_mean", spent / done / 1e3);
    lines_->end();
  }

  // OSU's rule: the computation takes as long as the non-blocking form alone. Only allreduce, broadcast, allgather and
  // alltoall of MPIs and HMC have a non-blocking form here.
  void overlap(const Cell& cell) {
    const double blocking = timed([&] { blocking_call(cell); });
    const double pure = timed([&] { call(cell); });
    const Work work(pure);
    double compute = 0;
    double overall = 0;
    if (setup_.sleep_seconds == 0) {
      compute = timed([&] { work.run(); });
      overall = timed([&] {
        it_.begin(cell.operation, cell.bytes);
        work.run();
        it_.wait();
      });
    } else {  // the cost of begin and wait alone
      double slept = 0;
      overall = timed(
          [&] {
            it_.begin(cell.operation, cell.bytes);
            const std::int64_t begin = now_ns();
            std::this_thread::sleep_for(std::chrono::duration<double>(setup_.sleep_seconds));
            slept = ns_since(begin);
            it_.wait();
          },
          &slept);
    }
    if (!begin_line(cell)) return;
    lines_->number("us_blocking", blocking);
    lines_->number("us_pure", pure);
    lines_->number("us_compute", compute);
    lines_->number("us_overall", overall);
    lines_->end();
  }

  // The mean time of one iteration in us, averaged over the ranks. A barrier precedes each iteration. `other_ns`: a
  // part of the last iteration that isn't counted.
  template <typename Iteration> double timed(Iteration iteration, const double* other_ns = nullptr) {
    const double budget = setup_.cell_seconds * 1e9 / 4;
    double spent = 0;
    double timed_ns = 0;
    std::uint64_t done = 0;
    std::uint64_t step = 3;
    for (bool warms_up = true; step > 0; warms_up = false) {
      const std::int64_t begin = now_ns();
      for (std::uint64_t i = 0; i < step; ++i) {
        it_.barrier();
        const std::int64_t start = now_ns();
        iteration();
        if (!warms_up) timed_ns += ns_since(start) - (other_ns == nullptr ? 0 : *other_ns) - clock_cost_;
      }
      const double all = ns_since(begin);
      const double fit = std::clamp(budget / 10 * static_cast<double>(step) / all, 1.0, 1000.0);
      if (!warms_up) {
        done += step;
        spent += all;
      }
      step = agree(spent < budget ? static_cast<std::uint64_t>(fit) : 0);
    }
    const double mine = timed_ns / static_cast<double>(done) / 1e3;
    double sum = 0;
    for (const double one : gather(&mine, 1)) sum += one;
    return sum / static_cast<double>(ranks());
  }

  // ---- one pass: write the input, line up, call, read the result
  void pass(const Cell& cell, std::size_t batch, Times& times) {
    data_.write(++call_);
    if (one_sided(cell.operation)) it_.expose();
    it_.barrier();
    if (!one_sided(cell.operation) || it_.rank() == 0) {
      const std::int64_t begin = now_ns();
      for (std::size_t i = 0; i < batch; ++i) call(cell);
      const double ns = ns_since(begin);
      times.call_ns.push_back(std::max(0.0, ns - clock_cost_) / static_cast<double>(batch));
      if (cell.operation != Operation::put) read(times);
    }
    if (one_sided(cell.operation)) {
      it_.barrier();  // from here the target may access its memory
      it_.expose();
      if (cell.operation == Operation::put && it_.rank() == target_of(it_.size())) read(times);
    }
  }

  void call(const Cell& cell) {
    if constexpr (starts) {
      if (setup_.overlap) {
        it_.begin(cell.operation, cell.bytes);
        return it_.wait();
      }
    }
    blocking_call(cell);
  }

  void blocking_call(const Cell& cell) {
    switch (cell.operation) {
      case Operation::put: return it_.put(target_of(it_.size()), cell.bytes);
      case Operation::get: return it_.get(target_of(it_.size()), cell.bytes);
      case Operation::barrier: return it_.barrier();
      case Operation::broadcast: return it_.broadcast(cell.bytes);
      case Operation::allgather: return it_.allgather(cell.bytes);
      case Operation::allreduce: return it_.allreduce(cell.bytes);
      case Operation::gather: return it_.gather(cell.bytes);
      case Operation::scatter: return it_.scatter(cell.bytes);
      case Operation::alltoall: return it_.alltoall(cell.bytes);
      case Operation::reduce: return it_.reduce(cell.bytes);
      case Operation::reduce_scatter: return it_.reduce_scatter(cell.bytes);
      case Operation::scan: return it_.scan(cell.bytes);
      case Operation::exscan: return it_.exscan(cell.bytes);
      case Operation::allgatherv: return it_.allgatherv(cell.bytes);
      case Operation::alltoallv: return it_.alltoallv(cell.bytes);
    }
  }

  // The time to read the result, which also depends on the cache in which the library left it.
  void read(Times& times) {
    const std::int64_t begin = now_ns();
    data_.read();
    times.read_ns.push_back(std::max(0.0, ns_since(begin) - clock_cost_));
  }

  // ---- before anything is timed
  bool validate(const Cell& cell) {
    if (cell.operation == Operation::barrier) return validate_barrier();
    bool right = true;
    for (int i = 0; i < 2; ++i) {
      data_.poison();
      Times ignored;
      pass(cell, 1, ignored);
      right = data_.matches(call_) && right;
      it_.barrier();  // before the buffers are overwritten, all ranks have checked them
    }
    return right;
  }

  // One rank enters late; no rank may leave before that. All ranks of a machine share a clock.
  bool validate_barrier() {
    it_.barrier();
    if (it_.rank() == it_.size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    double moments[2] = {ns_since(0), 0};
    it_.barrier();
    moments[1] = ns_since(0);
    const std::vector<double> all = gather(moments, 2);
    double last_in = 0;
    double first_out = 1e300;
    for (std::size_t r = 0; r < ranks(); ++r) {
      last_in = std::max(last_in, all[2 * r]);
      first_out = std::min(first_out, all[2 * r + 1]);
    }
    return first_out >= last_in;
  }

  // ---- number of passes: OSU's counts, or fewer within the cell's time
  static std::size_t calls(const Cell& cell) { return cell.bytes <= 8192 ? 1000 : 100; }

  // Collectives with data are timed one by one, as in OSU. Operations that take nanoseconds are timed in batches.
  std::size_t choose_batch(const Cell& cell) {
    if (cell.operation != Operation::barrier && !(one_sided(cell.operation) && cell.bytes <= 8192)) return 1;
    Times times;
    for (int i = 0; i < 3; ++i) pass(cell, 1, times);
    const double one = std::max(1.0, times.call_ns.empty() ? 0 : times.call_ns.back());
    const double fit = setup_.cell_seconds * 1e9 / 20 / one;
    return agree(static_cast<std::uint64_t>(std::clamp(fit, 1.0, 50.0)));
  }

  // Warm-up passes: a tenth of OSU's count, or a fifth of the cell's time. Returns the number of passes to time.
  std::size_t warm_up(const Cell& cell, std::size_t batch) {
    const std::size_t wanted = std::max<std::size_t>(1, calls(cell) / 10 / batch);
    const double budget = setup_.cell_seconds * 1e9;
    std::size_t done = 0;
    for (std::size_t step = 1;; step *= 2) {
      const std::int64_t begin = now_ns();
      Times ignored;
      for (std::size_t i = 0; i < step; ++i) pass(cell, batch, ignored);
      done += step;
      const double spent = ns_since(begin);
      if (agree(done < wanted && spent < budget / 10 ? 1 : 0) != 0) continue;
      const double fit = std::max(3.0, budget / std::max(1.0, spent / static_cast<double>(step)));
      const auto most = static_cast<double>(std::max<std::size_t>(3, calls(cell) / batch));
      return agree(static_cast<std::uint64_t>(std::min(fit, most)));
    }
  }

  // ---- agreement between ranks, by the contestant's own collectives
  std::uint64_t agree(std::uint64_t of_rank_0) {
    std::memcpy(it_.source(), &of_rank_0, sizeof of_rank_0);
    it_.broadcast(sizeof of_rank_0);
    std::memcpy(&of_rank_0, it_.source(), sizeof of_rank_0);
    return of_rank_0;
  }

  std::vector<double> gather(const double* values, std::size_t count) {
    std::memcpy(it_.source(), values, count * sizeof(double));
    it_.allgather(count * sizeof(double));
    std::vector<double> all(count * ranks());
    std::memcpy(all.data(), it_.result(), all.size() * sizeof(double));
    return all;
  }

  bool everyone(bool mine) {
    const double verdict = mine ? 1 : 0;
    const std::vector<double> all = gather(&verdict, 1);
    return std::all_of(all.begin(), all.end(), [](double one) { return one == 1; });
  }

  // ---- output of rank 0
  bool begin_line(const Cell& cell) {
    if (lines_) lines_->begin(name_of(cell.operation), cell.bytes);
    return lines_.has_value();
  }

  void print(const Cell& cell, const char* key, const std::string& why) {
    if (!begin_line(cell)) return;
    lines_->text(key, why);
    lines_->end();
  }

  void print(const Cell& cell, std::size_t batch, bool hurried, const Times& times) {
    const Figures mine = figures_of(times);
    const std::vector<double> all = gather(mine.data(), mine.size());
    if (!begin_line(cell)) return;
    std::vector<Figures> timed(ranks());
    for (std::size_t i = 0; i < all.size(); ++i) timed[i / mine.size()][i % mine.size()] = all[i];
    if (cell.operation == Operation::put) {  // the target rank reads the result
      const Figures& target = timed[static_cast<std::size_t>(target_of(it_.size()))];
      timed[0][read_mean] = target[read_mean];
      timed[0][both_p50] = timed[0][p50] + target[read_p50];
    }
    timed.resize(one_sided(cell.operation) ? 1 : ranks());
    Figures sums{};
    double least = 1e300, most = 0;
    for (const Figures& one : timed) {
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += one[i];
      least = std::min(least, one[mean]);
      most = std::max(most, one[mean]);
    }
    const double per_us = 1e3 * static_cast<double>(timed.size());
    lines_->number("us_mean", sums[mean] / per_us);  // averages over the ranks, as OSU prints
    lines_->number("us_p50", sums[p50] / per_us);
    lines_->number("us_min", least / 1e3);  // of the ranks' means
    lines_->number("us_max", most / 1e3);
    lines_->number("us_read", sums[read_mean] / per_us);  // reading the result once, not part of us_mean
    lines_->number("us_both_mean", (sums[mean] + sums[read_mean]) / per_us);
    lines_->number("us_both_p50", sums[both_p50] / per_us);
    lines_->whole("loopback_bytes", times.loopback_bytes);
    lines_->whole("calls", static_cast<long long>(times.call_ns.size() * batch));
    lines_->whole("batch", static_cast<long long>(batch));
    if (hurried) lines_->whole("hurried", 1);
    lines_->end();
  }

  std::size_t ranks() const { return static_cast<std::size_t>(it_.size()); }

  Contestant& it_;
  const Setup& setup_;
  std::optional<Lines> lines_;  // of rank 0
  double clock_cost_;
  std::int64_t start_;
  Exchange data_;  // of the current cell
  int call_ = 0;
};

/// The whole work of a rank.
template <typename Contestant> int run_rank(Contestant& contestant, const Setup& setup) {
  if (setup.hello) {
    contestant.barrier();
  } else {
    if (setup.late_binding) bind_rank(setup.cpus, contestant.rank());
    Loop<Contestant>(contestant, setup).run();
  }
  contestant.close();
  return 0;
}

}  // namespace bench
