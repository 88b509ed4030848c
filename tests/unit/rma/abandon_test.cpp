// A verb that throws leaves no transfer in flight that accesses the caller's memory.
#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "runtime/rma/begin.hpp"
#include "tests/support/code_of.hpp"
#include "tests/unit/rma/stuck_wire.hpp"

namespace hmc::rma {
namespace {

using namespace std::chrono_literals;
using test::Rank;

class WindowAbandon : public ::testing::Test {
 protected:
  void times_out(const char* what, const std::function<void(WindowCore&)>& call) {
    EXPECT_EQ(code_of([&] { call(*core_); }), Code::timeout) << what;
    EXPECT_TRUE(rank_.wire->under_way.empty()) << what << " left " << rank_.wire->under_way.size() << " transfers";
  }

  Rank rank_{bootstrap::make_alone(), 5ms};
  std::shared_ptr<WindowCore> core_ = rank_.open(4096);
  std::array<std::byte, 4096> memory_{};
};

TEST_F(WindowAbandon, every_verb_abandons_at_its_deadline) {
  times_out("put", [&](WindowCore& core) { core.put(0, 0, memory_.data(), 100); });
  times_out("get", [&](WindowCore& core) { core.get(0, 0, memory_.data(), 100); });
  times_out("put_signal", [&](WindowCore& core) { core.put_signal(0, 0, memory_.data(), 100, 1000, 1); });
  times_out("atomic", [&](WindowCore& core) {
    core.atomic("fetch_add", {transport::AtomicOp::fetch_add, 8, 1, 0}, 0, 0);
  });
  times_out("flush", [&](WindowCore& core) { core.flush(0, job_timeout); });
  times_out("flush_all", [&](WindowCore& core) { core.flush_all(job_timeout); });
  times_out("flush_wires", [&](WindowCore& core) { require(core.fabric(), core.fabric().flush_wires(), {"barrier"}); });
}

TEST_F(WindowAbandon, pipelines_abandon_all_transfers_in_flight) {
  const Strides strides{100, 8, 16, 16};
  times_out("put_strided", [&](WindowCore& core) { core.put_strided(0, 0, memory_.data(), strides); });
  times_out("get_strided", [&](WindowCore& core) { core.get_strided(0, 0, memory_.data(), strides); });
  std::vector<Put> puts(100, Put{8, memory_.data(), 8});
  std::vector<Get> gets(10, Get{8, memory_.data(), 8});
  times_out("put_batch", [&](WindowCore& core) { core.put_batch(0, puts); });
  times_out("get_batch", [&](WindowCore& core) { core.get_batch(0, gets); });
}

TEST_F(WindowAbandon, collective_transfers_are_abandoned) {
  std::uint64_t ticket = 0;
  ASSERT_TRUE(begin_put_signal(*core_, 0, 0, memory_.data(), 100, 1000, 1, ticket).ok());
  EXPECT_EQ(look(*core_, 0, ticket).code, Code::in_progress);
  EXPECT_EQ(rank_.wire->under_way.size(), 1U);
  abandon(*core_, 0, ticket);
  EXPECT_TRUE(rank_.wire->under_way.empty());
}

TEST_F(WindowAbandon, request_is_abandoned_on_request_or_abort_only) {
  Request request = core_->get_nb(0, 0, memory_.data(), 100);
  EXPECT_EQ(code_of([&] { request.wait(1ms); }), Code::timeout);
  EXPECT_EQ(code_of([&] { (void)Request::wait_any({&request, 1}, 1ms); }), Code::timeout);
  EXPECT_EQ(rank_.wire->under_way.size(), 1U) << "the transfer continues, and the request is valid";
  EXPECT_FALSE(request.test());
  request.abandon();
  EXPECT_TRUE(rank_.wire->under_way.empty());
  EXPECT_TRUE(request.test());

  Request another = core_->get_nb(0, 0, memory_.data(), 100);
  static_cast<bootstrap::Bootstrap&>(*rank_.fabric->exchange).abort(1, "the end");
  EXPECT_EQ(code_of([&] { another.wait(10s); }), Code::aborted);
  EXPECT_TRUE(rank_.wire->under_way.empty());
}

TEST_F(WindowAbandon, abort_abandons_all_requests_of_one_wait) {
  const auto three = [&] {
    std::vector<Request> requests;
    for (int i = 0; i < 3; ++i) requests.push_back(core_->get_nb(0, 0, memory_.data(), 100));
    return requests;
  };
  std::vector<Request> any = three(), all = three(), polled = three();
  static_cast<bootstrap::Bootstrap&>(*rank_.fabric->exchange).abort(1, "the end");
  EXPECT_EQ(code_of([&] { (void)Request::wait_any(any, 10s); }), Code::aborted);
  EXPECT_EQ(rank_.wire->under_way.size(), 6U);
  EXPECT_EQ(code_of([&] { Request::wait_all(all, 10s); }), Code::aborted);
  EXPECT_EQ(rank_.wire->under_way.size(), 3U);
  // Polling calls report the abort too.
  for (Request& request : polled) EXPECT_EQ(code_of([&] { (void)request.test(); }), Code::aborted);
  EXPECT_TRUE(rank_.wire->under_way.empty());
  EXPECT_EQ(code_of([&] { (void)core_->test_until(0, Cmp::eq, 1); }), Code::aborted);
}

TEST_F(WindowAbandon, close_abandons_requests_and_they_report_closed) {
  std::vector<Request> requests;
  for (int i = 0; i < 5; ++i) requests.push_back(core_->put_nb(0, 0, memory_.data(), 100));
  EXPECT_EQ(code_of([&] { core_->close(); }), Code::timeout);  // its flush
  EXPECT_EQ(rank_.wire->under_way.size(), 5U);
  core_.reset();
  EXPECT_TRUE(rank_.wire->under_way.empty());
  EXPECT_EQ(rank_.wire->channels, 0);
  EXPECT_EQ(rank_.wire->registered, 0);
  EXPECT_EQ(code_of([&] { requests[0].test(); }), Code::closed);
  EXPECT_EQ(code_of([&] { requests[1].wait(); }), Code::closed);
  EXPECT_EQ(code_of([&] { (void)Request::wait_any(std::span(requests).subspan(2, 1)); }), Code::closed);
  rank_.fabric.reset();
  rank_.team.reset();  // also destroys the wire
  requests[3].abandon();
  EXPECT_EQ(code_of([&] { requests[4].test(); }), Code::closed);
  EXPECT_TRUE(requests[4].test()) << "the failure was reported once";
}

// Most wires keep the order of all verbs, so a missing fence shows on few machines only.
TEST(WindowFence, fence_reaches_the_wires_of_the_window) {
  const Rank rank{bootstrap::make_alone(), 5ms};
  const std::shared_ptr<WindowCore> core = rank.open(4096);
  core->fence();
  EXPECT_EQ(rank.wire->fences, 1);
}

/// The exchange of a team of one rank, which counts the wire's flushes at its last round.
class CountingExchange final : public base::Exchange {
 public:
  explicit CountingExchange(const test::StuckWire& wire) : wire_(wire) {}
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  std::vector<base::Bytes> allgather(base::ByteView mine, base::Deadline /*deadline*/) override {
    flushes = wire_.flushes;
    return {{mine.begin(), mine.end()}};
  }
  void barrier(base::Deadline /*deadline*/) override { flushes = wire_.flushes; }
  int flushes = 0;

