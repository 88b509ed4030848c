// Non-blocking and persistent collectives over device memory. They are staged: the request completes only when the
// output is in device memory.
#include <algorithm>
#include <functional>

#include "tests/multirank/device_names.hpp"
#include "tests/multirank/device_words.hpp"

namespace {

using hmc::DType;
using hmc::Plan;
using hmc::Team;
using hmc::spmd::element;
using hmc::spmd::mine;
using hmc::spmd::Words;

using Numbers = std::vector<std::uint64_t>;

/// Sums over the first `ranks` ranks.
Numbers sums_of(int ranks, std::size_t count, std::uint64_t round) {
  Numbers sums(count);
  for (int rank = 0; rank < ranks; ++rank)
    for (std::size_t i = 0; i < count; ++i) sums[i] += element(rank, i, round);
  return sums;
}
Numbers all_of(int size, std::size_t count, std::uint64_t round) {
  Numbers all;
  for (int rank = 0; rank < size; ++rank) {
    const Numbers theirs = mine(rank, count, round);
    all.insert(all.end(), theirs.begin(), theirs.end());
  }
  return all;
}

constexpr std::size_t counts[] = {1, 70, 20'000};

std::string message_of(const std::function<void()>& work) {
  try {
    work();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// This rank's own fake driver. Real drivers have no fault control: on them the test is skipped before it loads the
/// control.
MemoryKind fake_cuda_or_skip(const TestRank& me) {
  const auto kinds = hmc::spmd::kinds_of(me);
  const auto cuda = std::ranges::find(kinds, std::string_view("cuda"), &MemoryKind::name);
  if (!me.options.processes || !hmc::spmd::drivers_are_fake() || cuda == kinds.end())
    hmc::spmd::skip("for a fake driver of each rank's own");
  return *cuda;
}
struct Vendor {
  explicit Vendor(const TestRank& me) : kind(fake_cuda_or_skip(me)), fake(kind.name) {}
  MemoryKind kind;
  Fake fake;
};

}  // namespace

HMC_SPMD_TEST(DeviceStarted, started_call_has_the_result_of_its_blocking_form) {
  Team& world = me.runtime->world();
  const auto size = static_cast<std::size_t>(me.size), rank = static_cast<std::size_t>(me.rank);
  over_every_pair(me, [&](MemoryKind kind, std::uint64_t round) {
    const std::size_t count = counts[round % std::size(counts)];
    const int root = static_cast<int>(round) % me.size;
    Words block(kind, count), all(kind, count * size), sum(kind, count), part(kind, count), prefix(kind, count),
        before(kind, count), gathered(kind, count * size), everyone(kind, count * size), turned(kind, count * size),
        told(kind, count), given(kind, count);
    block.write(mine(me.rank, count, round));
    all.write(all_of(me.size, count, round));
    told.write(mine(me.rank, count, round));
    before.write(Numbers(count, 7));
    std::vector<Request> requests;
    requests.push_back(world.ibarrier());
    requests.push_back(world.iallreduce(block.at(), sum.at(), count, DType::u64, hmc::sum));
    requests.push_back(world.ibroadcast(told.at(), count * 8, root));
    requests.push_back(world.iallgather(block.at(), everyone.at(), count * 8));
    requests.push_back(world.igather(block.at(), gathered.at(), count * 8, root));
    requests.push_back(world.iscatter(all.at(), given.at(), count * 8, root));
    requests.push_back(world.ireduce_scatter(all.at(), part.at(), count, DType::u64, hmc::sum));
    requests.push_back(world.iscan(block.at(), prefix.at(), count, DType::u64, hmc::sum));
    requests.push_back(world.iexscan(block.at(), before.at(), count, DType::u64, hmc::sum));
    requests.push_back(world.ialltoall(all.at(), turned.at(), count * 8));
    for (auto request = requests.rbegin(); request != requests.rend(); ++request) request->wait();
    HMC_CHECK(sum.read() == sums_of(me.size, count, round));
    HMC_CHECK(told.read() == mine(root, count, round));
    HMC_CHECK(everyone.read() == all_of(me.size, count, round));
    if (me.rank == root) HMC_CHECK(gathered.read() == all_of(me.size, count, round));
    HMC_CHECK(given.read() == mine(me.rank, count, round));
    Numbers times = mine(me.rank, count, round);
    for (auto& word : times) word *= size;
    HMC_CHECK(part.read() == times);
    HMC_CHECK(prefix.read() == sums_of(me.rank + 1, count, round));
    HMC_CHECK(before.read() == (me.rank == 0 ? Numbers(count, 7) : sums_of(me.rank, count, round)));
    Numbers mine_of_all;
    for (std::size_t each = 0; each < size; ++each) {
      const Numbers same = mine(static_cast<int>(rank), count, round);
      mine_of_all.insert(mine_of_all.end(), same.begin(), same.end());
    }
    HMC_CHECK(turned.read() == mine_of_all);
    // In place, and a reduction at a root.
    world.iallreduce(block.at(), block.at(), count, DType::u64, hmc::sum).wait();
    HMC_CHECK(block.read() == sums_of(me.size, count, round));
    block.write(mine(me.rank, count, round + 1));
    world.ireduce(block.at(), sum.at(), count, DType::u64, hmc::sum, root).wait();
    if (me.rank == root) HMC_CHECK(sum.read() == sums_of(me.size, count, round + 1));
  });
}

HMC_SPMD_TEST(DeviceStarted, v_forms_do_not_write_between_blocks) {
  Team& world = me.runtime->world();
  const auto size = static_cast<std::size_t>(me.size);
  over_every_pair(me, [&](MemoryKind kind, std::uint64_t round) {
    std::vector<std::size_t> lengths(size), places(size);
    for (std::size_t each = 0; each < size; ++each) {
      lengths[each] = (each + round) % 3;
      places[each] = each * 5;
    }
    Words block(kind, 3), gaps(kind, 5 * size);
    block.write(mine(me.rank, 3, round));
    gaps.write(Numbers(5 * size, 99));
    Request request = world.iallgatherv(block.at(), gaps.at(), lengths, places, 8);
    while (!request.test()) {
    }
    const Numbers filled = gaps.read();
    for (std::size_t i = 0; i < filled.size(); ++i)
      HMC_CHECK_EQ(filled[i], i % 5 < lengths[i / 5] ? element(static_cast<int>(i / 5), i % 5, round) : 99U);
  });
}

// Each start of a plan reads the input, and the output is complete when the run completes.
HMC_SPMD_TEST(DeviceStarted, each_run_of_a_plan_reads_its_input_again) {
  Team& world = me.runtime->world();
  const auto size = static_cast<std::size_t>(me.size);
  over_every_pair(me, [&](MemoryKind kind, std::uint64_t round) {
    const std::size_t count = counts[round % std::size(counts)];
    Words in(kind, count), sum(kind, count), all(kind, count * size);
    Plan reduces = world.plan_allreduce(in.at(), sum.at(), count, DType::u64, hmc::sum);
    Plan gathers = world.plan_allgather(in.at(), all.at(), count * 8);
    for (std::uint64_t run = 0; run < 3; ++run) {
      in.write(mine(me.rank, count, round + run));
      reduces.start();
      gathers.start();
      gathers.wait();
      reduces.wait();
      HMC_CHECK(sum.read() == sums_of(me.size, count, round + run));
      HMC_CHECK(all.read() == all_of(me.size, count, round + run));
    }
  });
}

// Delayed drivers: a missing wait for a copy exposes old bytes, in the input and in the output.
HMC_SPMD_TEST(DeviceStarted, request_completes_when_the_output_is_written) {
  Team& world = me.runtime->world();
  if (!hmc::spmd::drivers_are_fake()) hmc::spmd::skip("for fake drivers, whose streams can be delayed");
  for (const MemoryKind& kind : hmc::spmd::kinds_of(me)) {
    if (kind.type == MemoryType::CPU || kind.type == MemoryType::OPENCL) continue;
    const Fake fake(kind.name);
    constexpr std::size_t count = 3000;
    Words in(kind, count), out(kind, count);
    in.write(mine(me.rank, count, 5));
    const hmc::spmd::AllLate late(me, fake, 2000);
    Request request = world.iallreduce(in.at(), out.at(), count, DType::u64, hmc::sum);
    while (!request.test()) {
    }
    HMC_CHECK(out.read() == sums_of(me.size, count, 5));
  }
}

// An abandoned collective still progresses. Closing the team waits for it.
HMC_SPMD_TEST(DeviceStarted, close_of_a_team_completes_abandoned_requests) {
  over_every_pair(me, [&](MemoryKind kind, std::uint64_t round) {
    if (round % 3 != 1) return;
    constexpr std::size_t count = 500;
    Words in(kind, count), out(kind, count);
    in.write(mine(me.rank, count, round));
    Team team = me.runtime->world().duplicate();
    team.iallreduce(in.at(), out.at(), count, DType::u64, hmc::sum).abandon();
    team.close();
    HMC_CHECK(out.read() == sums_of(me.size, count, round));
  });
}

HMC_SPMD_TEST(DeviceStarted, staging_is_reused_by_the_next_call) {
  const Vendor vendor(me);
  constexpr std::size_t count = 40'000;
  Words in(vendor.kind, count), out(vendor.kind, count);
  in.write(mine(me.rank, count, 1));
  for (int call = 0; call < 3; ++call) {
    vendor.fake.arm("");
    me.runtime->world().iallreduce(in.at(), out.at(), count, DType::u64, hmc::sum).wait();
    HMC_CHECK_EQ(vendor.fake.times("cuMemcpyDtoHAsync_v2"), 1);
    HMC_CHECK_EQ(vendor.fake.times("cuMemcpyHtoDAsync_v2"), 1);
    if (call > 0) HMC_CHECK_EQ(vendor.fake.times("cuMemHostAlloc"), 0);
  }
  HMC_CHECK(out.read() == sums_of(me.size, count, 1));
}

// The output of one rank can't be copied to its device: only that rank's wait fails, and the team still works.
HMC_SPMD_TEST(DeviceStarted, failed_output_is_reported_only_to_its_rank) {
  const Vendor vendor(me);
  Team& world = me.runtime->world();
  constexpr std::size_t count = 3000;
  Words in(vendor.kind, count), out(vendor.kind, count);
  in.write(mine(me.rank, count, 1));
  Plan plan = world.plan_allreduce(in.at(), out.at(), count, DType::u64, hmc::sum);
  for (int round = 0; round < 2 * me.size; ++round) {
    const bool is_victim = me.rank == round % me.size;
    if (is_victim) vendor.fake.arm("cuMemcpyHtoDAsync_v2:1:719");
    const std::string text = message_of([&] {
      if (round % 2 == 0) return world.iallreduce(in.at(), out.at(), count, DType::u64, hmc::sum).wait();
      plan.start();
      plan.wait();
    });
    vendor.fake.arm("");
    HMC_CHECK_MSG(text.empty() != is_victim, "'{}'", text);
    if (is_victim) HMC_CHECK_MSG(text.find("cuMemcpyHtoDAsync_v2") != std::string::npos, "{}", text);
    if (is_victim) HMC_CHECK_MSG(text.find("719") != std::string::npos, "{}", text);
    plan.start();
    plan.wait();
    HMC_CHECK(out.read() == sums_of(me.size, count, 1));
  }
}

// The holder of the request gets the error, also after many later calls.
HMC_SPMD_TEST(DeviceStarted, failed_output_is_reported_after_later_calls_too) {
  const Vendor vendor(me);
  Team& world = me.runtime->world();
  constexpr std::size_t count = 3000;
  Words in(vendor.kind, count), out(vendor.kind, count), later(vendor.kind, count);
  in.write(mine(me.rank, count, 1));
  const bool is_victim = me.rank == 0;
  if (is_victim) vendor.fake.arm("cuMemcpyHtoDAsync_v2:1:719");
  Request lost = world.iallreduce(in.at(), out.at(), count, DType::u64, hmc::sum);
  for (int i = 0; i < 5; ++i) {  // several at once, so that all free staging is used
    Request calls[3];
    Words others[2] = {Words(vendor.kind, count), Words(vendor.kind, count)};
    void* const outs[] = {later.at(), others[0].at(), others[1].at()};
    for (std::size_t k = 0; k < 3; ++k) calls[k] = world.iallreduce(in.at(), outs[k], count, DType::u64, hmc::sum);
    Request::wait_all(calls);
    HMC_CHECK(later.read() == sums_of(me.size, count, 1));
  }
  vendor.fake.arm("");
  HMC_CHECK_EQ(message_of([&] { lost.wait(); }).empty(), !is_victim);
}

// An input can't be copied from its device: that rank's call fails, and all other ranks' waits end.
HMC_SPMD_TEST(DeviceStarted, unreadable_input_ends_the_call_on_all_ranks) {
  const Vendor vendor(me);
  constexpr std::size_t count = 3000;
  long live = 0;
  for (int round = 0; round < 3; ++round) {
    live = vendor.fake.live();
    {
      Words in(vendor.kind, count), out(vendor.kind, count);
      Team team = me.runtime->world().duplicate();
      Plan plan = team.plan_allreduce(in.at(), out.at(), count, DType::u64, hmc::sum);
      in.write(mine(me.rank, count, 1));
      me.runtime->world().barrier();  // all ranks have created the team
      const bool is_victim = me.rank == me.size - 1;
      if (is_victim) vendor.fake.arm("cuMemcpyDtoHAsync_v2:1:719");
      const auto call = [&] {
        return message_of([&] {
          if (round != 1) return team.iallreduce(in.at(), out.at(), count, DType::u64, hmc::sum).wait();
          plan.start();
          plan.wait();
        });
      };
      const std::string text = call();
      vendor.fake.arm("");
      HMC_CHECK(!text.empty());
      if (is_victim) HMC_CHECK_MSG(text.find("cuMemcpyDtoHAsync_v2") != std::string::npos, "{}", text);
      HMC_CHECK(!call().empty());  // the team has failed
      me.runtime->world().barrier();
    }
    me.runtime->world().barrier();
  }
  HMC_CHECK_EQ(vendor.fake.live(), live);
}
