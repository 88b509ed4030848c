// Started collectives progress while their caller makes no HMC call. Each rank checks, by internal state only, whether
// any of its operations is in flight, and calls wait or test only when none is.
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "collectives/args/check.hpp"
#include "collectives/team/team_object.hpp"
#include "tests/multirank/collectives_every.hpp"

namespace {

using namespace hmc::spmd;
using namespace std::chrono_literals;

hmc::progress::Background& background_of(const TestRank& me) { return me.runtime->world().core()->fabric().background; }

/// Holds the lock only for the check, as the progress thread does. Drives no progress.
bool goes_on(const TestRank& me, const std::vector<hmc::Team>& teams) {
  const std::lock_guard guard(background_of(me).lock());
  for (const hmc::Team& team : teams)
    if (team && team.object()->schedules().goes_on()) return true;
  return false;
}

void compute_until_all_is_over(const TestRank& me, const std::vector<hmc::Team>& teams) {
  const auto limit = std::chrono::steady_clock::now() + 20s;
  while (goes_on(me, teams)) {
    HMC_CHECK_MSG(std::chrono::steady_clock::now() < limit, "the operation makes no progress");
    std::this_thread::sleep_for(20us);
  }
}

struct Watched {
  std::thread::id owner;
  int elsewhere = 0;
};
void add_watched(void* accumulated, const void* next, std::size_t count, hmc::DType, void* context) {
  auto& watched = *static_cast<Watched*>(context);
  if (std::this_thread::get_id() != watched.owner) ++watched.elsewhere;
  for (std::size_t i = 0; i < count; ++i)
    static_cast<std::uint64_t*>(accumulated)[i] += static_cast<const std::uint64_t*>(next)[i];
}

}  // namespace

// Must run first: no operation has been started.
HMC_SPMD_TEST(Progress, thread_exists_only_while_requests_are_in_flight) {
  hmc::Team& world = me.runtime->world();
  world.barrier();
  HMC_CHECK(!background_of(me).is_running());
  hmc::Team alone = world.split(me.rank);
  alone.ibarrier().wait();
  HMC_CHECK(!background_of(me).is_running());
  alone.close();
}