 private:
  const test::StuckWire& wire_;
};

// The last barrier of a team puts into the team's windows.
TEST(WindowClose, window_of_a_team_is_flushed_after_its_last_barrier) {
  const Rank rank{bootstrap::make_alone(), 5ms};
  rank.wire->flushes_end = true;
  const auto team = std::make_shared<TeamCore>(rank.fabric, std::vector<int>{0}, 0);
  const auto exchange = std::make_shared<CountingExchange>(*rank.wire);
  team->use_exchange(exchange);
  create_window(*team, 64, WindowCore::Role::user)->close();
  EXPECT_GT(exchange->flushes, 0);
  EXPECT_GT(rank.wire->flushes, exchange->flushes);
}

TEST(WindowOpen, open_fails_on_all_ranks_if_one_cannot_connect) {
  for (const int size : {1, 2, 3, 5}) {
    test::run_ranks(size, 10s, [&](Rank& rank) {
      const int guilty = size - 1;
      if (rank.fabric->rank == guilty) rank.wire->connect_failure = "no way";
      try {
        (void)rank.open(100);
        ADD_FAILURE() << "rank " << rank.fabric->rank << " of " << size << " has a window";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::unavailable);
        EXPECT_EQ(error.peer(), guilty);
        EXPECT_NE(std::string(error.what()).find("no way"), std::string::npos) << error.what();
      }
      EXPECT_EQ(rank.wire->channels, 0);
      EXPECT_EQ(rank.wire->registered, 0);
      EXPECT_TRUE(rank.fabric->windows.is_empty());
      rank.wire->connect_failure.clear();
      EXPECT_TRUE(rank.open(100)->is_open()) << "the job continues";
    });
  }
}

TEST(WindowOpen, open_fails_on_all_ranks_if_one_cannot_register) {
  test::run_ranks(3, 10s, [&](Rank& rank) {
    if (rank.fabric->rank == 1) rank.wire->register_failure = "not this memory";
    EXPECT_EQ(code_of([&] { (void)rank.open(100); }), Code::unsupported);
    EXPECT_EQ(rank.wire->registered, 0) << "a region that wasn't registered was deregistered";
  });
}

}  // namespace
}  // namespace hmc::rma
