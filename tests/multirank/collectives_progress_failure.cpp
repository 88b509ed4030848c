// Failures while a started collective progresses in the background. They are reported when the caller waits or tests,
// and no buffer is accessed after it is released. Ranks are threads; each case has its own job.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <hmc/hmc.hpp>

#include "bootstrap/inproc.hpp"
#include "collectives/team/team_object.hpp"
#include "tests/multirank/short_deadline.hpp"

namespace hmc {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class ProgressFailure : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }

  struct Met {
    std::optional<Error> error;
    Clock::duration took{};
  };
  using Body = std::function<void(Runtime& runtime)>;
  /// Returns every rank's first Error. The buffers outlive the runtimes.
  std::vector<Met> run(const Body& body, std::chrono::nanoseconds deadline = 30s) {
    std::vector<Met> met(static_cast<std::size_t>(ranks()));
    std::barrier everybody(ranks());
    std::vector<std::thread> threads;
    auto places = bootstrap::make_inproc(ranks(), std::get<1>(GetParam()));
    for (int rank = 0; rank < ranks(); ++rank) {
      threads.emplace_back([&, rank, place = std::move(places[static_cast<std::size_t>(rank)])]() mutable {
        const base::Env env = base::Env::from_process();
        Runtime runtime = start_without_hurry(std::move(place), env);
        set_deadline(runtime, deadline);
        everybody.arrive_and_wait();
        Met& mine = met[static_cast<std::size_t>(rank)];
        const auto start = Clock::now();
        try {
          body(runtime);
        } catch (const Error& error) {
          mine.error.emplace(error);
        }
        mine.took = Clock::now() - start;
        everybody.arrive_and_wait();  // the other ranks report a rank that leaves earlier as failed
      });
    }
    for (std::thread& thread : threads) thread.join();
    return met;
  }

  static rma::Fabric& fabric_of(Runtime& runtime) { return runtime.world().core()->fabric(); }
  static void compute_until(const std::function<bool()>& over) {
    for (const auto limit = Clock::now() + 20s; !over() && Clock::now() < limit;) std::this_thread::sleep_for(50us);
    EXPECT_TRUE(over());
  }
  static bool goes_on(Runtime& runtime) {
    const std::lock_guard guard(fabric_of(runtime).background.lock());
    return runtime.world().object()->schedules().goes_on();
  }

  std::vector<std::uint64_t> in = std::vector<std::uint64_t>(200'000, 1);
  std::vector<std::vector<std::uint64_t>> outs =
      std::vector<std::vector<std::uint64_t>>(static_cast<std::size_t>(ranks()), std::vector<std::uint64_t>(200'000));
  std::uint64_t* out(const Runtime& runtime) { return outs[static_cast<std::size_t>(runtime.rank())].data(); }
};

// The rank that differs makes no further call until all others have reported the mismatch.
TEST_P(ProgressFailure, mismatch_with_a_computing_rank_is_reported_at_once) {
  std::atomic<int> told{0};
  const auto met = run([&](Runtime& runtime) {
    const bool odd = runtime.rank() == ranks() - 1;
    Request request =
        runtime.world().iallreduce(in.data(), out(runtime), 500, DType::u64, odd ? Reduction(max) : Reduction(sum));
    if (odd) compute_until([&] { return told == ranks() - 1; });
    try {
      request.wait();
    } catch (const Error&) {
      ++told;
      throw;
    }
  });
  for (const Met& each : met) {
    ASSERT_TRUE(each.error.has_value());
    EXPECT_EQ(each.error->code(), Code::mismatch) << each.error->what();
    for (const char* const call : {"called iallreduce(500 x u64, max)", "called iallreduce(500 x u64, sum)"})
      EXPECT_NE(std::string(each.error->what()).find(call), std::string::npos) << each.error->what();
    EXPECT_LT(each.took, 15s);
  }
}

// No rank makes a call: the progress threads detect the mismatch.
TEST_P(ProgressFailure, mismatch_is_detected_while_all_ranks_compute) {
  const auto met = run([&](Runtime& runtime) {
    // The ranks wait in a ring: none receives a message that it could compare.
    Request request = runtime.world().ibroadcast(out(runtime), 800, (runtime.rank() + 1) % ranks());
    compute_until([&] { return !goes_on(runtime); });
    request.wait();
  });
  for (const Met& each : met) {
    ASSERT_TRUE(each.error.has_value());
    EXPECT_EQ(each.error->code(), Code::mismatch) << each.error->what();
  }
}

// So many calls have been started since that the mismatch isn't among the last ones.
TEST_P(ProgressFailure, mismatch_in_an_old_call_without_messages_is_detected) {
  constexpr std::size_t many = 1000;
  const auto met = run([&](Runtime& runtime) {
    std::vector<Request> requests;
    for (std::size_t i = 0; i < many; ++i)
      requests.push_back(runtime.world().ibroadcast(out(runtime) + i, 8, i == 5 ? (runtime.rank() + 1) % ranks() : 0));
    Request::wait_all(requests);
  });
  for (const Met& each : met) {
    ASSERT_TRUE(each.error.has_value());
    EXPECT_EQ(each.error->code(), Code::mismatch) << each.error->what();
    EXPECT_LT(each.took, 15s);
  }
}

TEST_P(ProgressFailure, death_outside_of_calls_is_detected) {
  const auto met = run([&](Runtime& runtime) {
    runtime.world().barrier();
    if (runtime.rank() == ranks() - 1) {
      const Runtime gone = std::move(runtime);  // without a goodbye
      return;
    }
    Request request = runtime.world().iallreduce(in.data(), out(runtime), in.size(), DType::u64, sum);
    const base::NodePage& page = fabric_of(runtime).waiter.page();
    compute_until([&] { return !page.aborted().ok(); });
    request.wait();
  });
  for (int rank = 0; rank + 1 < ranks(); ++rank) {
    const auto& error = met[static_cast<std::size_t>(rank)].error;
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->code(), Code::peer_failed) << error->what();
    EXPECT_EQ(error->peer(), ranks() - 1);
  }
}

// A caller that gets the job's failure frees its buffers. By then the thread must have finished its step, and no
// further step may run.
TEST_P(ProgressFailure, test_that_reports_a_death_ends_requests_in_flight) {
  const auto met = run([&](Runtime& runtime) {
    runtime.world().barrier();
    if (runtime.rank() == ranks() - 1) {
      const Runtime gone = std::move(runtime);
      return;
    }
    Request request = runtime.world().iallreduce(in.data(), out(runtime), in.size(), DType::u64, sum);
    const base::NodePage& page = fabric_of(runtime).waiter.page();
    compute_until([&] { return !page.aborted().ok(); });
    std::atomic<bool> holds{false};
    std::atomic<bool> ended{false};
    std::thread step([&] {  // models a long step
      const std::lock_guard guard(fabric_of(runtime).background.lock());
      holds = true;
      std::this_thread::sleep_for(50ms);
      ended = true;
    });
    compute_until([&] { return holds.load(); });
    EXPECT_THROW(request.test(), Error);
    EXPECT_TRUE(ended);
    step.join();
    EXPECT_FALSE(goes_on(runtime));
  });
}

TEST_P(ProgressFailure, missing_rank_is_named_at_the_deadline) {
  const auto met = run(
      [&](Runtime& runtime) {
        if (runtime.rank() == ranks() - 1) return;
        Request request = runtime.world().iallreduce(in.data(), out(runtime), 3, DType::u64, sum);
        std::this_thread::sleep_for(20ms);  // on purpose: gives the progress thread time to run
        EXPECT_FALSE(request.test());
        request.wait();
      },
      300ms);
  for (int rank = 0; rank + 1 < ranks(); ++rank) {
    const auto& error = met[static_cast<std::size_t>(rank)].error;
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->code(), Code::timeout) << error->what();
    EXPECT_EQ(error->peer(), ranks() - 1);
  }
}