HMC_SPMD_TEST(Progress, every_collective_completes_while_all_ranks_compute) {
  hmc::Team& world = me.runtime->world();
  std::uint64_t number = 0;
  for (int i = 0; i < collective_count; ++i) {
    for (const bool irregular : {false, true}) {
      Every what = some(static_cast<CollectiveKind>(i), 60'011 / static_cast<std::size_t>(me.size), ++number);
      what.irregular = irregular;
      EveryCall call(me.rank, me.size, what);
      hmc::Request request = call.start(world);
      compute_until_all_is_over(me, {world});
      HMC_CHECK_CLEAN(call.check());
      // test() never waits, so it returns false while the progress thread holds the lock.
      const auto limit = std::chrono::steady_clock::now() + 20s;
      while (!request.test()) HMC_CHECK(std::chrono::steady_clock::now() < limit);
    }
  }
}

HMC_SPMD_TEST(Progress, large_collective_in_many_pieces_completes) {
  hmc::Team& world = me.runtime->world();
  EveryCall call(me.rank, me.size, some(CollectiveKind::allreduce, 500'003, 77));
  hmc::Request request = call.start(world);
  compute_until_all_is_over(me, {world});
  HMC_CHECK_CLEAN(call.check());
  request.wait();
}

HMC_SPMD_TEST(Progress, several_calls_on_overlapping_teams_complete) {
  hmc::Team& world = me.runtime->world();
  std::vector<hmc::Team> teams = {world, world.duplicate(), world.split(me.rank % 2),
                                  world.split(me.rank / 2, -me.rank)};
  std::vector<std::unique_ptr<EveryCall>> calls;
  std::vector<hmc::Request> requests;
  for (std::uint64_t round = 0; round < 12; ++round) {
    for (std::size_t t = 0; t < teams.size(); ++t) {
      const auto kind = static_cast<CollectiveKind>((round * 5 + t) % collective_count);
      calls.push_back(
          std::make_unique<EveryCall>(teams[t].rank(), teams[t].size(), some(kind, 17 + round * 301, 100 * round + t)));
      requests.push_back(calls.back()->start(teams[t]));
    }
  }
  compute_until_all_is_over(me, teams);
  for (const auto& call : calls) HMC_CHECK_CLEAN(call->check());
  hmc::Request::wait_all(requests);
  for (std::size_t t = teams.size(); t-- > 1;) teams[t].close();
}

HMC_SPMD_TEST(Progress, started_and_dropped_plan_completes) {
  hmc::Team& world = me.runtime->world();
  EveryCall sums(me.rank, me.size, some(CollectiveKind::allreduce, 20'000, 1));
  EveryCall blocks(me.rank, me.size, some(CollectiveKind::alltoall, 300, 2));
  hmc::Plan first = sums.plan(world);
  hmc::Plan second = blocks.plan(world);
  for (std::uint64_t run = 0; run < 10; ++run) {
    sums.fill(10 + 2 * run);
    blocks.fill(11 + 2 * run);
    first.start();
    second.start();
    compute_until_all_is_over(me, {world});
    HMC_CHECK_CLEAN(sums.check());
    HMC_CHECK_CLEAN(blocks.check());
    first.wait();
    second.wait();
  }
}

// The thread leaves callers alone that always wait at once. It must resume when such a caller stops waiting.
HMC_SPMD_TEST(Progress, many_simultaneous_waits_are_followed_by_progress) {
  hmc::Team& world = me.runtime->world();
  for (std::uint64_t round = 0; round < 3; ++round) {
    for (std::uint64_t i = 0; i < 100; ++i) {
      EveryCall call(me.rank, me.size, some(CollectiveKind::allreduce, 1 + i % 3, i));
      hmc::Request request = call.start(world);
      if (i % 2 == 0) {
        request.wait();
      } else {
        while (!request.test()) std::this_thread::yield();
      }
      HMC_CHECK_CLEAN(call.check());
    }
    EveryCall call(me.rank, me.size, some(CollectiveKind::allreduce, 10'000, 1000 + round));
    hmc::Request request = call.start(world);
    compute_until_all_is_over(me, {world});
    HMC_CHECK_CLEAN(call.check());
    request.wait();
  }
}

// A caller that always waited at once now computes for a few milliseconds between its calls. From the second time on,
// the thread must progress its operations. On a busy machine it may miss some rounds.
HMC_SPMD_TEST(Progress, many_short_computations_have_progress) {
  hmc::Team& world = me.runtime->world();
  const auto& schedules = world.object()->schedules();
  for (std::uint64_t i = 0; i < 100; ++i) {
    EveryCall call(me.rank, me.size, some(CollectiveKind::allreduce, 100, i));
    call.start(world).wait();
  }
  // In forty rounds a thread that isn't woken runs only two or three times, by its own timer.
  constexpr std::uint64_t rounds = 40;
  std::uint64_t left = 0, moved = 0, all_moved = 0;
  for (std::uint64_t round = 0; round < 10 * rounds && all_moved == 0; ++round) {
    if (round % rounds == 0) left = moved = 0;
    std::vector<std::unique_ptr<EveryCall>> calls;
    std::vector<hmc::Request> requests;
    for (std::uint64_t i = 0; i < 3; ++i) {
      calls.push_back(
          std::make_unique<EveryCall>(me.rank, me.size, some(CollectiveKind::allreduce, 300, 1000 + 10 * round + i)));
      requests.push_back(calls.back()->start(world));
    }
    const std::uint64_t moves = schedules.moves();
    const bool is_left = goes_on(me, {world});  // the last rank to arrive may have completed all of it
    std::this_thread::sleep_for(3ms);           // on purpose: models computation
    if (is_left) ++left;
    if (is_left && (schedules.moves() != moves || !goes_on(me, {world}))) ++moved;
    for (hmc::Request& request : requests) request.wait();
    for (const auto& call : calls) HMC_CHECK_CLEAN(call->check());
    if (round % rounds == rounds - 1) {
      const std::uint64_t is_enough = moved * 8 >= left ? 1 : 0;
      world.allreduce(&is_enough, &all_moved, 1, hmc::DType::u64, hmc::min);
    }
  }
  HMC_CHECK_MSG(all_moved == 1, "of the last {} here in {} of {}", rounds, moved, left);
}

HMC_SPMD_TEST(Progress, blocking_collectives_run_beside_requests) {
  hmc::Team& world = me.runtime->world();
  std::vector<std::unique_ptr<EveryCall>> calls;
  std::vector<hmc::Request> requests;
  for (std::uint64_t i = 0; i < 100; ++i) {
    if (i % 10 == 0) {
      calls.push_back(std::make_unique<EveryCall>(me.rank, me.size, some(CollectiveKind::allreduce, 9000, 500 + i)));
      requests.push_back(calls.back()->start(world));
    }
    if (i % 3 == 0) world.barrier();
    EveryCall blocking(me.rank, me.size,
                       some(i % 2 == 0 ? CollectiveKind::allreduce : CollectiveKind::gather, 5 + i, 700 + i));
    blocking.blocking(world);
    HMC_CHECK_CLEAN(blocking.check());
  }
  compute_until_all_is_over(me, {world});
  for (const auto& call : calls) HMC_CHECK_CLEAN(call->check());
  hmc::Request::wait_all(requests);
}

HMC_SPMD_TEST(Progress, user_function_runs_on_the_caller_thread_only) {
  hmc::Team& world = me.runtime->world();
  Watched watched{std::this_thread::get_id()};
  const auto rank = static_cast<std::uint64_t>(me.rank);
  std::vector<std::uint64_t> in(1000), out(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = rank * 1000 + i;
  EveryCall other(me.rank, me.size, some(CollectiveKind::allgather, 100, 3));
  hmc::Request first =
      world.iallreduce(in.data(), out.data(), in.size(), hmc::DType::u64, hmc::Reduction(add_watched, &watched));
  hmc::Request second = other.start(world);
  compute_until_all_is_over(me, {world});  // all but steps that only the caller may run
  HMC_CHECK_CLEAN(other.check());
  first.wait();
  second.wait();
  HMC_CHECK_EQ(watched.elsewhere, 0);
  const auto n = static_cast<std::uint64_t>(me.size);
  for (std::size_t i = 0; i < in.size(); i += 49) HMC_CHECK_EQ(out[i], n * (n - 1) / 2 * 1000 + n * i);
}

HMC_SPMD_TEST(Progress, abandoned_requests_complete) {
  hmc::Team& world = me.runtime->world();
  EveryCall call(me.rank, me.size, some(CollectiveKind::allreduce, 30'000, 9));
  call.start(world).abandon();
  compute_until_all_is_over(me, {world});
  HMC_CHECK_CLEAN(call.check());
  world.barrier();
}

namespace {

/// Models a device stream: a separate thread reaches the place and stops there.
class TestPlace final : public hmc::collectives::StreamPosition {
 public:
  struct Stream {
    std::atomic<bool> has_come{false};
    std::atomic<bool> may_go_on{false};
  };
  explicit TestPlace(Stream& stream) : stream_(stream) {}
  hmc::base::Status reached() noexcept override {
    return stream_.has_come.load() ? hmc::base::Status{} : hmc::base::Status::in_progress();
  }
  void continue_stream() noexcept override { stream_.may_go_on.store(true); }

 private:
  Stream& stream_;
};

}  // namespace

// Several calls are enqueued at once. Each call reads its stream's output, and the stream continues with the call's
// result.
HMC_SPMD_TEST(Progress, stream_ordered_call_waits_for_its_stream) {
  hmc::Team team = me.runtime->world().duplicate();
  auto& schedules = team.object()->schedules();
  constexpr std::size_t calls = 6, count = 5000;
  for (std::uint64_t round = 0; round < 4; ++round) {
    TestPlace::Stream streams[calls];
    std::vector<std::vector<std::uint64_t>> data(calls, std::vector<std::uint64_t>(count));
    for (std::size_t call = 0; call < calls; ++call) {
      const auto given =
          hmc::collectives::check(*team.object(), hmc::describe::allreduce(data[call], data[call], hmc::sum), "test");
      std::uint64_t ticket = 0;  // only the stream waits for the result
      HMC_CHECK(schedules.start(given, ticket, nullptr, std::make_unique<TestPlace>(streams[call])).ok());
    }
    std::thread device([&] {
      for (std::size_t call = 0; call < calls; ++call) {
        if (call % 2 == static_cast<std::size_t>(me.rank) % 2) std::this_thread::sleep_for(1ms);
        for (std::size_t i = 0; i < count; ++i) data[call][i] = Pattern{me.rank, round * calls + call}.word(i) >> 8;
        streams[call].has_come.store(true);
        while (!streams[call].may_go_on.load()) std::this_thread::sleep_for(20us);
      }
    });
    device.join();
    for (std::size_t call = 0; call < calls; ++call) {
      for (std::size_t i = 0; i < count; ++i) {
        std::uint64_t sum = 0;
        for (int rank = 0; rank < me.size; ++rank) sum += Pattern{rank, round * calls + call}.word(i) >> 8;
        HMC_CHECK_EQ(data[call][i], sum);
      }
    }
  }
  team.close();
}

// A rank fails the team: every stream that waits for a call continues.
HMC_SPMD_TEST(Progress, failed_team_releases_its_streams) {
  if (me.size < 2) skip("for two ranks");
  TestPlace::Stream streams[3];  // outlive the team, whose end lets the calls' streams continue again
  hmc::Team team = me.runtime->world().duplicate();
  auto& schedules = team.object()->schedules();
  std::uint64_t ticket = 0;
  for (TestPlace::Stream& stream : streams) {
    auto place = std::make_unique<TestPlace>(stream);
    HMC_CHECK(schedules.start(hmc::collectives::barrier_args(), ticket, nullptr, std::move(place)).ok());
  }
  streams[0].has_come.store(true);  // the other streams never reach their places
  me.runtime->world().barrier();
  if (me.rank == me.size - 1) schedules.fail(hmc::base::Status::failure(hmc::Code::error, "on purpose"));
  const auto limit = std::chrono::steady_clock::now() + 20s;
  for (const TestPlace::Stream& stream : streams)
    while (!stream.may_go_on.load()) {
      HMC_CHECK(std::chrono::steady_clock::now() < limit);
      std::this_thread::sleep_for(100us);
    }
  me.runtime->world().barrier();
}
