// Verbs complete while the target's process is stopped: neither its CPU nor a progress thread of it takes part. Only
// for wires that promise this: shared memory and RDMA.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <hmc/hmc.hpp>

#include "tests/multirank/stopped_peer.hpp"
#include "tests/support/pattern.hpp"
#include "tests/support/spmd.hpp"

namespace {

using hmc::Window;
using hmc::spmd::Pattern;

constexpr std::array<std::size_t, 5> sizes{1, 8, 333, 8192, 300001};
constexpr std::size_t area = std::size_t{1} << 19;
constexpr std::uint64_t read_at = 0;
constexpr std::uint64_t written_at = area;
constexpr std::uint64_t words_at = 2 * area;
constexpr std::uint64_t process_at = words_at + 64;

/// Rank 1's verbs on rank 0. `round` counts the calls before this one: the words have the values that those left.
void use_target(Window& window, std::uint64_t round) {
  std::vector<std::byte> bytes(area);
  for (const std::size_t length : sizes) {
    window.get(0, read_at, bytes.data(), length);
    HMC_CHECK_CLEAN((Pattern{0, 1}.verify({bytes.data(), length})));
    Pattern{1, 100 * round + length}.fill({bytes.data(), length});
    window.put(0, written_at, bytes.data(), length);
    window.flush(0);
    std::ranges::fill(bytes, std::byte{0});
    window.get(0, written_at, bytes.data(), length);
    HMC_CHECK_CLEAN((Pattern{1, 100 * round + length}.verify({bytes.data(), length})));
  }
  HMC_CHECK_EQ(window.fetch_add<std::uint64_t>(0, words_at, 5), 5 * round);
  HMC_CHECK_EQ(window.compare_swap<std::uint64_t>(0, words_at + 8, round, round + 1), round);
  HMC_CHECK_EQ(window.compare_swap<std::uint64_t>(0, words_at + 8, round, 77), round + 1);
}

}  // namespace

HMC_SPMD_TEST(StoppedTarget, verbs_complete_while_the_process_is_stopped) {
  if (me.size != 2) hmc::spmd::skip("it needs two ranks");
  const std::string wire = me.runtime->path(1 - me.rank).wire;
  if (wire != "shm" && wire != "verbs") hmc::spmd::skip("the wire " + wire + " needs the target's CPU");
  Window window = Window::create(me.runtime->world(), process_at + 8);
  Pattern{me.rank, 1}.fill({window.data() + read_at, area});
  me.runtime->world().barrier();
  if (me.rank == 1) use_target(window, 0);  // connects
  me.runtime->world().barrier();
  if (me.rank == 0) {
    hmc::spmd::stand_still(window, 1, process_at);
  } else {
    const hmc::spmd::Standing target(window, process_at);
    for (std::uint64_t round = 1; round < 20; ++round) use_target(window, round);
  }
  me.runtime->world().barrier();
  if (me.rank == 0) {
    HMC_CHECK_CLEAN((Pattern{1, 1900 + sizes.back()}.verify({window.data() + written_at, sizes.back()})));
    HMC_CHECK_EQ(*window.local<std::uint64_t>(words_at), 100u);
    HMC_CHECK_EQ(*window.local<std::uint64_t>(words_at + 8), 20u);
  }
  window.close();
}
