// hmcinfo: what this build of HMC can do on this machine, and what its environment says.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <hmc/version.hpp>

#include "launcher/info/facts.hpp"

int main(int argc, char** argv) {
  CLI::App app("hmcinfo tells what this build of HMC can do here: wires, memory, launchers, and every HMC_* variable.",
               "hmcinfo");
  bool as_json = false;
  app.add_flag("--json", as_json, "For programs: one JSON document");
  app.set_version_flag("--version", "hmcinfo " HMC_VERSION_STRING);
  CLI11_PARSE(app, argc, argv);
  try {
    const auto facts = hmc::launcher::gather_facts();
    // A value of the environment may be no UTF-8: it is shown as far as it is.
    const std::string text = as_json
                                 ? facts.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"
                                 : hmc::launcher::facts_as_text(facts);
    std::fwrite(text.data(), 1, text.size(), stdout);
    return std::fflush(stdout) == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hmcinfo: %s\n", error.what());
    return 1;
  }
}
