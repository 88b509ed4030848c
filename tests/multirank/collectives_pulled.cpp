// The collectives by load and store in which each rank takes what it needs out of the others' inputs.
#include "tests/multirank/collectives_every.hpp"

namespace {

using namespace hmc::spmd;

constexpr Collective pulled[] = {Collective::gather, Collective::scatter,        Collective::alltoall,
                                 Collective::reduce, Collective::reduce_scatter, Collective::scan,
                                 Collective::exscan};
// Words: around a line, a slot, a chunk of the ring, several chunks, more chunks than the ring has.
constexpr std::size_t counts[] = {0, 1, 6, 7, 60, 512, 513, 8192, 8193, 50'001};

bool ordered(Collective collective) { return hmc::collectives::schedule::reduces(collective); }

}  // namespace

HMC_SPMD_TEST(pulled, takes_inputs_wherever_they_lie) {
  hmc::Team& world = me.runtime->world();
  const std::size_t most = counts[std::size(counts) - 1] * static_cast<std::size_t>(me.size);
  hmc::Window window = hmc::Window::create(world, most * 8);
  std::uint64_t number = 0;
  for (const Collective collective : pulled) {
    for (const std::size_t count : counts) {
      for (int form = 0; form < 8; ++form) {
        Every what;
        what.collective = collective;
        what.count = count;
        what.root = form % 3 * (me.size - 1) / 2;
        what.call = ++number;
        what.user = ordered(collective) && form % 4 == 1;
        // Ranks choose differently.
        const std::uint64_t bits = Pattern{me.rank, number}.word(3);
        what.in_place = (bits & 1) != 0;
        if ((bits & 2) != 0) what.window = {window.local<std::uint64_t>(), most};
        EveryCall call(me.rank, me.size, what);
        call.blocking(world);
        const std::string wrong = call.check();
        HMC_CHECK_MSG(wrong.empty(), "{}: {} (count {}, root {}{}{}{})", name_of(collective), wrong, count, what.root,
                      what.in_place ? ", in place" : "", what.user ? ", user's function" : "",
                      what.window.empty() ? "" : ", in a window");
      }
    }
  }
  window.close();
}

HMC_SPMD_TEST(pulled, counts_what_was_staged) {
  if (me.size < 2) skip("nothing is staged");
  hmc::Team& world = me.runtime->world();
  for (int peer = 0; peer < me.size; ++peer)
    if (!me.runtime->path(peer).direct) skip("a schedule stages otherwise");
  constexpr std::size_t count = 20'000;
  hmc::Window window = hmc::Window::create(world, count * 8 * static_cast<std::size_t>(me.size));
  const auto counted = [&](bool in_window) {
    Every what;
    what.collective = Collective::alltoall;
    what.count = count;
    if (in_window) what.window = {window.local<std::uint64_t>(), count * static_cast<std::size_t>(me.size)};
    EveryCall call(me.rank, me.size, what);
    const hmc::Counters before = me.runtime->counters();
    call.blocking(world);
    const hmc::Counters after = me.runtime->counters();
    HMC_CHECK_EQ(call.check(), std::string());
    return std::pair(after.buffers_in_place - before.buffers_in_place, after.buffers_staged - before.buffers_staged);
  };
  HMC_CHECK((counted(true) == std::pair<std::uint64_t, std::uint64_t>(1, 0)));
  HMC_CHECK((counted(false) == std::pair<std::uint64_t, std::uint64_t>(0, 1)));
  window.close();
}

// Who only gives doesn't wait for the takers, and goes on to the next call, which may stage before all are there.
HMC_SPMD_TEST(pulled, the_next_call_spares_what_is_still_read) {
  hmc::Team& world = me.runtime->world();
  for (std::uint64_t round = 0; round < 20; ++round) {
    std::vector<EveryCall> calls;
    for (std::uint64_t i = 0; i < 10; ++i) {
      Every what;
      const Collective giving = (round & 1) != 0 ? Collective::scatter : Collective::gather;
      what.collective = (i & 1) != 0 ? Collective::allreduce : giving;
      what.count = 4000;
      what.call = round * 100 + i;
      calls.emplace_back(me.rank, me.size, what);
    }
    for (EveryCall& call : calls) call.blocking(world);
    for (EveryCall& call : calls) HMC_CHECK_EQ(call.check(), std::string());
  }
}
