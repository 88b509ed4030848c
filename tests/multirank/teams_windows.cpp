// Windows of teams: verbs address the team's ranks.
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "runtime/rma/team_core.hpp"
#include "tests/multirank/collectives_support.hpp"

namespace {

using namespace hmc::spmd;
using hmc::Team;
using hmc::Window;

/// Teams of unequal sizes, in reverse world order.
Team odd_and_even(TestRank& me) { return me.runtime->world().split(me.rank % 2, -me.rank); }
int next(const Team& team) { return (team.rank() + 1) % team.size(); }
int previous(const Team& team) { return (team.rank() + team.size() - 1) % team.size(); }

/// Every verb to the next rank of the team, verified at the owner. Patterns depend on world ranks.
void use(TestRank& me, Team& team, Window& win, std::uint64_t call) {
  constexpr std::size_t bytes = 1000;
  std::vector<std::byte> source(bytes), back(bytes);
  const Pattern mine{me.rank, call};
  const Pattern theirs{team.world_rank(previous(team)), call};
  mine.fill(source);
  win.put_signal(next(team), 128, source.data(), bytes, 0, call);
  HMC_CHECK_EQ(win.wait_until(0, hmc::Cmp::eq, call), call);
  HMC_CHECK_CLEAN(theirs.verify({win.data() + 128, bytes}));
  team.barrier();
  win.get(next(team), 128, back.data(), bytes);
  HMC_CHECK_CLEAN(mine.verify(back));
  win.put_nb(next(team), 128 + 500, source.data(), 500).wait();
  win.get_nb(next(team), 128 + 500, back.data(), 500).wait();
  HMC_CHECK_CLEAN(mine.verify({back.data(), 500}));
  win.fetch_add<std::uint64_t>(0, 8, 1);
  win.flush();
  team.barrier();
  if (team.rank() == 0) {
    HMC_CHECK_EQ(win.fetch<std::uint64_t>(0, 8), static_cast<std::uint64_t>(team.size()));
    win.set<std::uint64_t>(0, 8, 0);
  }
  win.fence();
  team.barrier();
}

}  // namespace

HMC_SPMD_TEST(TeamWindows, every_verb_works_in_a_team_window) {
  Team team = odd_and_even(me);
  Window win = Window::create(team, 4096 + static_cast<std::size_t>(me.rank) * 100);
  for (int rank = 0; rank < team.size(); ++rank)
    HMC_CHECK_EQ(win.bytes(rank), 4096 + static_cast<std::size_t>(team.world_rank(rank)) * 100);
  for (std::uint64_t call = 1; call <= 20; ++call) use(me, team, win, call);
  win.close();
  team.close();
}

HMC_SPMD_TEST(TeamWindows, windows_over_user_memory_work) {
  Team team = odd_and_even(me);
  const hmc::ConnBuffer buffer(0, 8192, hmc::MemoryType::CPU);
  Window over_buffer = Window::create(team, buffer);
  HMC_CHECK_EQ(static_cast<void*>(over_buffer.data()), buffer.ptr);
  const int memfd = ::memfd_create("team window", MFD_CLOEXEC);
  HMC_CHECK(memfd >= 0 && ::ftruncate(memfd, 8192) == 0);
  Window over_file = Window::create_over_memfd(team, memfd, 4096, 4096);
  ::close(memfd);
  for (std::uint64_t call = 1; call <= 3; ++call) {
    use(me, team, over_buffer, call);
    use(me, team, over_file, 100 + call);
  }
  over_file.close();
  over_buffer.close();
  team.close();
}

