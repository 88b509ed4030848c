// One get.
#include "bench/osu/kit/transfer.hpp"

namespace {

void gets(bench::Side& side, std::size_t bytes, int repeat) {
  std::byte* const destination = side.from(0, bytes);
  for (int i = 0; i < repeat; ++i) side.window.get(side.peer, side.to(0, bytes), destination, bytes);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace bench;
  const Spec program{.name = "hmc_get_latency",
                     .title = "Get Latency Test",
                     .flags = timing_flags | size_flag | data_flags,
                     .iterations = latency_iterations,
                     .max_bytes = 4 << 20,
                     .min_ranks = 2};
  return run_transfers(argc, argv, program, {.direction = Direction::get}, gets);
}
