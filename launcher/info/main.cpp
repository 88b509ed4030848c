// hmcinfo: prints what this build of HMC supports on this machine, and its environment.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <hmc/error.hpp>
#include <hmc/version.hpp>

#include "launcher/info/devices.hpp"
#include "launcher/info/explain.hpp"
#include "launcher/info/facts.hpp"
#include "launcher/info/jobs.hpp"
#include "runtime/base/usage.hpp"

int main(int argc, char** argv) {
  CLI::App app(
      "hmcinfo prints what this build of HMC supports here: wires, memory, launchers, and every HMC_* variable.",
      "hmcinfo");
  bool as_json = false;
  app.add_flag("--json", as_json, "For programs: one JSON document");
  app.set_version_flag("--version", "hmcinfo " HMC_VERSION_STRING);
  CLI::App* const devices = app.add_subcommand(
      "devices", "Kinds of device memory: libraries, versions, and the ways of sharing that pass a trial");
  devices->add_flag("--json", as_json, "For programs: one JSON document");
  CLI::App* const launchers = app.add_subcommand(
      "launchers", "The launchers that could have started this process, innermost first, and the reason for each");
  launchers->add_flag("--json", as_json, "For programs: one JSON document");
  CLI::App* const ps = app.add_subcommand("ps", "This user's running jobs on this machine, and each rank's call");
  ps->add_flag("--json", as_json, "For programs: one JSON document");
  int process = 0;
  CLI::App* const stacks =
      app.add_subcommand("stacks", "The call stacks of the ranks of a running job (eu-stack or gdb)");
  stacks->add_option("pid", process, "hmcrun, or one of its ranks; without it all jobs of this user");
  hmc::launcher::Question question;
  CLI::App* const explain = app.add_subcommand(
      "explain", "The algorithm that a collective would use, the predicted cost of each, and the reason");
  explain->add_option("collective", question.collective, "allreduce, broadcast, ...")->required();
  explain->add_option("bytes", question.bytes, "Size of the vector, or of one rank's block: 8, 64K, 1M");
  explain->add_option("--ranks", question.ranks, "The team's size")->capture_default_str();
  explain->add_option("--per-node", question.per_node, "Ranks on each node")->capture_default_str();
  explain->add_option("--type", question.type, "Element type of a reduction")->capture_default_str();
  explain->add_option("--op", question.op, "Operation of a reduction")->capture_default_str();
  explain->add_option("--parameters", question.parameters, "File with the model's parameters; else this machine's");
  explain->add_flag("--one-machine", question.one_machine,
                    "The nodes are emulated on one machine, as by hmcrun --nodes");
  explain->add_flag("--json", as_json, "For programs: one JSON document");
  std::string trial_of;
  CLI::App* const trial = app.add_subcommand("share-trial")->group("");  // the second process of a trial
  trial->add_option("provider", trial_of);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return hmc::base::usage_error("hmcinfo", error.what(), app.help());
  }
  if (*trial) return hmc::launcher::run_share_trial(trial_of);
  try {
    if (*stacks) {
      std::fputs(hmc::launcher::stacks_of_jobs(process).c_str(), stdout);
      return std::fflush(stdout) == 0 ? 0 : 1;
    }
    const auto facts = *devices     ? hmc::launcher::gather_devices()
                       : *launchers ? hmc::launcher::gather_launchers()
                       : *ps        ? hmc::launcher::gather_jobs()
                       : *explain   ? hmc::launcher::gather_explanation(question)
                                    : hmc::launcher::gather_facts();
    // Environment values may be invalid UTF-8, so invalid bytes are replaced.
    const std::string text = as_json
                                 ? facts.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"
                             : *devices   ? hmc::launcher::devices_as_text(facts)
                             : *launchers ? hmc::launcher::launchers_as_text(facts)
                             : *ps        ? hmc::launcher::jobs_as_text(facts)
                             : *explain   ? hmc::launcher::explanation_as_text(facts)
                                          : hmc::launcher::facts_as_text(facts);
    std::fwrite(text.data(), 1, text.size(), stdout);
    return std::fflush(stdout) == 0 ? 0 : 1;
  } catch (const hmc::Error& error) {
    if (error.code() == hmc::Code::invalid_argument) return hmc::base::usage_error("hmcinfo", error.what(), app.help());
    std::fprintf(stderr, "hmcinfo: %s\n", error.what());
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hmcinfo: %s\n", error.what());
    return 1;
  }
}
