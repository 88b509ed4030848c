// hmc-sim: predicts the time of a collective on another machine.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <hmc/version.hpp>

#include "runtime/base/usage.hpp"
#include "sim/options.hpp"
#include "sim/report.hpp"
#include "sim/survey.hpp"

namespace {

using namespace hmc::sim;
namespace base = hmc::base;

std::vector<rules::LibraryCall> questions(const SimOptions& options) {
  std::vector<rules::LibraryCall> all;
  for (const int ranks : options.ranks)
    for (const std::uint64_t bytes : options.bytes)
      all.push_back({options.collective, bytes, {ranks, std::min(options.per_node, ranks), ranks <= options.per_node}});
  return all;
}

void write_file(const std::string& name, const std::string& text) {
  std::ofstream file(name, std::ios::binary);
  file << text;
  if (!file.flush()) throw std::runtime_error("can't write " + name);
}

int simulate(const SimOptions& options) {
  Surveyor surveyor(options.model, options.selector, options.deterministic, options.limits, options.algorithms);
  std::vector<Survey> surveys;
  for (const rules::LibraryCall& question : questions(options)) {
    surveys.push_back(surveyor.survey(question));
    if (surveys.back().ours.empty()) throw UsageError("--algorithms: this collective has no algorithm of that name");
    if (!options.json) fmt::print("{}{}", surveys.size() > 1 ? "\n" : "", text_of(surveys.back()));
  }
  if (options.json)
    fmt::print("{}", as_json(surveys, options.model, options.origin));
  else
    fmt::print(
        "* the library's choice: the lowest estimate, unless HMC_COLL, HMC_COLL_FILE or HMC_DETERMINISTIC decides;\n"
        "  hmcinfo explain prints the same estimates\n"
        "  parameters: {}\n",
        options.origin);
  if (!options.plot.empty()) write_file(options.plot, as_svg(surveys));
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("hmc-sim replays the schedules of HMC's collectives under LogGP with nodes, for teams of any size.",
               "hmc-sim");
  app.set_version_flag("--version", "hmc-sim " HMC_VERSION_STRING);
  SimOptions options;
  declare(app, options);
  try {
    app.parse(argc, argv);
    finish(options);
    return options.measure ? measure(options) : simulate(options);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return base::usage_error("hmc-sim", error.what(), app.help());
  } catch (const UsageError& error) {
    return base::usage_error("hmc-sim", error.what(), app.help());
  } catch (const std::exception& error) {
    fmt::print(stderr, "hmc-sim: {}\n", error.what());
    return 1;
  }
}
