// Prints each rank and its node, and rank 0's wire to each peer.
#include <cstdio>

#include <hmc/hmc.hpp>

int main() try {
  hmc::Runtime rt = hmc::Runtime::init();
  std::printf("rank %d of %d on node %d of %d, launcher: %s\n", rt.rank(), rt.size(), rt.node(), rt.node_count(),
              rt.launcher().c_str());
  std::fflush(stdout);
  rt.world().barrier();

  if (rt.rank() == 0) {
    for (int peer = 0; peer < rt.size(); ++peer) {
      const hmc::Path path = rt.path(peer);
      std::printf("  0 -> %d: %s%s (%s)\n", peer, path.wire.c_str(), path.direct ? ", load and store" : "",
                  path.why.c_str());
    }
  }
  rt.close();
  return 0;
} catch (const hmc::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
