// Non-blocking and persistent collectives.
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "tests/multirank/collectives_every.hpp"

using namespace hmc::spmd;

HMC_SPMD_TEST(Started, every_collective_works_without_blocking) {
  std::uint64_t number = 0;
  for (int i = 0; i < collective_count; ++i) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{3}, std::size_t{90'001}}) {
      for (const bool irregular : {false, true}) {
        Every what = some(static_cast<CollectiveKind>(i), count, ++number);
        what.irregular = irregular;
        EveryCall call(me.rank, me.size, what);
        hmc::Request request = call.start(me.runtime->world());
        request.wait();
        HMC_CHECK_CLEAN(call.check());
        HMC_CHECK(request.test());
      }
    }
  }
}

// Vectors of several segments: the ranks of a node get sums from each other's scratch. The next segment and the next
// call may use that scratch only when all of them have been got. One rank is late: the calls with a user function run
// only in its own waits.
HMC_SPMD_TEST(Started, long_allreduces_overlap) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr std::size_t counts[] = {8'191, 200'003};
#else
  constexpr std::size_t counts[] = {8'191, 70'001, 400'003};
#endif
  hmc::Team& world = me.runtime->world();
  hmc::Team half = world.split(me.rank % 2, me.rank);
  const int half_rank = me.rank / 2, half_size = (me.size + (me.rank % 2 == 0 ? 1 : 0)) / 2;
  std::uint64_t number = 40;
  for (const std::size_t count : counts) {
    std::vector<std::unique_ptr<EveryCall>> calls;
    std::vector<hmc::Request> requests;
    for (std::uint64_t i = 0; i < (count > 100'000 ? 4 : 12); ++i) {
      Every what = some(CollectiveKind::allreduce, count + i, ++number);
      what.in_place = i % 2 == 1 && (i + static_cast<std::uint64_t>(me.rank)) % 3 != 0;
      what.user = i % 4 == 2;
      what.deterministic = i % 4 == 3;
      const bool in_half = i % 5 == 4;
      calls.push_back(in_half ? std::make_unique<EveryCall>(half_rank, half_size, what)
                              : std::make_unique<EveryCall>(me.rank, me.size, what));
      requests.push_back(calls.back()->start(in_half ? half : world));
    }
    if (me.rank == me.size - 1) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    for (hmc::Request& request : requests) request.wait();
    for (const auto& call : calls) HMC_CHECK_CLEAN(call->check());
  }
  const bool by_model = std::getenv("HMC_COLL") == nullptr && std::getenv("HMC_COLL_FILE") == nullptr;
  if (by_model && all_direct(me) && me.size > 1)
    HMC_CHECK_GE(world.calls_by_algorithm("allreduce", "shared_slices"), 1U);
  half.close();
}

HMC_SPMD_TEST(Started, plan_of_a_long_allreduce_runs_again) {
  for (const bool in_place : {false, true}) {
    Every what = some(CollectiveKind::allreduce, 200'007, 7);
    what.in_place = in_place;
    EveryCall call(me.rank, me.size, what);
    hmc::Plan plan = call.plan(me.runtime->world());
    for (std::uint64_t run = 1; run <= 4; ++run) {
      call.fill(100 + run);
      plan.start();
      plan.wait();
      HMC_CHECK_CLEAN(call.check());
    }
  }
}

HMC_SPMD_TEST(Started, ibarrier_completes_when_all_ranks_started_it) {
  hmc::Team& world = me.runtime->world();
  hmc::Window win = hmc::Window::create(world, 64);
  for (std::uint64_t round = 1; round <= 50; ++round) {
    if (me.rank == me.size - 1) std::this_thread::yield();
    win.fetch_add<std::uint64_t>(0, 0, 1);
    hmc::Request request = world.ibarrier();
    while (!request.test()) std::this_thread::yield();
    HMC_CHECK_GE(win.fetch<std::uint64_t>(0, 0), round * static_cast<std::uint64_t>(me.size));
  }
  world.barrier();
  win.close();
}

HMC_SPMD_TEST(Started, started_calls_progress_during_another_wait) {
  if (me.size < 2) skip("needs a peer");
  hmc::Team& world = me.runtime->world();
  hmc::Window win = hmc::Window::create(world, 64);
  EveryCall call(me.rank, me.size, some(CollectiveKind::allreduce, 70'000, 5));
  hmc::Request request = call.start(world);
  // Rank 0 completes its part first and then releases the others, which are outside that collective's calls.
  if (me.rank == 0) {
    request.wait();
    for (int peer = 1; peer < me.size; ++peer) win.put_signal(peer, 0, nullptr, 0, 8, 1);
  } else {
    win.wait_until(8, hmc::Cmp::eq, 1);
    request.wait();
  }
  HMC_CHECK_CLEAN(call.check());
  win.close();
}

HMC_SPMD_TEST(Started, more_calls_than_areas_may_be_in_flight) {
  constexpr std::size_t many = 50;
  std::vector<std::unique_ptr<EveryCall>> calls;
  std::vector<hmc::Request> requests;
  for (std::size_t i = 0; i < many; ++i) {
    calls.push_back(std::make_unique<EveryCall>(me.rank, me.size, some(CollectiveKind::broadcast, i * 10, i)));
    requests.push_back(calls.back()->start(me.runtime->world()));
  }
  std::size_t over = 0;
  while (hmc::Request::wait_any(requests) != hmc::Request::none) ++over;
  HMC_CHECK_EQ(over, many);
  for (const auto& call : calls) HMC_CHECK_CLEAN(call->check());
}

// alltoallv reserves more call numbers than it needs. Each of them may have a guard that other ranks wait for.
HMC_SPMD_TEST(Started, alltoallv_runs_among_other_calls) {
  std::vector<std::unique_ptr<EveryCall>> calls;
  std::vector<hmc::Request> requests;
  for (std::uint64_t i = 0; i < 60; ++i) {
    Every what = some(i % 3 == 2 ? CollectiveKind::broadcast : CollectiveKind::alltoall, i % 7 * 100, 900 + i);
    what.irregular = true;
    what.root = static_cast<int>(i) % me.size;
    calls.push_back(std::make_unique<EveryCall>(me.rank, me.size, what));
    requests.push_back(calls.back()->start(me.runtime->world()));
  }
  hmc::Request::wait_all(requests);
  for (const auto& call : calls) HMC_CHECK_CLEAN(call->check());
}

HMC_SPMD_TEST(Planned, plan_runs_a_thousand_times) {
  hmc::Team& world = me.runtime->world();
  EveryCall sums(me.rank, me.size, some(CollectiveKind::allreduce, 100, 1));
  EveryCall blocks(me.rank, me.size, some(CollectiveKind::alltoall, 7, 2));
  hmc::Plan first = sums.plan(world);
  hmc::Plan second = blocks.plan(world);
  for (std::uint64_t run = 0; run < 1000; ++run) {
    sums.fill(10 + 2 * run);
    blocks.fill(11 + 2 * run);
    first.start();
    second.start();
    if (run % 2 == static_cast<std::uint64_t>(me.rank) % 2) {
      first.wait();
      second.wait();
    } else {
      second.wait();
      first.wait();
    }
    HMC_CHECK_CLEAN(sums.check());
    HMC_CHECK_CLEAN(blocks.check());
  }
}

HMC_SPMD_TEST(Planned, plan_of_every_collective_runs_in_pieces) {
  std::uint64_t number = 0;
  for (int i = 0; i < collective_count; ++i) {
    for (const bool irregular : {false, true}) {
      Every what = some(static_cast<CollectiveKind>(i), 100'003 / static_cast<std::size_t>(me.size), ++number);
      what.irregular = irregular;
      EveryCall call(me.rank, me.size, what);
      hmc::Plan plan = call.plan(me.runtime->world());
      for (int run = 0; run < 3; ++run) {
        call.fill(++number);
        plan.start();
        plan.wait();
        HMC_CHECK_CLEAN(call.check());
      }
    }
  }
}

// The caller states the largest count. No buffer has that many bytes.
HMC_SPMD_TEST(Started, impossible_largest_count_is_rejected) {
  hmc::Team& world = me.runtime->world();
  const std::vector<std::size_t> counts(static_cast<std::size_t>(me.size), 1);
  std::vector<std::uint64_t> in(counts.size()), out(counts.size());
  for (const std::size_t largest : {SIZE_MAX, SIZE_MAX / 8, std::size_t{1} << 46}) {
    HMC_CHECK_THROWS(hmc::Code::invalid_argument,
                     static_cast<void>(world.ialltoallv(in.data(), counts, {}, out.data(), counts, {}, largest, 8)));
    HMC_CHECK_THROWS(hmc::Code::invalid_argument,
                     world.plan_alltoallv(in.data(), counts, {}, out.data(), counts, {}, largest, 8));
  }
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint64_t>(me.rank) * 100 + i;
  world.ialltoallv(in.data(), counts, {}, out.data(), counts, {}, 1, 8).wait();
  for (std::size_t i = 0; i < out.size(); ++i) HMC_CHECK_EQ(out[i], i * 100 + static_cast<std::uint64_t>(me.rank));
}
