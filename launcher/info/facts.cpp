#include "launcher/info/facts.hpp"

#include <cstdlib>
#include <hmc/error.hpp>
#include <hmc/version.hpp>

#include "bootstrap/detect/detect.hpp"
#include "job/wires.hpp"
#include "runtime/base/env.hpp"
#include "runtime/memory/provider.hpp"
#include "runtime/topology/cpu_layout.hpp"

namespace hmc::launcher {

namespace {

using Json = nlohmann::ordered_json;

Json build() {
  Json features = Json::array();
  for (const char* feature : {HMC_INFO_FEATURES}) features.push_back(feature);
  return {{"type", HMC_INFO_BUILD_TYPE}, {"compiler", HMC_INFO_COMPILER}, {"features", features}};
}

Json machine() {
  try {
    const topology::CpuLayout layout = topology::load_cpu_layout();
    return {{"cpu", layout.model},
            {"cpus", layout.allowed.text()},
            {"cores", layout.cores.size()},
            {"numa_nodes", layout.numa_nodes.size()}};
  } catch (const Error& error) {
    return {{"error", error.what()}};
  }
}

/// For lists whose entries are available, or have a reason why they aren't.
template <typename List> Json availability(const List& list) {
  Json out = Json::array();
  for (const auto& each : list) out.push_back({{"name", each.name}, {"available", each.available}, {"why", each.why}});
  return out;
}

Json variables() {
  Json out = Json::array();
  for (const base::EnvVar& variable : base::env_table()) {
    const char* const value = std::getenv(std::string(variable.name).c_str());
    const bool hidden = variable.name == "HMC_SECRET" && value != nullptr;  // users paste reports into tickets
    out.push_back({{"name", variable.name},
                   {"values", variable.values},
                   {"default", variable.fallback},
                   {"meaning", variable.meaning},
                   {"value", value == nullptr ? Json() : Json(hidden ? "(set)" : value)}});
  }
  return out;
}

}  // namespace

nlohmann::ordered_json gather_facts() {
  Json facts{{"version", HMC_VERSION_STRING}, {"build", build()}, {"machine", machine()}};
  facts["wires"] = availability(job::list_wires());
  facts["memory"] = availability(memory::list_providers());
  facts["environment_error"] = nullptr;
  base::Env env;
  try {
    env = base::Env::from_process();
  } catch (const Error& error) {
    facts["environment_error"] = error.what();
  }
  facts["launchers"] = availability(bootstrap::candidates(env));
  facts["environment"] = variables();
  return facts;
}

}  // namespace hmc::launcher
