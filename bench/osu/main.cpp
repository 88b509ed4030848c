// Runs the program with the executable's name: hmc_allreduce and the others are links to hmc_osu.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "bench/osu/session.hpp"

namespace bench {
namespace {

// Initializes and finalizes: `time hmcrun -np 64 hmc_hello` measures the start of a job.
void hello(Session& session) {
  print_facts(session);
  session.report.line(fmt::format("This is a test with {} processes", session.ranks()));
}

// The duration of Runtime::init on each rank.
void init(Session& session) {
  const double min = min_over_ranks(session.team, session.init_us);
  const double max = max_over_ranks(session.team, session.init_us);
  const double avg = sum_over_ranks(session.team, session.init_us) / session.ranks();
  print_facts(session);
  // OSU's line has whole milliseconds only.
  session.report.line(fmt::format("nprocs: {}, min: {:.0f} ms, max: {:.0f} ms, avg: {:.0f} ms", session.ranks(),
                                  min / 1000, max / 1000, avg / 1000));
  session.report.remark(fmt::format("Microseconds: min {:.2f}, max {:.2f}, avg {:.2f}", min, max, avg));
  session.report.value("min_us", min);
  session.report.value("max_us", max);
  session.report.value("avg_us", avg);
}

std::vector<Program> all_programs() {
  std::vector<Program> all;
  for (const auto& family : {transfers(), atomics(), collectives()})
    all.insert(all.end(), family.begin(), family.end());
  all.push_back({{.name = "hmc_hello", .title = "Hello World Test"}, hello});
  all.push_back({{.name = "hmc_init", .title = "Init Test"}, init});
  return all;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  const std::string name = std::filesystem::path(argv[0]).filename();
  const std::vector<bench::Program> programs = bench::all_programs();
  for (const bench::Program& program : programs) {
    if (program.spec.name == name) return bench::run(argc, argv, program);
  }
  if (argc == 2 && std::string(argv[1]) == "--list") {
    for (const bench::Program& program : programs) fmt::print("{}\n", program.spec.name);
    return 0;
  }
  if (argc == 2 && std::string(argv[1]) == "--help") {
    fmt::print("Usage: {} --list\nPrints the names of the programs. Start a program through a link with its name.\n",
               name);
    return 0;
  }
  fmt::print(
      stderr,
      "{}: no program has this name; start a program through a link with its name; `{} --list` prints the names\n",
      name, name);
  return 2;
}
