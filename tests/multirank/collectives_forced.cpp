// Algorithms forced by the environment.
#include <gtest/gtest.h>
#include <chrono>
#include <hmc/hmc.hpp>
#include <thread>

#include "bootstrap/inproc.hpp"
#include "collectives/select/selector.hpp"
#include "job/job_core.hpp"
#include "runtime/base/env.hpp"

namespace hmc {
namespace {

using namespace std::chrono_literals;

TEST(Algorithms, unknown_algorithm_is_rejected_with_the_valid_names) {
  for (const char* const setting :
       {"allreduce:nothing", "nothing:ring", "allreduce", "allreduce:ring,,", "barrier:ring"}) {
    try {
      const collectives::Selector selector(setting);
      ADD_FAILURE() << setting;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_config);
      EXPECT_NE(std::string(error.what()).find("allreduce: recursive_doubling"), std::string::npos) << error.what();
    }
  }
}

TEST(Algorithms, environment_forces_algorithms) {
  auto places = bootstrap::make_inproc(2, 1);
  std::vector<std::thread> threads;
  for (auto& place : places) {
    threads.emplace_back([&place] {
      base::Env env = base::Env::from_process();
      env.coll = "broadcast:binomial,allreduce:ring";
      Runtime runtime(std::make_unique<job::JobCore>(std::move(place), env));
      std::uint64_t value = 3;
      runtime.world().allreduce(&value, &value, 1, DType::u64, sum);
      EXPECT_EQ(value, 6U);
      EXPECT_EQ(runtime.world().calls_by_algorithm("allreduce", "ring"), 1U);
      EXPECT_EQ(runtime.world().calls_by_algorithm("broadcast", "binomial"), 0U);
      runtime.close();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Algorithms, different_forced_algorithms_are_rejected) {
  auto places = bootstrap::make_inproc(2, 1);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      base::Env env = base::Env::from_process();
      env.coll = rank == 0 ? "" : "allreduce:ring";
      env.timeout = 4s;
      EXPECT_THROW(Runtime(std::make_unique<job::JobCore>(std::move(places[static_cast<std::size_t>(rank)]), env)),
                   Error);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace hmc
