// Building one rank's schedule: the cost of a collective between nodes before its first message.
#include <benchmark/benchmark.h>

#include <string>

#include "collectives/schedule/algorithms/algorithms.hpp"

namespace {

using namespace hmc::collectives::schedule;
using hmc::CollectiveKind;

Call call_of(CollectiveKind collective) {
  Call call;
  call.collective = collective;
  call.count = 4096;
  call.element_bytes = 4;
  return call;
}

/// Range 0 is the team's size; eight ranks per node.
void build_one_rank(benchmark::State& state, const Algorithm& algorithm) {
  const Shape shape{static_cast<int>(state.range(0)), 8};
  const Call call = call_of(algorithm.collective);
  Schedule schedule;
  for (auto _ : state) {
    schedule.clear();
    algorithm.build_into(shape, call, shape.size / 2, schedule);
    benchmark::DoNotOptimize(schedule.steps.data());
  }
  state.counters["steps"] = static_cast<double>(schedule.steps.size());
}

}  // namespace

int main(int argc, char** argv) {
  for (const Algorithm& algorithm : algorithms()) {
    const std::string name = std::string(name_of(algorithm.collective)) + ":" + std::string(algorithm.name);
    benchmark::RegisterBenchmark(name.c_str(),
                                 [&algorithm](benchmark::State& state) { build_one_rank(state, algorithm); })
        ->Arg(8)
        ->Arg(64)
        ->Arg(1024);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
