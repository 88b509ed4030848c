// The contestant of bare loops over shared memory. It starts its ranks itself.
#include <unistd.h>

#include <cstdio>

#include "bench/compare/floor.hpp"
#include "bench/compare/loop.hpp"

int main(int argc, char** argv) try {
  const bench::Setup setup = bench::setup_of(argc, argv);
  if (setup.ranks == 0) return 0;  // executed by --hello
  if (setup.hello) {
    return bench::run_ranks(setup.ranks, setup.cpus, [&](int) { return execl("/proc/self/exe", argv[0], nullptr); });
  }
  bench::floor::Board board(setup, setup.ranks);
  return bench::run_ranks(setup.ranks, setup.cpus, [&](int rank) {
    bench::floor::Floor contestant(board, rank, setup);
    return bench::run_rank(contestant, setup);
  });
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
