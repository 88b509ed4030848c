#include "runtime/base/deadline.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace hmc::base {
namespace {

using namespace std::chrono_literals;

TEST(Deadline, deadline_expires_after_its_span) {
  const Deadline deadline = Deadline::after(30ms);
  EXPECT_FALSE(deadline.expired());
  EXPECT_GT(deadline.left(), 0ns);
  EXPECT_LE(deadline.left(), 30ms);
  const auto until = Clock::now() + 30ms;
  while (Clock::now() < until) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(deadline.expired());
  EXPECT_EQ(deadline.left(), 0ns);
}

TEST(Deadline, poll_timeout_is_0_only_after_expiry) {
  EXPECT_EQ(Deadline::after(-1s).left_ms(), 0);
  const Deadline soon = Deadline::after(10min);
  EXPECT_GE(soon.left_ms(), 1);
  EXPECT_LE(soon.left_ms(), 600'001);
  const Deadline within_a_ms = Deadline::after(900us);
  const int left = within_a_ms.left_ms();
  EXPECT_TRUE(left == 1 || within_a_ms.expired()) << left;
}

TEST(Deadline, far_deadline_is_clamped_to_the_poll_argument) {
  const int left = Deadline::after(std::chrono::hours(24 * 365)).left_ms();
  EXPECT_GT(left, 0);
  EXPECT_LE(left, 1'000'000'000);
}

TEST(Deadline, longest_span_never_expires) {
  const Deadline never = Deadline::after(std::chrono::nanoseconds::max());
  EXPECT_FALSE(never.expired());
  EXPECT_GT(never.left(), std::chrono::hours(24 * 365 * 100));
}

TEST(Deadline, clock_is_monotonic) {
  std::int64_t before = now_ns();
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t now = now_ns();
    ASSERT_GE(now, before);
    before = now;
  }
}

}  // namespace
}  // namespace hmc::base
