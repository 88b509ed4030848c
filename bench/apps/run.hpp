// The work of a rank: each job is verified, then measured. `Library` is the class of hmc.cpp or mpi.cpp:
//   rank() size() version() settings() barrier() broadcast() gather() allgather() alltoall() alltoallv() allreduce()
//   reserve(bytes): memory for the next allocate<T>(count); release(): frees it. close()
//   Team split(colour); Halo(library, faces, mode); Buckets(library, layers, mode); Atomics(library, bytes)
//   lacks(program, mode): why it has no such mode; empty if it has
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/apps/common/job.hpp"
#include "bench/apps/common/split.hpp"
#include "bench/apps/common/stamps.hpp"
#include "bench/apps/fft.hpp"
#include "bench/apps/sort.hpp"
#include "bench/apps/stencil.hpp"
#include "bench/apps/table.hpp"
#include "bench/apps/training.hpp"
#include "bench/kit/lines.hpp"

namespace apps {

template <typename Library> class Run {
 public:
  Run(Library& library, const Arguments& arguments) : library_(library), arguments_(arguments) {
    if (library.size() > 64) throw std::invalid_argument("at most 64 ranks");
    if (library.rank() == 0) lines_.emplace(arguments.setup.output, arguments.setup.name, library.size());
  }

  void run() {
    describe();
    for (const Job& job : arguments_.jobs) run(job);
  }

 private:
  void describe() {
    const std::array<double, 2> place = bench::own_place();
    std::vector<double> places(place.size() * static_cast<std::size_t>(library_.size()));
    library_.gather(place.data(), places.data(), sizeof place);
    if (!lines_) return;
    lines_->describe(library_, places);
    lines_->end();
  }

  void run(const Job& job) {
    if (const std::string why = library_.lacks(job); !why.empty()) {
      if (!lines_) return;
      begin(job);
      lines_->text("lacks", why);
      lines_->end();
      return;
    }
    if (job.program == "stencil2d")
      run(job, Stencil<Library>(library_, job, 2));
    else if (job.program == "stencil3d")
      run(job, Stencil<Library>(library_, job, 3));
    else if (job.program == "sort")
      run(job, SampleSort<Library>(library_, job));
    else if (job.program == "training")
      run(job, Training<Library>(library_, job));
    else if (job.program == "fft2d")
      run(job, Fft<Library>(library_, job, 2));
    else if (job.program == "fft3d")
      run(job, Fft<Library>(library_, job, 3));
    else if (job.program == "table")
      run(job, HashTable<Library>(library_, job));
    else
      throw std::invalid_argument("there is no program " + job.program);
    library_.barrier();
    library_.release();
  }

  template <typename Program> void run(const Job& job, Program program) {
    verify(job, program);
    if (arguments_.verify_only) {
      if (!lines_) return;
      begin(job);
      lines_->whole("verified", 1);
      lines_->end();
      return;
    }
    Stamps stamps;
    const std::size_t block = steps_of_block(program, stamps);
    stamps.clear();
    Stamps alone;
    stamps.reserve(4 * blocks * block, blocks * block);
    alone.reserve(0, blocks * block);
    long long crossed = 0;
    for (std::size_t i = 0; i < blocks; ++i) {
      crossed -= bench::loopback_bytes();
      library_.barrier();
      for (std::size_t step = 0; step < block; ++step) stamps.step([&] { program.step(&stamps); });
      library_.barrier();
      crossed += bench::loopback_bytes();
      for (std::size_t step = 0; step < block; ++step) alone.step([&] { program.step(nullptr); });
    }
    const auto calls = gathered(stamps.calls());
    const auto steps = gathered(stamps.steps()), steps_alone = gathered(alone.steps());
    if (!lines_) return;
    Both figures = exchanges_of(calls, blocks * block);
    const StepTime whole = step_time_of(steps, block), computing = step_time_of(steps_alone, block);
    figures.median.total = whole.median;
    figures.mean.total = whole.mean;
    figures.median.compute = computing.median;
    figures.mean.compute = computing.mean;
    begin(job);
    for (const auto& [suffix, one] : {std::pair{"_p50", figures.median}, std::pair{"_mean", figures.mean}}) {
      const auto number = [&, end = suffix](const char* name, double us) {
        lines_->number(name + std::string(end), us);
      };
      number("total", one.total);
      number("compute", one.compute);
      number("exposed", one.exposed());
      number("exchange", one.exchange);
      number("wait", one.wait);
      number("rest", one.rest);
    }
    lines_->whole("steps", static_cast<long long>(blocks * block));
    lines_->whole("loopback_bytes", crossed);
    lines_->end();
  }

  template <typename Program> void verify(const Job& job, Program& program) {
    program.reset();
    constexpr int steps = 3;
    Stamps stamps;
    for (int step = 0; step < steps; ++step) program.step(&stamps);
    if (!program.is_right(steps))
      throw std::runtime_error("rank " + std::to_string(library_.rank()) + ": " + job.program + "/" + job.mode + ":" +
                               std::to_string(job.size) + " differs from the serial computation");
    library_.barrier();
  }

  /// Steps that take the job's time, by rank 0's clock. Also warms up: by 42 steps, unless they take too long.
  /// Libraries choose methods, register memory and connect in the first calls.
  template <typename Program> std::size_t steps_of_block(Program& program, Stamps& stamps) {
    std::uint64_t steps = 0;
    for (std::uint64_t tried = 2; steps == 0; tried *= 4) {
      library_.barrier();
      const std::int64_t begin = now_ns();
      for (std::uint64_t step = 0; step < tried; ++step) program.step(&stamps);
      const double elapsed_s = bench::ns_since(begin) * 1e-9, time = arguments_.setup.cell_seconds;
      if ((elapsed_s > time / 20 && tried >= 32) || elapsed_s > 2 * time || tried >= 512) {
        const double fit = time / (2 * blocks) * static_cast<double>(tried) / elapsed_s;
        steps = static_cast<std::uint64_t>(std::clamp(fit, 2.0, 2000.0));
      }
      stamps.clear();
      library_.broadcast(&steps, sizeof steps);
    }
    return steps;
  }

  template <typename T> std::vector<std::vector<T>> gathered(const std::vector<T>& mine) {
    const auto ranks = static_cast<std::size_t>(lines_ ? library_.size() : 0);
    std::vector<T> all(ranks * mine.size());
    library_.gather(mine.data(), all.data(), mine.size() * sizeof(T));
    std::vector<std::vector<T>> by_rank(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank)
      by_rank[rank].assign(all.begin() + static_cast<std::ptrdiff_t>(rank * mine.size()),
                           all.begin() + static_cast<std::ptrdiff_t>((rank + 1) * mine.size()));
    return by_rank;
  }

  void begin(const Job& job) {
    lines_->begin();
    lines_->text("program", job.program);
    lines_->text("mode", job.mode);
    lines_->whole("size", job.size);
  }

  static constexpr std::size_t blocks = 5;

  Library& library_;
  const Arguments& arguments_;
  std::optional<bench::Lines> lines_;  // rank 0 only
};

}  // namespace apps
