// -W puts, then their completion at the target.
#include "bench/osu/kit/transfer.hpp"

namespace {

void put_windows(bench::Side& side, std::size_t bytes, int repeat) {
  for (int i = 0; i < repeat; ++i) {
    // Requests may be dropped: flush completes them all.
    for (int j = 0; j < side.window_size; ++j)
      (void)side.window.put_nb(side.peer, side.to(j, bytes), side.from(j, bytes), bytes);
    side.window.flush(side.peer);
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace bench;
  const Spec program{.name = "hmc_put_bw",
                     .title = "Put Bandwidth Test",
                     .flags = timing_flags | size_flag | data_flags | window_size_flag,
                     .iterations = bandwidth_iterations,
                     .max_bytes = 4 << 20,
                     .min_ranks = 2};
  return run_transfers(argc, argv, program,
                       {.direction = Direction::put, .metric = Metric::bandwidth, .windowed = true}, put_windows);
}
