// A timeout while an object is created or closed names the user's call, not the library's internal windows. Ranks are
// threads; only the last one doesn't call.
#include "tests/multirank/collectives_mismatch.hpp"

namespace hmc {
namespace {

using namespace std::chrono_literals;

class TeamCreationNames : public Mismatch {
 protected:
  bool comes(int rank) const { return rank != ranks() - 1; }
  /// Prepares all ranks of a new job. Then all but the last make `call`.
  std::vector<Outcome> wait_in_vain(const std::function<void(Runtime& runtime, Team& team)>& call) {
    std::barrier ready(ranks());  // else a slow rank could get the others' failure in `duplicate`
    return run_runtime(
        [&](Runtime& runtime, int rank) {
          Team team = runtime.world().duplicate();
          ready.arrive_and_wait();
          runtime.world().core()->fabric().timeout = 1s;
          if (comes(rank)) call(runtime, team);
        },
        60s);
  }
  /// Every rank but the last timed out, in the call of that name.
  void expect_timeout(const std::vector<Outcome>& outcomes, const std::string& name) const {
    for (int rank = 0; rank < ranks(); ++rank) {
      if (!comes(rank)) continue;
      const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
      EXPECT_EQ(outcome.code, Code::timeout) << "rank " << rank << ": " << outcome.text;
      EXPECT_EQ(outcome.text.find(name + ": "), 0U) << "rank " << rank << ": " << outcome.text;
    }
  }
};

TEST_P(TeamCreationNames, error_in_team_creation_names_it) {
  expect_timeout(wait_in_vain([](Runtime& runtime, Team&) { (void)runtime.world().duplicate(); }), "duplicate");
  expect_timeout(wait_in_vain([](Runtime&, Team& team) { (void)team.split(0); }), "split");
}

TEST_P(TeamCreationNames, error_in_team_close_names_it) {
  expect_timeout(wait_in_vain([](Runtime&, Team& team) { team.close(); }), "Team::close");
}

TEST_P(TeamCreationNames, error_in_runtime_close_names_it) {
  expect_timeout(wait_in_vain([](Runtime& runtime, Team&) { runtime.close(); }), "Runtime::close");
}

TEST_P(TeamCreationNames, error_in_runtime_start_names_it) {
  auto places = bootstrap::make_inproc(ranks(), nodes());
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (!comes(rank)) continue;
    threads.emplace_back([&, rank] {
      base::Env env = base::Env::from_process();
      env.timeout = 1s;
      try {
        (void)std::make_unique<job::JobCore>(std::move(places[static_cast<std::size_t>(rank)]), env);
      } catch (const Error& error) {
        outcomes[static_cast<std::size_t>(rank)] = {error.code(), error.what(), {}};
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // The first rank to time out leaves, and the others may report it as failed.
  int timed_out = 0;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (!comes(rank)) continue;
    const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    timed_out += outcome.code == Code::timeout ? 1 : 0;
    EXPECT_TRUE(outcome.code == Code::timeout || outcome.code == Code::peer_failed) << outcome.text;
    EXPECT_EQ(outcome.text.find("Runtime::init: "), 0U) << "rank " << rank << ": " << outcome.text;
  }
  EXPECT_GE(timed_out, 1);
}

INSTANTIATE_TEST_SUITE_P(Ranks, TeamCreationNames, testing::Values(std::tuple(2, 1), std::tuple(4, 2)),
                         [](const auto& info) {
                           return "np" + std::to_string(std::get<0>(info.param)) + "_nodes" +
                                  std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace hmc
