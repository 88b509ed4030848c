// Collectives by load and store in which each rank reads its data from the other ranks' inputs.
#include <chrono>
#include <thread>

#include "tests/multirank/collectives_every.hpp"

namespace {

using namespace hmc::spmd;

constexpr CollectiveKind pulled[] = {CollectiveKind::gather, CollectiveKind::scatter,        CollectiveKind::alltoall,
                                     CollectiveKind::reduce, CollectiveKind::reduce_scatter, CollectiveKind::scan,
                                     CollectiveKind::exscan};
// Words: around a line, a slot, a chunk of the ring, several chunks, more chunks than the ring has.
constexpr std::size_t counts[] = {0, 1, 6, 7, 60, 512, 513, 8192, 8193, 50'001};

}  // namespace

HMC_SPMD_TEST(Pulled, inputs_may_be_at_any_address) {
  hmc::Team& world = me.runtime->world();
  const std::size_t most = counts[std::size(counts) - 1] * static_cast<std::size_t>(me.size);
  hmc::Window window = hmc::Window::create(world, most * 8);
  std::uint64_t number = 0;
  for (const CollectiveKind collective : pulled) {
    for (const std::size_t count : counts) {
      for (int form = 0; form < 8; ++form) {
        Every what;
        what.collective = collective;
        what.count = count;
        what.call = ++number;
        check_form(me, what, form, {window.local<std::uint64_t>(), most});
      }
    }
  }
  window.close();
}

HMC_SPMD_TEST(Pulled, counters_have_the_place_of_inputs) {
  if (me.size < 2) skip("nothing is staged");
  hmc::Team& world = me.runtime->world();
  if (!all_direct(me)) skip("schedules don't stage in this way");
  constexpr std::size_t count = 20'000;
  hmc::Window window = hmc::Window::create(world, count * 8 * static_cast<std::size_t>(me.size));
  const auto counted = [&](bool in_window) {
    Every what;
    what.collective = CollectiveKind::alltoall;
    what.count = count;
    if (in_window) what.window = {window.local<std::uint64_t>(), count * static_cast<std::size_t>(me.size)};
    EveryCall call(me.rank, me.size, what);
    const hmc::Counters before = me.runtime->counters();
    call.blocking(world);
    const hmc::Counters after = me.runtime->counters();
    HMC_CHECK_EQ(call.check(), std::string());
    return std::pair(after.buffers_in_place - before.buffers_in_place,
                     after.buffers_staged + after.buffers_read - before.buffers_staged - before.buffers_read);
  };
  HMC_CHECK((counted(true) == std::pair<std::uint64_t, std::uint64_t>(1, 0)));
  HMC_CHECK((counted(false) == std::pair<std::uint64_t, std::uint64_t>(0, 1)));
  window.close();
}

// A rank that only sends doesn't wait for the readers. Its next call may stage before all ranks have arrived.
HMC_SPMD_TEST(Pulled, next_call_does_not_overwrite_inputs_in_use) {
  hmc::Team& world = me.runtime->world();
  for (std::uint64_t round = 0; round < 20; ++round) {
    std::vector<EveryCall> calls;
    for (std::uint64_t i = 0; i < 10; ++i) {
      Every what;
      const CollectiveKind giving = (round & 1) != 0 ? CollectiveKind::scatter : CollectiveKind::gather;
      what.collective = (i & 1) != 0 ? CollectiveKind::allreduce : giving;
      what.count = 4000;
      what.call = round * 100 + i;
      calls.emplace_back(me.rank, me.size, what);
    }
    for (EveryCall& call : calls) call.blocking(world);
    for (EveryCall& call : calls) HMC_CHECK_EQ(call.check(), std::string());
  }
}

namespace {

/// A slow reader: it sleeps before it reads the other ranks' data.
void add_after_a_nap(void* accumulated, const void* next, std::size_t count, hmc::DType, void*) {
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  auto* const sums = static_cast<std::uint64_t*>(accumulated);
  const auto* const more = static_cast<const std::uint64_t*>(next);
  for (std::size_t i = 0; i < count; ++i) sums[i] += more[i];
}

}  // namespace

// The root is still reading while the senders make their next calls with the same staging.
HMC_SPMD_TEST(Pulled, next_call_does_not_overwrite_inputs_of_a_slow_root) {
  hmc::Team& world = me.runtime->world();
  for (const std::size_t count : {std::size_t{60}, std::size_t{4000}, std::size_t{20'000}}) {
    for (std::uint64_t round = 0; round < 3; ++round) {
      const int root = static_cast<int>(round) % me.size;
      std::vector<std::uint64_t> in(count), sums(count), scattered(count);
      const auto value = [&](int rank, std::size_t i) {
        return static_cast<std::uint64_t>(rank + 1) * 1'000'003 + 7 * i + round;
      };
      for (std::size_t i = 0; i < count; ++i) in[i] = value(me.rank, i);
      world.reduce(in.data(), sums.data(), count, hmc::DType::u64, {add_after_a_nap, nullptr}, root);
      // Another root, so that the slow one isn't waited for: the senders now stage other data.
      const int giver = (root + 1) % me.size;
      std::vector<std::uint64_t> blocks(me.rank == giver ? count * static_cast<std::size_t>(me.size) : 0);
      for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = ~value(giver, i);
      world.scatter(blocks.data(), scattered.data(), count * 8, giver);
      const auto first = static_cast<std::size_t>(me.rank) * count;
      for (std::size_t i = 0; i < count; ++i) {
        std::uint64_t sum = 0;
        for (int rank = 0; rank < me.size; ++rank) sum += value(rank, i);
        if (me.rank == root) HMC_CHECK_EQ(sums[i], sum);
        HMC_CHECK_EQ(scattered[i], ~value(giver, first + i));
      }
    }
  }
}
