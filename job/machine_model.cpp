#include "job/machine_model.hpp"

#include <fmt/format.h>

#include <hmc/error.hpp>

#include "collectives/select/parameters.hpp"
#include "job/wires.hpp"

namespace hmc::job {

namespace {

[[noreturn]] void refuse(const std::string& what, const char* hint) {
  throw Error(Code::invalid_config, "parameters", what, hint);
}

}  // namespace

MachineModel machine_model(const base::Env& env, const std::string& file, bool one_machine) {
  MachineModel model;
  std::string text, why_not;
  if (!file.empty()) {
    if (!collectives::read_file(file, text)) refuse(fmt::format("{} can't be read", file), "give a file");
    if (!collectives::read_parameters(text, nullptr, model.parameters, why_not))
      refuse(fmt::format("{} has no valid parameters: {}", file, why_not),
             "pass a parameter file; a job on several nodes writes one to HMC_CACHE");
    model.origin = file;
    return model;
  }
  const auto place = collectives::MachineKey::here(
      env.transport.empty() ? wire_between_nodes(one_machine) : std::string_view(env.transport), one_machine);
  const std::string kept = place.file(env.cache);
  model.origin = "built in: nothing was measured here";
  if (!kept.empty() && collectives::read_file(kept, text)) {
    if (collectives::read_parameters(text, &place, model.parameters, why_not)) {
      model.origin = "measured here: " + kept;
      return model;
    }
    model.origin = fmt::format("built in ({} isn't used: {})", kept, why_not);
  }
  model.parameters = collectives::builtin_parameters(one_machine);
  return model;
}

}  // namespace hmc::job
