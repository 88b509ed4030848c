// Some ranks create or close an object while others make another call on the same team. As for any mismatch, every rank
// reports it at once, with the names of the public functions.
#include <cstring>

#include "collectives/team/team_object.hpp"
#include "tests/multirank/collectives_mismatch.hpp"
#include "tests/support/code_of.hpp"

namespace hmc {
namespace {

class TeamCreationMismatch : public Mismatch {
 protected:
  // Longer than in the other tests, since a slow machine has more work here. A correct run doesn't wait for it.
  static constexpr std::chrono::seconds deadline{60};
  TeamCreationMismatch() { at_most = deadline / 2; }

  enum What {
    create,
    create_over,
    close,
    end,
    split,
    duplicate,
    allreduce,
    large_allreduce,
    barrier,
    ibarrier,
    gather
  };
  static constexpr const char* names[] = {"Window::create of a size",
                                          "Window::create over a buffer",
                                          "Window::close",
                                          "Runtime::close",
                                          "creation of a team (split, duplicate, ...)",
                                          "creation of a team (split, duplicate, ...)",
                                          "allreduce(1 x u64, sum)",
                                          "allreduce(100000 x u64, sum)",
                                          "barrier",
                                          "ibarrier",
                                          "gather(800 bytes, root 0)"};
  /// Prefixes of the error texts.
  static constexpr const char* calls[] = {
      "Window::create", "Window::create", "Window::close", "Runtime::close", "split",
      "duplicate",      "allreduce",      "allreduce",     "barrier",        "",
      "gather"};

  void make(What what, Runtime& runtime, Window& window) {
    Team& world = runtime.world();
    auto out = output();
    switch (what) {
      case create: return (void)Window::create(world, 8192);
      case create_over: return (void)Window::create(world, ConnBuffer(0, 8192, MemoryType::CPU));
      case close: return window.close();
      case end: return runtime.close();
      case split: return (void)world.split(0);
      case duplicate: return (void)world.duplicate();
      case allreduce: return world.allreduce(in.data(), out.data(), 1, DType::u64, sum);
      case large_allreduce: return world.allreduce(in.data(), out.data(), 100'000, DType::u64, sum);
      case barrier: return world.barrier();
      case ibarrier: return world.ibarrier().wait();
      case gather: return world.gather(in.data(), out.data(), 800, 0);
    }
  }

  void expect_reported(What one, What other, int odd) {
    SCOPED_TRACE(testing::Message() << names[one] << " on rank " << odd << ", " << names[other] << " on the others");
    const auto outcomes = run_runtime(
        [&](Runtime& runtime, int rank) {
          Window window = Window::create(runtime.world(), 4096);
          make(rank == odd ? one : other, runtime, window);
          runtime.world().barrier();  // a rank whose call doesn't wait gets the error here
        },
        deadline);
    expect_mismatch(outcomes, {names[one], names[other]});
    const Outcome& outcome = outcomes[static_cast<std::size_t>(odd)];
    EXPECT_EQ(outcome.text.find(calls[one]), 0U) << outcome.text;
  }
};

TEST_P(TeamCreationMismatch, team_creation_against_a_collective_is_reported) {
  constexpr What further[] = {large_allreduce, ibarrier, gather};
  int odd = ranks() / 2;
  for (const What one : {create, create_over, close, end, split, duplicate})
    for (const What other : {allreduce, barrier, further[odd % 3]}) expect_reported(one, other, odd++ % ranks());
}

TEST_P(TeamCreationMismatch, two_different_team_creations_are_reported) {
  using Two = std::pair<What, What>;
  int odd = 1;
  for (const auto& [one, other] : {Two{create, close},
                                   {close, create},
                                   {create, create_over},
                                   {create_over, duplicate},
                                   {end, create},
                                   {close, end},
                                   {split, end},
                                   {close, split}})
    expect_reported(one, other, odd++ % ranks());
}

TEST_P(TeamCreationMismatch, windows_closed_in_another_order_are_reported) {
  const auto outcomes = run_runtime(
      [&](Runtime& runtime, int rank) {
        Window windows[] = {Window::create(runtime.world(), 4096), Window::create(runtime.world(), 4096)};
        for (const int i : {0, 1}) windows[rank == ranks() - 1 ? 1 - i : i].close();
      },
      deadline);
  expect_mismatch(outcomes, {"Window::close of window "});
}

TEST_P(TeamCreationMismatch, contexts_opened_in_another_order_are_reported) {
  const auto outcomes = run_runtime(
      [&](Runtime& runtime, int rank) {
        Window windows[] = {Window::create(runtime.world(), 4096), Window::create(runtime.world(), 4096)};
        for (const int i : {0, 1}) windows[rank == ranks() - 1 ? 1 - i : i].open_context(runtime.world());
      },
      deadline);
  expect_mismatch(outcomes, {"Window::open_context of window "});
}

// The windows have the same size: a put to one of them would change the other.
TEST_P(TeamCreationMismatch, windows_rebound_in_another_order_are_reported) {
  const auto outcomes = run_runtime(
      [&](Runtime& runtime, int rank) {
        Window windows[] = {Window::create(runtime.world(), 4096), Window::create(runtime.world(), 4096)};
        Team team = runtime.world().duplicate();
        const auto rebind = [&](bool in_order) {
          for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) windows[in_order ? i : 1 - i].rebind(team);
        };
        rebind(true);
        try {
          rebind(rank != ranks() - 1);
          ADD_FAILURE() << "rank " << rank << " got no error";
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Code::mismatch) << error.what();
          EXPECT_NE(std::string(error.what()).find("rebinds window "), std::string::npos) << error.what();
        }
        rebind(true);
        windows[1].put((rank + 1) % ranks(), 0, &rank, sizeof rank);
        team.barrier();
        int got = -1;
        std::memcpy(&got, windows[1].data(), sizeof got);
        EXPECT_EQ(got, (rank + ranks() - 1) % ranks());
        team.barrier();
      },
      deadline);
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, Code::success) << outcome.text;
}

