#include "bootstrap/detect/detect.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "test_job.hpp"

namespace hmc::bootstrap::test {
namespace {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

base::Env with(const Variables& variables) {
  thread_local const Variables* current = nullptr;
  current = &variables;
  return base::Env::from([](std::string_view name) -> std::optional<std::string> {
    const auto found = current->find(std::string(name));
    return found == current->end() ? std::nullopt : std::optional(found->second);
  });
}

Candidate candidate(const Variables& variables, const std::string& name) {
  for (const Candidate& each : candidates(with(variables))) {
    if (each.name == name) return each;
  }
  ADD_FAILURE() << "no candidate " << name;
  return {};
}

void expect_alone(const Variables& variables) {
  const auto bootstrap = detect(with(variables));
  EXPECT_EQ(bootstrap->rank(), 0);
  EXPECT_EQ(bootstrap->size(), 1);
  EXPECT_EQ(bootstrap->launcher(), "alone");
  bootstrap->barrier(soon());
  bootstrap->leave();
}

void expect_refused(const Variables& variables, const std::string& text) {
  const Error error = error_of([&] { (void)detect(with(variables)); });
  EXPECT_EQ(error.code(), Code::invalid_config);
  EXPECT_THAT(error.what(), HasSubstr(text));
  EXPECT_THAT(error.what(), HasSubstr("hmcrun")) << "the hint is missing";
}

TEST(Detect, without_job_variables_the_size_is_1) {
  expect_alone({});
  const auto all = candidates(with({}));
  ASSERT_EQ(all.size(), 6U);
  for (const Candidate& each : all) {
    EXPECT_EQ(each.available, each.name == "alone");
    EXPECT_FALSE(each.why.empty());
  }
}

TEST(Detect, incomplete_jobs_of_other_launchers_are_rejected) {
  expect_refused({{"RANK", "1"}, {"WORLD_SIZE", "4"}}, "torchrun: RANK=1 WORLD_SIZE=4: MASTER_ADDR");
  expect_refused({{"RANK", "4"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "::1"}, {"MASTER_PORT", "9"}}, "RANK isn't");
  expect_refused({{"PMIX_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}}, "PMIx");
  expect_refused({{"PMIX_RANK", "0"}}, "PMIX_NAMESPACE");
  expect_refused({{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}}, "PMI-1: PMI_RANK=2 PMI_SIZE=3: PMI_FD");
  expect_refused({{"PMI_RANK", "3"}, {"PMI_SIZE", "3"}, {"PMI_FD", "5"}}, "PMI_RANK isn't");
  expect_refused({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}, "Slurm: SLURM_PROCID=0 SLURM_NTASKS=8: no step");
}

TEST(Detect, jobs_of_other_launchers_are_available) {
  const Variables torch{{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "host7"}, {"MASTER_PORT", "29500"}};
  EXPECT_TRUE(candidate(torch, "torchrun").available);
  EXPECT_THAT(candidate(torch, "torchrun").why, HasSubstr("host7:30517")) << "MASTER_PORT belongs to torch";
  Variables local = torch;
  local["LOCAL_WORLD_SIZE"] = "4";
  EXPECT_THAT(candidate(local, "torchrun").why, HasSubstr("Unix socket"));
  const Variables step{{"SLURM_PROCID", "3"},         {"SLURM_STEP_NUM_TASKS", "8"},
                       {"SLURM_STEP_NUM_NODES", "3"}, {"SLURM_STEP_NODELIST", "n[07-09,12],m"},
                       {"SLURM_JOB_ID", "5"},         {"SLURM_STEP_ID", "2"}};
  EXPECT_THAT(candidate(step, "Slurm").why, HasSubstr("n07:20187"));
  Variables one_node = step;
  one_node["SLURM_STEP_NUM_NODES"] = "1";
  EXPECT_THAT(candidate(one_node, "Slurm").why, HasSubstr("Unix socket"));
  EXPECT_TRUE(candidate({{"PMI_RANK", "0"}, {"PMI_SIZE", "3"}, {"PMI_FD", "5"}}, "PMI-1").available);
}

TEST(Detect, several_machines_need_a_secret) {
  const Variables torch{{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "host7"}, {"MASTER_PORT", "29500"}};
  const Error error = error_of([&] { (void)detect(with(torch)); });
  EXPECT_EQ(error.code(), Code::invalid_config);
  EXPECT_THAT(error.what(), HasSubstr("torchrun runs ranks on several machines, and HMC_SECRET is not set"));
}

TEST(Detect, jobs_of_other_launchers_with_one_rank_run_alone) {
  expect_alone({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  expect_alone({{"PMIX_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}});
  expect_alone({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}});
  expect_alone({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}});
  expect_alone({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "1"}});
}

TEST(Detect, unrelated_variables_are_ignored) {
  expect_alone({{"WORLD_SIZE", "4"}});
  expect_alone({{"SLURM_NTASKS", "4"}});
}

TEST(Detect, explicit_variables_win_over_other_launchers) {
  expect_alone({{"HMC_RANK", "0"}, {"HMC_SIZE", "1"}, {"RANK", "1"}, {"WORLD_SIZE", "4"}});
  EXPECT_TRUE(candidate({{"HMC_RANK", "0"}, {"HMC_SIZE", "1"}}, "HMC_RANK").available);
  EXPECT_FALSE(candidate({{"HMC_RANK", "0"}, {"HMC_SIZE", "1"}}, "alone").available);
}

TEST(Detect, incomplete_explicit_variables_are_rejected) {
  expect_refused({{"HMC_RANK", "1"}}, "HMC_SIZE");
  expect_refused({{"HMC_SIZE", "2"}}, "HMC_RANK");
  expect_refused({{"HMC_STORE", "127.0.0.1:1"}}, "HMC_RANK");
  expect_refused({{"HMC_RANK", "0"}, {"HMC_SIZE", "2"}}, "HMC_STORE");
}

TEST(Detect, job_of_one_rank_with_a_store_joins_it) {
  const auto bootstrap = detect(with({{"HMC_RANK", "0"}, {"HMC_SIZE", "1"}, {"HMC_STORE", free_address()}}));
  EXPECT_EQ(bootstrap->launcher(), "by hand (HMC_RANK)");
  bootstrap->leave();
}

}  // namespace
}  // namespace hmc::bootstrap::test
