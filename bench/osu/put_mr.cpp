// Message rate: every rank of the lower half puts windows of -W to its partner in the upper half.
#include "bench/osu/kit/transfer.hpp"

namespace {

void put_windows(bench::Side& side, std::size_t bytes, int repeat) {
  for (int i = 0; i < repeat; ++i) {
    for (int j = 0; j < side.window_size; ++j)
      (void)side.window.put_nb(side.peer, side.to(j, bytes), side.from(j, bytes), bytes);
    side.window.flush(side.peer);
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace bench;
  const Spec program{.name = "hmc_put_mr",
                     .title = "Put Multiple Bandwidth / Message Rate Test",
                     .flags = timing_flags | size_flag | data_flags | window_size_flag,
                     .iterations = bandwidth_iterations,
                     .max_bytes = 4 << 20,
                     .min_ranks = 2};
  const TransferSpec spec{.pairing = Pairing::halves,
                          .direction = Direction::put,
                          .metric = Metric::bandwidth,
                          .windowed = true,
                          .message_rate = true};
  return run_transfers(argc, argv, program, spec, put_windows);
}
