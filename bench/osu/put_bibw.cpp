// Both ranks of a pair put a window of -W at each other, and wait for each other after it.
#include "bench/osu/kit/transfer.hpp"

namespace {

void put_both_ways(bench::Side& side, std::size_t bytes, int repeat) {
  constexpr std::uint64_t signal = 0;
  for (int i = 0; i < repeat; ++i) {
    ++side.round;
    for (int j = 1; j < side.window_size; ++j)
      (void)side.window.put_nb(side.peer, side.to(j, bytes), side.from(j, bytes), bytes);
    side.window.fence();
    // The last of the window tells the other side that all of it is there.
    side.window.put_signal(side.peer, side.to(0, bytes), side.from(0, bytes), bytes, signal, side.round);
    side.window.wait_until(signal, hmc::Cmp::ge, side.round);
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace bench;
  const Spec program{.name = "hmc_put_bibw",
                     .title = "Put Bi-Directional Bandwidth Test",
                     .flags = timing_flags | size_flag | data_flags | window_size_flag,
                     .iterations = bandwidth_iterations,
                     .max_bytes = 4 << 20,
                     .min_ranks = 2};
  return run_transfers(argc, argv, program,
                       {.direction = Direction::both, .metric = Metric::bandwidth, .windowed = true}, put_both_ways);
}
