#include "runtime/progress/started_operations.hpp"

#include <gtest/gtest.h>

#include "runtime/base/node_page.hpp"

namespace hmc::progress {
namespace {

using base::Status;

struct Countdown {
  Ticket ticket = 0;
  int steps_left = 0;
  bool is_under_way() const noexcept { return steps_left > 0; }
};

class Countdowns final : public StartedOperations<Countdown> {
 public:
  using StartedOperations::find;
  Countdowns(base::Waiter& waiter, Tickets& tickets, Background& background)
      : StartedOperations(waiter, tickets, background) {
    enlist();
  }
  ~Countdowns() override { retire(); }

  Countdown& start(int steps) {
    share();
    Countdown& started = take();
    started.steps_left = steps;
    running_.push_back(&started);
    return started;
  }
  int step(By) noexcept override {
    count_moves(running_.size());
    for (Countdown* const each : running_)
      if (--each->steps_left == 0) give_back(*each);
    std::erase_if(running_, [](const Countdown* each) { return each->steps_left == 0; });
    return 1;
  }
  bool goes_on() const noexcept override { return !is_idle(); }
  bool waits_for_stream() const noexcept override { return false; }
  void end() noexcept override { unshare(); }
  void expired(Ticket) noexcept override {}
  void throw_failure(const Status&, const char*) override { throw Error(Code::error, "test", "unexpected"); }

 private:
  const Status& failed_by() const noexcept override { return failure_; }
  void fail_all(const Status& status) noexcept override { failure_ = status; }
  bool is_idle() const noexcept override { return running_.empty(); }
  Status outcome_of(Countdown&, Ticket) noexcept override { return {}; }
  Status abort_dropped(const Countdown&, const char*) noexcept override { return Status::failure(Code::aborted, ""); }

  std::vector<Countdown*> running_;
  Status failure_;
};

// Tickets come from users, who may test a copy of a request that is over, and from peers' messages.
TEST(StartedOperations, ticket_names_one_run_of_a_slot) {
  base::Waiter waiter(base::NodePage::create(1), 0, base::WaitMode::adapt);
  Tickets tickets(waiter);
  const base::Log log;
  Background background(waiter, tickets, log);
  Countdowns counts(waiter, tickets, background);

  Countdown& first = counts.start(3);
  const Ticket old = first.ticket;
  EXPECT_EQ(counts.find(old), &first);
  EXPECT_EQ(counts.test(old).code, Code::in_progress);  // two steps
  EXPECT_TRUE(counts.is_shared());
  EXPECT_TRUE(counts.test(old).ok());
  EXPECT_EQ(counts.moves(), 3U);
  EXPECT_FALSE(counts.is_shared());

  Countdown& again = counts.start(5);
  ASSERT_EQ(&again, &first);
  Countdown& other = counts.start(5);
  EXPECT_TRUE(counts.test(old).ok());
  EXPECT_EQ(counts.find(old), nullptr);
  EXPECT_EQ(counts.find(again.ticket), &again);
  EXPECT_EQ(counts.find(other.ticket), &other);
  for (const Ticket unknown : {Ticket{0}, other.ticket + 1, ~Ticket{0}}) EXPECT_EQ(counts.find(unknown), nullptr);
  EXPECT_TRUE(counts.is_shared());  // the old ticket's test has found others in flight
}

}  // namespace
}  // namespace hmc::progress
