// A mismatch in one team, reported to ranks that are in a call of another team.
#include <barrier>

#include "tests/multirank/collectives_mismatch.hpp"
#include "tests/support/code_of.hpp"

namespace hmc {
namespace {

using namespace std::chrono_literals;

class TeamsMismatch : public Mismatch {
 protected:
  TeamsMismatch() {
    forced = "gather:linear";  // no rank between a sender and the root
    // On two nodes: only ranks of the other node wait for the last rank.
    if (nodes() > 1) forced += ",barrier:dissemination";
  }
  /// The last rank is the root of a gather in one team and passes a smaller size than the others. It catches the
  /// mismatch and calls `then`. The other ranks only send, don't wait for the gather, and call `next`, which uses the
  /// other team.
  template <typename Then, typename Next>
  std::vector<Outcome> run_two(const Then& then, const Next& next, std::chrono::nanoseconds deadline = 30s) {
    const auto body = [&](Runtime& runtime, int rank) {
      Runtime own = std::move(runtime);
      Team one = own.world().duplicate(), other = own.world().duplicate();
      own.world().barrier();
      here_.arrive_and_wait();
      const int root = ranks() - 1;
      auto out = output();
      Request request = one.igather(in.data(), out.data(), rank == root ? 8 : 16, root);
      if (rank == root) {
        EXPECT_EQ(code_of([&] { request.wait(); }), Code::mismatch);
        return then(own, other);
      }
      next(one, other);
    };
    return run_runtime(body, deadline);
  }
  const std::vector<std::string> calls_ = {"igather(8 bytes, root " + std::to_string(ranks() - 1) + ")",
                                           "igather(16 bytes, root " + std::to_string(ranks() - 1) + ")"};
  void expect_reported(std::vector<Outcome> outcomes) const {
    outcomes.back() = outcomes.front();  // the root has caught its own error
    expect_mismatch(outcomes, calls_);
    for (const Outcome& outcome : outcomes)
      EXPECT_NE(outcome.text.find("in another team, before: "), std::string::npos) << outcome.text;
  }
  std::barrier<> here_{ranks()}, told_{ranks()};
};

TEST_P(TeamsMismatch, wait_in_another_team_for_a_missing_rank_reports_it) {
  at_most = 11s;  // half of the deadline, with a reserve
  for (const bool by_request : {false, true}) {
    expect_reported(run_two([&](Runtime&, Team&) { told_.arrive_and_wait(); },
                            [&](Team&, Team& other) {
                              try {
                                by_request ? other.ibarrier().wait() : other.barrier();
                              } catch (const Error&) {
                                told_.arrive_and_wait();
                                throw;
                              }
                              ADD_FAILURE() << "a barrier without one rank";
                            },
                            12s));
  }
}

TEST_P(TeamsMismatch, wait_in_another_team_for_a_closing_rank_reports_it) {
  expect_reported(run_two([](Runtime& runtime, Team&) { EXPECT_THROW(runtime.close(), Error); },
                          [](Team&, Team& other) { other.barrier(); }));
}

TEST_P(TeamsMismatch, wait_in_another_team_for_an_ended_rank_reports_it) {
  expect_reported(run_two([](Runtime& runtime, Team&) { [[maybe_unused]] const Runtime gone = std::move(runtime); },
                          [](Team&, Team& other) { other.barrier(); }));
}

// The root catches the error, waits, and then uses the other team.
TEST_P(TeamsMismatch, other_teams_work_after_the_error_is_caught) {
  const auto outcomes = run_two(
      [](Runtime&, Team& other) {
        std::this_thread::sleep_for(700ms);
        for (int i = 0; i < 3; ++i) other.barrier();
      },
      [](Team& one, Team& other) {
        for (int i = 0; i < 3; ++i) other.barrier();
        one.barrier();
      });
  for (int rank = 0; rank < ranks() - 1; ++rank) {
    const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    EXPECT_EQ(outcome.code, Code::mismatch) << outcome.text;
    EXPECT_EQ(outcome.text.find("another team"), std::string::npos) << outcome.text;
  }
  EXPECT_EQ(outcomes.back().code, Code::success) << outcomes.back().text;
}

INSTANTIATE_TEST_SUITE_P(Ranks, TeamsMismatch,
                         testing::Values(std::tuple(2, 1), std::tuple(3, 1), std::tuple(5, 1), std::tuple(4, 2)),
                         [](const auto& info) {
                           return "np" + std::to_string(std::get<0>(info.param)) + "_nodes" +
                                  std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace hmc