TEST_P(ProgressFailure, runtime_closes_with_requests_in_flight) {
  for (int round = 0; round < 5; ++round) {
    const auto met = run([&](Runtime& runtime) {
      Team other = runtime.world().duplicate();
      Plan plan = runtime.world().plan_allreduce(in.data(), out(runtime), 1000, DType::u64, sum);
      std::vector<Request> requests;
      for (std::size_t i = 0; i < 5; ++i) {
        requests.push_back(runtime.world().iallreduce(in.data(), out(runtime), in.size(), DType::u64, sum));
        requests.push_back(other.ialltoall(in.data(), out(runtime) + 100'000, 400));
      }
      plan.start();
      runtime.close();
      EXPECT_THROW(requests.front().wait(), Error);
    });
    for (const Met& each : met) EXPECT_FALSE(each.error.has_value()) << each.error->what();
  }
}

// After close() the caller owns the buffers, also those of another team's operations in flight.
TEST_P(ProgressFailure, closed_runtime_accesses_no_buffers) {
  constexpr std::size_t calls = 8;
  const std::size_t words = 32'768 * static_cast<std::size_t>(ranks());
  const auto met = run([&](Runtime& runtime) {
    Team other = runtime.world().duplicate();
    const std::size_t bytes = calls * words * sizeof(std::uint64_t);
    const auto map = [&] {
      return static_cast<std::uint64_t*>(
          ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    };
    std::uint64_t* const from = map();
    std::uint64_t* const to = map();
    std::vector<Request> requests;
    for (std::size_t i = 0; i < calls; ++i)
      requests.push_back(other.ialltoall(from + i * words, to + i * words, words / static_cast<std::size_t>(ranks())));
    runtime.close();
    ::munmap(from, bytes);
    ::munmap(to, bytes);
    std::this_thread::sleep_for(20ms);  // on purpose: a late access would happen now
    try {
      Request::wait_all(requests);  // all of a rank's operations may have completed before
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::closed) << error.what();
    }
  });
  for (const Met& each : met) EXPECT_FALSE(each.error.has_value()) << each.error->what();
}

TEST_P(ProgressFailure, teams_close_with_requests_in_flight) {
  const auto met = run([&](Runtime& runtime) {
    for (int round = 0; round < 5; ++round) {
      Team closed = runtime.world().duplicate();
      Team dropped = runtime.world().duplicate();
      Request one = closed.iallreduce(in.data(), out(runtime), in.size(), DType::u64, sum);
      Request other = dropped.iallreduce(in.data(), out(runtime), in.size(), DType::u64, sum);
      closed.close();
      EXPECT_THROW(one.wait(), Error);
      EXPECT_EQ(out(runtime)[1], static_cast<std::uint64_t>(ranks()));
      other.wait();
      other = dropped.ibarrier();
      runtime.world().barrier();  // all ranks have started it and put its messages
      dropped = Team();
      EXPECT_THROW(other.wait(), Error);
    }
    runtime.close();
  });
  for (const Met& each : met) EXPECT_FALSE(each.error.has_value()) << each.error->what();
}

// Rank 1 puts to rank 2, on another node if there are two, after rank 2 has dropped the team. Rank 1 gets an error only
// in this team, and none once it has dropped the team too.
TEST_P(ProgressFailure, team_dropped_by_others_fails_no_flush) {
  const auto met = run([&](Runtime& runtime) {
    Window window = Window::create(runtime.world(), 64);
    Team dropped = runtime.world().duplicate();
    runtime.world().barrier();
    if (runtime.rank() != 1) dropped = Team();
    runtime.world().barrier();
    if (runtime.rank() == 1) {
      std::uint64_t sent = 5;
      try {
        dropped.ibroadcast(&sent, sizeof sent, 1).wait(100ms);  // a root doesn't wait
      } catch (const Error&) {
      }
      dropped = Team();
    }
    const std::uint64_t word = 7;
    window.put((runtime.rank() + 1) % ranks(), 0, &word, sizeof word);
    window.flush();
    runtime.world().barrier();
    EXPECT_EQ(*window.local<std::uint64_t>(), 7U);
    window.close();
    runtime.close();
  });
  for (const Met& each : met) EXPECT_FALSE(each.error.has_value()) << each.error->what();
}

INSTANTIATE_TEST_SUITE_P(Ranks, ProgressFailure, testing::Values(std::tuple(2, 1), std::tuple(3, 1), std::tuple(4, 2)),
                         [](const auto& info) {
                           return "np" + std::to_string(std::get<0>(info.param)) + "_nodes" +
                                  std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace hmc
