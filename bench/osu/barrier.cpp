// Every rank waits for every other.
#include <atomic>

#include "bench/osu/kit/buffers.hpp"
#include "bench/osu/kit/collective.hpp"

namespace {

// Before the barrier a rank writes the iteration into its word; after it, everyone's word says it.
void measure(bench::Session& session) {
  bench::Buffers buffers(session.team, bench::Place::window, 0);
  hmc::Window& window = buffers.window();
  auto* const mine = window.local<std::uint64_t>();
  std::uint64_t spoiled = 0;
  bench::CollectiveCase barrier;
  barrier.call = [&] { session.team.barrier(); };
  barrier.write = [&](int iteration) { std::atomic_ref(*mine).store(static_cast<std::uint64_t>(iteration) + 1); };
  barrier.read = [&](int iteration) {
    bool right = true;
    for (int rank = 0; rank < session.ranks(); ++rank)
      right &= window.fetch<std::uint64_t>(rank, 0) == static_cast<std::uint64_t>(iteration) + 1 + spoiled;
    return right;
  };
  barrier.lines_up = false;
  barrier.spoil = [&] { spoiled = 2; };
  bench::measure_collective(session, barrier);
  buffers.close();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace bench;
  const Spec program{.name = "hmc_barrier", .title = "Barrier Latency Test", .flags = timing_flags};
  return run(argc, argv, program, measure);
}
