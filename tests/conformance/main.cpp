// The transport conformance suite: --set wire=shm|tcp|ucx|sim.
#include "tests/support/spmd.hpp"

int main(int argc, char** argv) { return hmc::spmd::run(argc, argv, *hmc::spmd::over_bootstrap()); }
