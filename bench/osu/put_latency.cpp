// One put and its completion at the target.
#include "bench/osu/kit/transfer.hpp"

namespace {

void puts(bench::Side& side, std::size_t bytes, int repeat) {
  const std::byte* const source = side.from(0, bytes);
  for (int i = 0; i < repeat; ++i) {
    side.window.put(side.peer, side.to(0, bytes), source, bytes);
    side.window.flush(side.peer);
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace bench;
  const Spec program{.name = "hmc_put_latency",
                     .title = "Put Latency Test",
                     .flags = timing_flags | size_flag | data_flags,
                     .iterations = latency_iterations,
                     .max_bytes = 4 << 20,
                     .min_ranks = 2};
  return run_transfers(argc, argv, program, {.direction = Direction::put}, puts);
}
