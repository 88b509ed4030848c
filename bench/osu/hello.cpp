// Joins a job and leaves it: `time hmcrun -np 64 hmc_hello` is the cost of a start.
#include <fmt/format.h>

#include "bench/osu/kit/session.hpp"

int main(int argc, char** argv) {
  using namespace bench;
  const Spec program{.name = "hmc_hello", .title = "Hello World Test"};
  return run(argc, argv, program, [](Session& session) {
    print_facts(session);
    session.report.line(fmt::format("This is a test with {} processes", session.ranks()));
  });
}
