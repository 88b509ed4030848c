// Ping-pong of put_signal; half a round trip is printed.
#include "bench/osu/kit/transfer.hpp"

namespace {

void ping_pong(bench::Side& side, std::size_t bytes, int repeat) {
  constexpr std::uint64_t signal = 0;
  const std::byte* const source = side.from(0, bytes);
  const std::uint64_t target = side.to(0, bytes);
  for (int i = 0; i < repeat; ++i) {
    ++side.round;
    if (!side.starts) side.window.wait_until(signal, hmc::Cmp::ge, side.round);
    side.window.put_signal(side.peer, target, source, bytes, signal, side.round);
    if (side.starts) side.window.wait_until(signal, hmc::Cmp::ge, side.round);
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace bench;
  const Spec program{.name = "hmc_put_signal_latency",
                     .title = "Put Signal Latency Test",
                     .flags = timing_flags | size_flag | data_flags,
                     .iterations = latency_iterations,
                     .max_bytes = 4 << 20,
                     .min_ranks = 2};
  return run_transfers(argc, argv, program, {.direction = Direction::both, .one_way = 0.5}, ping_pong);
}
