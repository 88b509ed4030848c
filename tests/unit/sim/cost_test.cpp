// The closed forms (Algorithm::cost) against the replay of the schedules, under the same parameters.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "collectives/schedule/algorithms/algorithms.hpp"
#include "collectives/schedule/cost.hpp"
#include "sim/replay.hpp"

namespace hmc::sim {
namespace {

using schedule::Algorithm;
using schedule::Call;
using schedule::CostParameters;
using schedule::Shape;

const CostParameters a_network{};
/// TCP over loopback: messages are expensive, and almost all latency is CPU time.
const CostParameters loopback{{96, 31, 28, 0.043}, {500, 2200, 2900, 0.18}, 0.036, 0.043};

Call call_of(CollectiveKind collective, std::uint64_t bytes) {
  Call call;
  call.collective = collective;
  call.type = DType::f32;
  call.element_bytes = 4;
  call.count = collective == CollectiveKind::barrier ? 0 : bytes / 4;
  return call;
}

double closed_form(const Algorithm& algorithm, const Shape& shape, const Call& call, const CostParameters& parameters) {
  schedule::CriticalPath path(shape, parameters);
  algorithm.cost(path, call);
  return path.cost().ns;
}
double replayed(const Algorithm& algorithm, const Shape& shape, const Call& call, const CostParameters& parameters) {
  const ScheduleSource build = [&](int rank, schedule::Schedule& out) { algorithm.build_into(shape, call, rank, out); };
  return static_cast<double>(replay(shape, build, Model(parameters)).time) / 1000;
}

const Shape shapes[] = {{2, 1},  {3, 1}, {4, 1},   {8, 1},       {13, 1},      {16, 1},     {64, 1},
                        {4, 2},  {8, 4}, {8, 8},   {12, 3},      {16, 8},      {24, 8},     {64, 8},
                        {60, 4}, {5, 5}, {32, 16}, {2, 2, true}, {5, 5, true}, {8, 8, true}};
constexpr std::uint64_t sizes[] = {8, 256, 4096, 65536, 1 << 20};

TEST(Cost, closed_form_is_close_to_the_replay) {
  const bool tell = std::getenv("HMC_TEST_TELL") != nullptr;
  for (const Algorithm& algorithm : schedule::algorithms()) {
    double least = 1e9, most = 0;
    std::string least_at, most_at;
    for (const CostParameters* parameters : {&a_network, &loopback})
      for (const Shape& shape : shapes)
        for (const std::uint64_t bytes : sizes) {
          if ((algorithm.hierarchical && shape.per_node == 1) || algorithm.gets != shape.shares_memory) continue;
          if (has_blocks(algorithm.collective) && bytes > 65536) continue;
          const Call call = call_of(algorithm.collective, bytes);
          // Skipped: some ranks' slices are empty, so messages are omitted.
          if (call.count > 0 && call.count < static_cast<std::uint64_t>(shape.size) &&
              !has_blocks(algorithm.collective))
            continue;
          const double ratio =
              closed_form(algorithm, shape, call, *parameters) / replayed(algorithm, shape, call, *parameters);
          const std::string at = std::to_string(shape.size) + "/" + std::to_string(shape.per_node) + " " +
                                 std::to_string(bytes) + (parameters == &loopback ? " loopback" : "");
          if (ratio < least) least = ratio, least_at = at;
          if (ratio > most) most = ratio, most_at = at;
        }
    if (tell)
      std::printf("%-16s %-24s %.2f (%s)  %.2f (%s)\n", name_of(algorithm.collective),
                  std::string(algorithm.name).c_str(), least, least_at.c_str(), most, most_at.c_str());
    EXPECT_GT(least, 0.55) << name_of(algorithm.collective) << ":" << algorithm.name << " " << least_at;
    EXPECT_LT(most, 2.4) << name_of(algorithm.collective) << ":" << algorithm.name << " " << most_at;
  }
}

TEST(Cost, cheapest_by_closed_form_is_close_to_the_cheapest_by_replay) {
  const bool tell = std::getenv("HMC_TEST_TELL") != nullptr;
  for (const CostParameters* parameters : {&a_network, &loopback})
    for (int c = 0; c < collective_count; ++c) {
      const auto collective = static_cast<CollectiveKind>(c);
      double worst = 1, product = 0;
      int cases = 0;
      std::string at;
      for (const Shape& shape : shapes)
        for (const std::uint64_t bytes : sizes) {
          if (has_blocks(collective) && bytes > 65536) continue;
          const Call call = call_of(collective, bytes);
          const Algorithm *chosen = nullptr, *best = nullptr;
          double least_form = 0, least_replay = 0, chosen_replay = 0;
          for (const Algorithm& algorithm : schedule::algorithms()) {
            if (!algorithm.applies(shape, call) || (algorithm.hierarchical && shape.per_node == 1)) continue;
            const double form = closed_form(algorithm, shape, call, *parameters);
            const double real = replayed(algorithm, shape, call, *parameters);
            if (chosen == nullptr || form < least_form) chosen = &algorithm, least_form = form, chosen_replay = real;
            if (best == nullptr || real < least_replay) best = &algorithm, least_replay = real;
          }
          const double regret = chosen_replay / least_replay;
          product += std::log(regret);
          ++cases;
          if (regret <= worst) continue;
          worst = regret;
          at = std::to_string(shape.size) + "/" + std::to_string(shape.per_node) + " " + std::to_string(bytes) + ": " +
               std::string(chosen->name) + " instead of " + std::string(best->name);
        }
      if (tell)
        std::printf("%-16s %s worst %.2f, mean %.3f (%s)\n", name_of(collective),
                    parameters == &loopback ? "loopback" : "network", worst, std::exp(product / cases), at.c_str());
      EXPECT_LT(worst, 1.5) << name_of(collective) << " " << at;
      EXPECT_LT(std::exp(product / cases), 1.03) << name_of(collective);
    }
}

}  // namespace
}  // namespace hmc::sim
