// Runs the program with the executable's name: hmc_allreduce and the others are links to hmc_osu.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "bench/osu/programs.hpp"

namespace {

std::vector<bench::Program> all_programs() {
  std::vector<bench::Program> all;
  for (const auto& family : {bench::transfers(), bench::atomics(), bench::collectives(), bench::starts()})
    all.insert(all.end(), family.begin(), family.end());
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = std::filesystem::path(argv[0]).filename();
  const std::vector<bench::Program> programs = all_programs();
  for (const bench::Program& program : programs) {
    if (program.spec.name == name) return bench::run(argc, argv, program.spec, program.body);
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