// A duplicated team has its own sequence of calls.
TEST_P(TeamCreationMismatch, team_creation_on_another_team_is_reported) {
  const auto outcomes = run(
      [&](Team& world, int rank) {
        Team team = world.duplicate();
        if (rank == 0) {
          team.close();
        } else {
          team.allreduce(in.data(), output().data(), 1, DType::u64, sum);
        }
        team.barrier();
      },
      deadline);
  expect_mismatch(outcomes, {"Team::close", "allreduce(1 x u64, sum)"});
}

// A mismatch on the world doesn't prevent its ranks from closing the runtime in order.
TEST_P(TeamCreationMismatch, runtime_can_be_closed_afterwards) {
  const auto outcomes = run_runtime(
      [&](Runtime& runtime, int rank) {
        std::uint64_t out = 0;
        try {
          runtime.world().allreduce(in.data(), &out, 1, DType::u64, rank == 0 ? sum : max);
          runtime.world().barrier();
          ADD_FAILURE() << "rank " << rank << " got no error";
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Code::mismatch) << error.what();
        }
        runtime.close();
      },
      deadline);
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, Code::success) << outcome.text;
}

void expect_closed(Runtime& runtime) {
  try {
    runtime.close();
    ADD_FAILURE() << "it wasn't closed";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the runtime is closed"), std::string::npos) << error.what();
  }
}

// Only one rank has failed. It notifies the others while they close.
TEST_P(TeamCreationMismatch, runtime_can_be_closed_after_an_earlier_local_failure) {
  std::barrier here(ranks());
  const auto outcomes = run_runtime(
      [&](Runtime& runtime, int rank) {
        runtime.world().barrier();
        here.arrive_and_wait();
        if (rank == 0) {
          auto& state = *runtime.world().object();
          state.schedules().fail(base::Status::failure(Code::out_of_memory, "no memory for an operation", 0));
        }
        EXPECT_EQ(code_of([&] { runtime.close(); }) == Code::success, rank == 0) << "rank " << rank;
        expect_closed(runtime);
      },
      deadline);
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, Code::success) << outcome.text;
}

// A rank that only sends in a gather gets the mismatch in its next call. That call, a close, still closes: otherwise no
// rank could close.
TEST_P(TeamCreationMismatch, close_completes_when_it_detects_the_mismatch) {
  std::barrier here(ranks());
  const auto outcomes = run_runtime(
      [&](Runtime& runtime, int rank) {
        Window window = Window::create(runtime.world(), 4096);
        here.arrive_and_wait();  // no rank gets the error in Window::create
        std::vector<std::uint64_t> out(100);
        std::vector<Code> told;
        told.push_back(
            code_of([&] { runtime.world().gather(in.data(), out.data(), rank == ranks() - 1 ? 8 : 16, 0); }));
        told.push_back(code_of([&] { window.close(); }));
        EXPECT_FALSE(window.is_open());
        told.push_back(code_of([&] { runtime.close(); }));
        expect_closed(runtime);
        EXPECT_EQ(std::count(told.begin(), told.end(), Code::mismatch), 1) << "rank " << rank;
        EXPECT_EQ(std::count(told.begin(), told.end(), Code::success), 2) << "rank " << rank;
      },
      deadline);
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, Code::success) << outcome.text;
}

// A rank that exits after its error must not be reported instead of the mismatch. Its own call may be missing in the
// text.
TEST_P(TeamCreationMismatch, mismatch_is_reported_instead_of_resulting_deaths) {
  const auto outcomes = run_runtime(
      [&](Runtime& runtime, int rank) {
        Runtime own = std::move(runtime);  // at the first Error its destructor leaves without a goodbye
        std::vector<std::uint64_t> out(100);
        own.world().gather(in.data(), out.data(), rank == ranks() - 1 ? 8 : 16, 0);
        own.close();
      },
      deadline);
  expect_mismatch(outcomes, {"gather("});
}

TEST_P(TeamCreationMismatch, mismatch_is_reported_by_a_rank_that_checks_last) {
  for (const bool has_put : {false, true}) {  // the barrier completes the put first
    std::barrier here(ranks());
    const auto outcomes = run_runtime(
        [&](Runtime& runtime, int rank) {
          Runtime own = std::move(runtime);
          Window window = Window::create(own.world(), 64);
          std::vector<std::uint64_t> out(100);
          here.arrive_and_wait();
          const bool is_late = rank == ranks() - 1;
          try {
            if (is_late && has_put) window.put(0, 0, out.data(), 64);
            own.world().gather(in.data(), out.data(), is_late ? 8 : 16, 0);
            if (is_late) here.arrive_and_wait();
            own.world().barrier();
          } catch (const Error&) {
            if (!is_late) [[maybe_unused]]
              Runtime gone = std::move(own);
            if (!is_late) (void)here.arrive();
            throw;
          }
        },
        deadline);
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.code, Code::mismatch) << outcome.text;
    EXPECT_EQ(count_of(outcomes.back().text, "called gather"), 2) << outcomes.back().text;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, TeamCreationMismatch,
                         testing::Values(std::tuple(2, 1), std::tuple(2, 2), std::tuple(3, 1), std::tuple(4, 2),
                                         std::tuple(5, 1)),
                         [](const auto& info) {
                           return "np" + std::to_string(std::get<0>(info.param)) + "_nodes" +
                                  std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace hmc
