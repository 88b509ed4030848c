// The inputs of the selection at start: rows that must be equal on all ranks, and parameters from the machine's cache.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include <hmc/hmc.hpp>

#include "bootstrap/inproc.hpp"
#include "collectives/select/parameters.hpp"
#include "collectives/team/team_object.hpp"
#include "job/job_core.hpp"
#include "runtime/base/deadline.hpp"

namespace hmc {
namespace {

using collectives::MachineKey;
using collectives::schedule::CostParameters;

struct TemporaryFolder {
  TemporaryFolder() {
    char name[] = "/tmp/select-test-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path + "/" + name) << text;
    return path + "/" + name;
  }
  std::string path;
};

/// Each rank's error text, or "".
std::vector<std::string> start(int ranks, int nodes, const std::function<void(base::Env&, int)>& settings,
                               const std::function<void(Runtime&)>& use) {
  auto places = bootstrap::make_inproc(ranks, nodes);
  std::vector<std::string> outcomes(places.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < places.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        base::Env env = base::Env::from_process();
        env.log = base::LogLevel::error;
        settings(env, static_cast<int>(rank));
        Runtime runtime(std::make_unique<job::JobCore>(std::move(places[rank]), env));
        use(runtime);
        runtime.close();
      } catch (const Error& error) {
        outcomes[rank] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

CostParameters parameters_of(Runtime& runtime) { return runtime.world().object()->selector().parameters(); }

TEST(SelectionStart, different_rows_are_rejected_by_every_rank) {
  const TemporaryFolder folder;
  const std::string one = folder.write("one.json", R"([{"collective": "allreduce", "algorithm": "ring"}])");
  const std::string other = folder.write("other.json", R"([{"collective": "allreduce", "algorithm": "swing"}])");
  for (const std::string& of_rank_2 : {other, std::string()})
    for (const std::string& text : start(
             3, 1, [&](base::Env&env, int rank) { env.coll_file = rank == 2 ? of_rank_2 : one; }, [](Runtime&) {}))
      EXPECT_NE(text.find("HMC_COLL_FILE"), std::string::npos) << text;
  // Ranks may read the same rows from different paths.
  const std::string copy = folder.write("copy.json", R"([{"collective": "allreduce", "algorithm": "ring"}])");
  for (const std::string& text : start(
           2, 1, [&](base::Env&env, int rank) { env.coll_file = rank == 0 ? one : copy; }, [](Runtime&) {}))
    EXPECT_EQ(text, "");
}

TEST(SelectionStart, missing_or_invalid_file_is_reported) {
  const TemporaryFolder folder;
  const std::string wrong = folder.write("wrong.json", R"([{"collective": "allreduce", "algorithm": "rung"}])");
  for (const std::string& file : {folder.path + "/nothing.json", folder.path, std::string("/dev/zero"), wrong})
    for (const std::string& text : start(
             2, 1, [&](base::Env&env, int) { env.coll_file = file; }, [](Runtime&) {})) {
      EXPECT_NE(text.find("HMC_COLL_FILE=" + file), std::string::npos) << text;
      if (file == wrong) {
        EXPECT_NE(text.find("row 1"), std::string::npos) << text;
      }
    }
}

TEST(SelectionStart, all_ranks_use_the_cached_parameters) {
  const TemporaryFolder folder;
  CostParameters peculiar;
  peculiar.network = {1234, 567, 89, 0.25};
  const MachineKey here = MachineKey::here("tcp", true);
  ASSERT_TRUE(collectives::write_whole(here.file(folder.path), collectives::text_of(peculiar, here)));
  for (const int nodes : {2, 3})
    for (const std::string& text : start(
             3, nodes, [&](base::Env&env, int) { env.cache = folder.path; },
             [&](Runtime&runtime) { EXPECT_EQ(parameters_of(runtime), peculiar); }))
      EXPECT_EQ(text, "");
}

TEST(SelectionStart, unusable_cache_does_no_harm) {
  const TemporaryFolder folder;
  folder.write(std::filesystem::path(MachineKey::here("tcp", true).file(folder.path)).filename(), "{\"hmc_model\": ");
  for (const std::string& cache : {folder.path, std::string(), std::string("/proc/nowhere")}) {
    std::vector<CostParameters> seen(2);
    for (const std::string& text : start(
             2, 2, [&](base::Env&env, int) { env.cache = cache, env.wait = "sleep"; },
             [&](Runtime&runtime) { seen[static_cast<std::size_t>(runtime.rank())] = parameters_of(runtime); }))
      EXPECT_EQ(text, "");
    EXPECT_EQ(seen[0], collectives::builtin_parameters(true));
    EXPECT_EQ(seen[1], seen[0]);
  }
}

TEST(SelectionStart, measured_parameters_are_agreed_on_and_cached) {
  const TemporaryFolder folder;
  const MachineKey here = MachineKey::here("tcp", true);
  std::string text, why_not;
  std::vector<CostParameters> seen(3);
  // Measurements of a busy machine are rejected: repeat until the machine is idle for a moment.
  const auto deadline = base::Deadline::after(std::chrono::seconds(100));
  while (!collectives::read_file(here.file(folder.path), text) && !deadline.expired()) {
    for (const std::string& outcome : start(
             3, 2, [&](base::Env&env, int) { env.cache = folder.path, env.wait = "spin"; },
             [&](Runtime&runtime) { seen[static_cast<std::size_t>(runtime.rank())] = parameters_of(runtime); }))
      EXPECT_EQ(outcome, "");
    EXPECT_EQ(seen[1], seen[0]);
    EXPECT_EQ(seen[2], seen[0]);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    EXPECT_EQ(seen[0], collectives::builtin_parameters(true)) << "a sanitizer slows down the measured calls";
    return;
#endif
  }
  EXPECT_GT(seen[0].network.per_byte, 0);
  CostParameters kept;
  ASSERT_TRUE(collectives::read_parameters(text, &here, kept, why_not)) << why_not;
  EXPECT_EQ(kept, seen[0]);
}

TEST(SelectionStart, parameters_of_a_busy_machine_are_not_cached) {
  const TemporaryFolder folder;
  std::vector<std::jthread> others;  // two for each core, so that no rank has a core of its own
  for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i)
    others.emplace_back([](const std::stop_token& stop) {
      while (!stop.stop_requested()) continue;
    });
  for (const std::string& text : start(
           2, 2, [&](base::Env&env, int) { env.cache = folder.path, env.wait = "spin"; },
           [&](Runtime&runtime) { EXPECT_EQ(parameters_of(runtime), collectives::builtin_parameters(true)); }))
    EXPECT_EQ(text, "");
  others.clear();
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
}

TEST(SelectionStart, one_node_reads_and_measures_nothing) {
  const TemporaryFolder folder;
  for (const std::string& text : start(
           2, 1, [&](base::Env&env, int) { env.cache = folder.path + "/none"; },
           [&](Runtime&runtime) { EXPECT_EQ(parameters_of(runtime), collectives::builtin_parameters(true)); }))
    EXPECT_EQ(text, "");
  EXPECT_FALSE(std::filesystem::exists(folder.path + "/none"));
}

}  // namespace
}  // namespace hmc
