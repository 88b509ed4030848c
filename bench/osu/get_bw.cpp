// -W gets under way at once.
#include "bench/osu/kit/transfer.hpp"

namespace {

void get_windows(bench::Side& side, std::size_t bytes, int repeat) {
  std::vector<hmc::Request> requests(static_cast<std::size_t>(side.window_size));
  for (int i = 0; i < repeat; ++i) {
    for (int j = 0; j < side.window_size; ++j)
      requests[static_cast<std::size_t>(j)] =
          side.window.get_nb(side.peer, side.to(j, bytes), side.from(j, bytes), bytes);
    hmc::Request::wait_all(requests);
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace bench;
  const Spec program{.name = "hmc_get_bw",
                     .title = "Get Bandwidth Test",
                     .flags = timing_flags | size_flag | data_flags | window_size_flag,
                     .iterations = bandwidth_iterations,
                     .max_bytes = 4 << 20,
                     .min_ranks = 2};
  return run_transfers(argc, argv, program,
                       {.direction = Direction::get, .metric = Metric::bandwidth, .windowed = true}, get_windows);
}
