// A blocking verb that times out at the job's deadline. The caller owns its memory at once, and a late answer of the
// peer is discarded. Run with a short HMC_TIMEOUT_S, by two ranks as processes.
#include <algorithm>
#include <functional>
#include <vector>

#include <hmc/hmc.hpp>

#include "runtime/rma/window_core.hpp"
#include "runtime/transport/am/am_wire.hpp"
#include "tests/multirank/stopped_peer.hpp"
#include "tests/support/pattern.hpp"
#include "tests/support/spmd.hpp"

namespace {

using hmc::Code;
using hmc::Window;
using hmc::spmd::Pattern;
using hmc::spmd::TestRank;

constexpr std::size_t bytes = std::size_t{1} << 20;
constexpr std::uint64_t signal_at = bytes;
constexpr std::byte guard{0x5a};

/// Rank 1 is stopped. Rank 0 makes `call`, which must time out, and then `after`, while rank 1 is still stopped.
void while_rank_1_is_stopped(TestRank& me, Window& win, const std::function<void()>& call,
                             const std::function<void()>& after) {
  if (me.rank == 1) {
    hmc::spmd::stand_still(win, 0, signal_at);
  } else {
    const hmc::spmd::Standing stands(win, signal_at);
    HMC_CHECK_THROWS(Code::timeout, call());
    after();
  }
  me.runtime->world().barrier();
}

bool runs_here(const TestRank& me) {
  return me.options.processes && me.size == 2 && !me.runtime->path(1 - me.rank).direct;
}

}  // namespace

HMC_SPMD_TEST(Timeouts, buffer_of_a_timed_out_get_is_not_written) {
  if (!runs_here(me)) hmc::spmd::skip("it needs two processes and a wire that needs its target");
  Window win = Window::create(me.runtime->world(), bytes + 64);
  Pattern{me.rank, 1}.fill({win.data(), bytes});
  std::vector<std::byte> got(bytes);
  if (me.rank == 0) win.get(1, 0, got.data(), bytes);
  me.runtime->world().barrier();
  while_rank_1_is_stopped(
      me, win, [&] { win.get(1, 0, got.data(), bytes); }, [&] { std::fill(got.begin(), got.end(), guard); });
  if (me.rank == 0) {
    win.flush(1);  // its answer follows all answers of the get
    HMC_CHECK_EQ(std::count(got.begin(), got.end(), guard), static_cast<std::ptrdiff_t>(bytes));
    win.get(1, 0, got.data(), bytes);
    HMC_CHECK_CLEAN((Pattern{1, 1}.verify(got)));
  }
  me.runtime->world().barrier();
  win.close();
}

HMC_SPMD_TEST(Timeouts, buffers_of_a_timed_out_batch_are_not_written) {
  if (!runs_here(me)) hmc::spmd::skip("it needs two processes and a wire that needs its target");
  constexpr std::size_t pieces = 100;  // more than are in flight at once
  constexpr std::size_t piece = bytes / pieces;
  Window win = Window::create(me.runtime->world(), bytes + 64);
  std::vector<std::byte> got(bytes);
  std::vector<hmc::Get> gets;
  for (std::size_t i = 0; i < pieces; ++i) gets.push_back({i * piece, got.data() + i * piece, piece});
  if (me.rank == 0) win.get_batch(1, gets);
  me.runtime->world().barrier();
  while_rank_1_is_stopped(
      me, win, [&] { win.get_batch(1, gets); }, [&] { std::fill(got.begin(), got.end(), guard); });
  if (me.rank == 0) {
    win.flush(1);
    HMC_CHECK_EQ(std::count(got.begin(), got.end(), guard), static_cast<std::ptrdiff_t>(bytes));
  }
  me.runtime->world().barrier();
  win.close();
}

HMC_SPMD_TEST(Timeouts, timed_out_atomic_and_flush_leave_nothing) {
  if (!runs_here(me)) hmc::spmd::skip("it needs two processes and a wire that needs its target");
  Window win = Window::create(me.runtime->world(), bytes + 64);
  if (me.rank == 0) win.set<std::uint64_t>(1, 0, 5);
  if (me.rank == 0) win.flush(1);
  me.runtime->world().barrier();
  while_rank_1_is_stopped(
      me, win, [&] { win.fetch_add<std::uint64_t>(1, 0, 1); },
      [&] { HMC_CHECK_THROWS(Code::timeout, win.flush(1, {})); });
  if (me.rank == 0) HMC_CHECK_EQ(win.fetch<std::uint64_t>(1, 0), 6U);
  me.runtime->world().barrier();
  win.close();
}

// Without the timeout, the data would be received directly into the buffer.
HMC_SPMD_TEST(Timeouts, data_of_a_timed_out_broadcast_is_dropped) {
  if (!runs_here(me)) hmc::spmd::skip("it needs two processes and a wire that needs its target");
  Window win = Window::create(me.runtime->world(), bytes + 64);
  hmc::Team team = me.runtime->world().duplicate();
  std::vector<std::byte> buffer(bytes, guard);
  std::size_t receives = 0, wires = 0;
  const auto count = [&] {
    for (const auto& wire : me.runtime->world().core()->fabric().wires)
      if (auto* const messages = dynamic_cast<hmc::transport::am::AmWire*>(wire.get())) {
        ++wires;
        receives += messages->receives();
      }
  };
  while_rank_1_is_stopped(
      me, win, [&] { team.broadcast(buffer.data(), bytes, 1); }, count);
  if (me.rank == 0) {
    HMC_CHECK_EQ(wires, 1U);
    HMC_CHECK_EQ(receives, 0U);
  } else {
    try {
      team.broadcast(buffer.data(), bytes, 1);
    } catch (const hmc::Error&) {  // the peer's failure arrives before or after this rank's data has left
    }
  }
  me.runtime->world().barrier();
  if (me.rank == 0) HMC_CHECK_EQ(std::count(buffer.begin(), buffer.end(), guard), static_cast<std::ptrdiff_t>(bytes));
  win.close();
}
