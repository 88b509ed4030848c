#include "launcher/report.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace hmc::launcher {
namespace {

constexpr int exited(int status) { return status << 8; }  // as wait(2) encodes it

TEST(ExitStatus, status_is_the_rank_status_or_128_plus_the_signal) {
  EXPECT_EQ(status_of(exited(0)), 0);
  EXPECT_EQ(status_of(exited(255)), 255);
  EXPECT_EQ(status_of(SIGKILL), 137);
  EXPECT_EQ(status_of(SIGSEGV | 0x80), 139);
}

TEST(ExitStatus, description_names_the_cause) {
  EXPECT_EQ(describe_end(exited(3)), "exited with status 3");
  EXPECT_EQ(describe_end(SIGTERM), "was killed by signal 15 (SIGTERM)");
  EXPECT_EQ(describe_end(SIGSEGV | 0x80), "was killed by signal 11 (SIGSEGV), core dumped");
}

}  // namespace
}  // namespace hmc::launcher