HMC_SPMD_TEST(TeamWindows, windows_of_several_teams_work_at_once) {
  Team& world = me.runtime->world();
  Team team = odd_and_even(me);
  Team pairs = world.split(me.rank / 2);
  // Ranks now have different numbers of windows. New windows must still have different ids.
  Window of_team = me.rank % 2 == 0 ? Window::create(team, 3000) : Window();
  Window of_pairs = Window::create(pairs, 3000);
  Window of_world = Window::create(world, 3000);
  for (std::uint64_t call = 1; call <= 3; ++call) {
    use(me, world, of_world, call);
    if (me.rank % 2 == 0) use(me, team, of_team, call);
    use(me, pairs, of_pairs, call);
  }
  of_world.close();
  if (me.rank % 2 == 0) of_team.close();
  of_pairs.close();
  pairs.close();
  team.close();
}

HMC_SPMD_TEST(TeamWindows, collective_buffers_in_a_team_window_are_used_in_place) {
  Team& world = me.runtime->world();
  Team team = odd_and_even(me);
  Team other = world.duplicate();
  constexpr std::size_t count = 30'000;
  // Some ranks have had one more window: the library must not confuse window ids of different ranks.
  Window early = me.rank % 2 == 0 ? Window::create(team, 64) : Window();
  Window of_world = Window::create(world, 2 * count * 8);
  Window of_team = Window::create(team, 2 * count * 8);
  Window of_other = Window::create(other, 2 * count * 8);
  std::uint64_t call = 0;
  const bool direct = team.core()->all_direct();  // else a schedule stages the data
  for (Window* const win : {&of_world, &of_team, &of_other}) {
    for (int round = 0; round < 2; ++round) {
      std::byte* const in = win->data();
      std::byte* const out = win->data() + count * 8;
      fill_contribution<std::int64_t>(in, count, hmc::sum, team.rank(), ++call);
      const std::uint64_t before = me.runtime->counters().buffers_in_place;
      team.allreduce(in, out, count, hmc::DType::i64, hmc::sum);
      HMC_CHECK_CLEAN(verify_reduction<std::int64_t>(out, count, hmc::sum, team.size(), call));
      const std::uint64_t in_place = me.runtime->counters().buffers_in_place - before;
      // Peers of the team can access windows of the world and of the team. Buffers in another team's windows are
      // staged.
      if (direct && team.size() > 1) HMC_CHECK_EQ(in_place, win == &of_other ? 0U : 2U);
      team.barrier();
    }
  }
  of_other.close();
  of_team.close();
  of_world.close();
  if (me.rank % 2 == 0) early.close();
  other.close();
  team.close();
}

HMC_SPMD_TEST(TeamWindows, errors_name_world_ranks) {
  Team team = odd_and_even(me);
  Window win = Window::create(team, 64);
  char byte = 0;
  try {
    win.put(team.size(), 0, &byte, 1);
    fail_check(__FILE__, __LINE__, "a rank outside of the team was taken");
  } catch (const hmc::Error& error) {
    HMC_CHECK(error.code() == hmc::Code::bad_rank);
    HMC_CHECK_EQ(error.rank(), me.rank);
  }
  for (int peer = 0; peer < team.size(); ++peer) {
    try {
      win.put(peer, 64, &byte, 1);
      fail_check(__FILE__, __LINE__, "a put past the end was taken");
    } catch (const hmc::Error& error) {
      HMC_CHECK(error.code() == hmc::Code::out_of_range);
      HMC_CHECK_EQ(error.peer(), team.world_rank(peer));
      const std::string said = error.what();
      HMC_CHECK(said.find(fmt::format("world rank {}", team.world_rank(peer))) != std::string::npos);
    }
  }
  win.close();
  team.close();
}

HMC_SPMD_TEST(TeamWindows, windows_must_be_closed_before_their_team) {
  Team team = odd_and_even(me);
  Window win = Window::create(team, 64);
  Window local = Window::create(team, 64);
  // Every rank gets the error, also a rank that has dropped its own window.
  if (team.rank() == 0) local = Window();
  HMC_CHECK_THROWS(hmc::Code::invalid_argument, team.close());
  use(me, team, *std::make_unique<Window>(Window::create(team, 4096)), 9);
  win.close();
  local = Window();
  team.close();
  HMC_CHECK_THROWS(hmc::Code::closed, (void)Window::create(team, 64));
}
