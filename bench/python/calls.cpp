// The time of one call in C++, to compare with Python (calls.py has the same calls). Two ranks; rank 0 prints.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <vector>

#include <hmc/hmc.hpp>

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t large = std::size_t{4} << 20;

/// The fastest of five batches, in ns per call: the slower ones contain interruptions by the machine.
double time_of(hmc::Team& world, int calls, const std::function<void()>& call) {
  double best = 1e18;
  for (int batch = 0; batch < 5; ++batch) {
    world.barrier();
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    best = std::min(best, std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / calls);
  }
  return best;
}

/// Numbers in huge pages, as in calls.py. Freed by the program's end.
std::span<double> large_array() {
  constexpr std::size_t huge_page = std::size_t{2} << 20;
  auto* const memory = static_cast<double*>(std::aligned_alloc(huge_page, large));
  ::madvise(memory, large, MADV_HUGEPAGE);
  std::fill_n(memory, large / sizeof(double), 1.0);
  return {memory, large / sizeof(double)};
}

}  // namespace

int main() {
  hmc::Runtime rt = hmc::Runtime::init();
  hmc::Team& world = rt.world();
  hmc::Window win = hmc::Window::create(world, large + 64);
  const int peer = (rt.rank() + 1) % rt.size();
  std::vector<double> a(1), b(1);
  const std::span<double> big = large_array(), result = large_array();
  const auto show = [&](const char* name, double ns) {
    if (rt.rank() == 0) std::printf("%s\t%.1f\n", name, ns);
  };
  show("put 8 B", time_of(world, 100000, [&] { win.put(peer, 0, a.data(), 8); }));
  show("get 8 B", time_of(world, 100000, [&] { win.get(peer, 0, b.data(), 8); }));
  show("fetch_add", time_of(world, 100000, [&] { win.fetch_add<std::int64_t>(peer, 8, 1); }));
  show("allreduce 8 B", time_of(world, 20000, [&] { world.allreduce(a, b, hmc::sum); }));
  show("iallreduce 8 B", time_of(world, 5000, [&] { world.iallreduce(a, b, hmc::sum).wait(); }));
  show("barrier", time_of(world, 20000, [&] { world.barrier(); }));
  const auto round_trip = [&](std::span<double> data) {
    if (rt.rank() == 0) world.send(data, peer);
    world.recv(data, peer);
    if (rt.rank() != 0) world.send(data, peer);
  };
  show("round trip 8 B", time_of(world, 20000, [&] { round_trip(a); }));
  show("sendrecv 8 B", time_of(world, 20000, [&] { world.sendrecv(a, peer, 0, b, peer); }));
  show("irecv, isend 8 B", time_of(world, 5000, [&] {
         hmc::Request received = world.irecv(b, peer), sent = world.isend(a, peer);
         received.wait();
         sent.wait();
       }));
  show("put 4 MiB", time_of(world, 50, [&] { win.put(peer, 0, big.data(), large); }));
  show("allreduce 4 MiB", time_of(world, 50, [&] { world.allreduce(big, result, hmc::sum); }));
  show("round trip 4 MiB", time_of(world, 50, [&] { round_trip(big); }));
  win.close();
  rt.close();
}
