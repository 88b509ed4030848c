// The contestant of bare loops over shared memory. It starts its ranks itself.
#include "floor.hpp"

#include <unistd.h>

#include <cstdio>

#include "common/loop.hpp"
#include "common/spawn.hpp"

int main(int argc, char** argv) try {
  const compare::Setup setup = compare::setup_of(argc, argv);
  if (setup.ranks == 0) return 0;  // executed by --hello
  if (setup.hello) {
    return compare::run_ranks(setup, [&](int) { return execl("/proc/self/exe", argv[0], nullptr); });
  }
  compare::floor::Board board(setup, setup.ranks);
  return compare::run_ranks(setup, [&](int rank) {
    compare::floor::Floor contestant(board, rank, setup);
    return compare::run_rank(contestant, setup);
  });
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
