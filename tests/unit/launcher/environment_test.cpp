#include "launcher/plan.hpp"

#include <gtest/gtest.h>

#include "launcher/report.hpp"

namespace hmc::launcher {
namespace {

const char* const parent[] = {"PATH=/bin", "HMC_RANK=3", "HMC_RANKING=yes", "HMC_LOG=info", "EMPTY=", nullptr};

Environment made(const std::vector<std::string>& settings, std::vector<std::string>* warnings = nullptr) {
  std::vector<std::string> ignored;
  return common_environment(parent, settings, warnings == nullptr ? ignored : *warnings);
}

TEST(Environment, identity_of_the_outer_job_is_removed) {
  const Environment environment = made({});
  EXPECT_EQ(value_of(environment, "HMC_RANK"), nullptr);
  EXPECT_STREQ(value_of(environment, "HMC_RANKING"), "yes");
  EXPECT_STREQ(value_of(environment, "HMC_LOG"), "info");
  EXPECT_STREQ(value_of(environment, "EMPTY"), "");
}

TEST(Environment, settings_replace_and_add) {
  const Environment environment = made({"PATH=/usr/bin", "NEW=a=b", "BLANK="});
  EXPECT_STREQ(value_of(environment, "PATH"), "/usr/bin");
  EXPECT_STREQ(value_of(environment, "NEW"), "a=b");
  EXPECT_STREQ(value_of(environment, "BLANK"), "");
  EXPECT_EQ(environment.size(), 6U);
}

TEST(Environment, name_that_is_set_has_no_warning) {
  std::vector<std::string> warnings;
  made({"PATH", "EMPTY"}, &warnings);
  EXPECT_TRUE(warnings.empty());
  made({"ABSENT"}, &warnings);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings.front().find("ABSENT"), std::string::npos);
}

TEST(Environment, variables_of_hmcrun_are_rejected) {
  EXPECT_THROW(made({"HMC_SECRET=1"}), LaunchError);
  EXPECT_THROW(made({"HMC_SIZE"}), LaunchError);
  EXPECT_THROW(made({"=x"}), LaunchError);
}

}  // namespace
}  // namespace hmc::launcher
