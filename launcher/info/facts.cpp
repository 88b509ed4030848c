#include "launcher/info/facts.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include <hmc/error.hpp>
#include <hmc/version.hpp>

#include "bootstrap/detect/detect.hpp"
#include "job/wires.hpp"
#include "runtime/base/env.hpp"
#include "runtime/memory/provider.hpp"
#include "runtime/topology/cpu_layout.hpp"

namespace hmc::launcher {

using Json = nlohmann::ordered_json;

namespace {

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

nlohmann::ordered_json gather_launchers() { return availability(bootstrap::candidates(base::Env::from_process())); }

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

namespace {

std::string word(const Json& json) { return json.get<std::string>(); }

std::string section(const char* title, const Json& list) {
  std::string text = fmt::format("\n{}\n", title);
  for (const Json& each : list) {
    const std::string why = word(each["why"]);
    text += fmt::format("  {:<12} {:<4} {}\n", word(each["name"]), each["available"].get<bool>() ? "yes" : "no", why);
  }
  return text;
}

std::string machine(const Json& facts) {
  if (facts.contains("error")) return fmt::format("machine    {}\n", word(facts["error"]));
  return fmt::format("machine    {}{}cpus {}: {} cores, {} NUMA nodes\n", word(facts["cpu"]),
                     word(facts["cpu"]).empty() ? "" : ", ", word(facts["cpus"]), facts["cores"].get<int>(),
                     facts["numa_nodes"].get<int>());
}

std::string variable(const Json& facts) {
  const std::string fallback = word(facts["default"]);
  const std::string value =
      facts["value"].is_null() ? (fallback.empty() ? "not set" : "not set: " + fallback) : "= " + word(facts["value"]);
  return fmt::format("  {:<14} {}\n  {:<14}   {} ({})\n", word(facts["name"]), value, "", word(facts["meaning"]),
                     word(facts["values"]));
}

}  // namespace

std::string launchers_as_text(const nlohmann::ordered_json& launchers) {
  return section("launchers, innermost first", launchers).substr(1);
}

std::string facts_as_text(const nlohmann::ordered_json& facts) {
  const Json& build = facts["build"];
  std::string features;
  for (const Json& feature : build["features"]) features += (features.empty() ? "" : ", ") + word(feature);
  std::string text = fmt::format("HMC        {}\nbuild      {}, {}\nfeatures   {}\n", word(facts["version"]),
                                 word(build["type"]), word(build["compiler"]), features);
  text += machine(facts["machine"]);
  text += section("wires", facts["wires"]);
  text += section("memory", facts["memory"]);
  text += section("launchers, innermost first", facts["launchers"]);
  text += "\nenvironment\n";
  for (const Json& each : facts["environment"]) text += variable(each);
  if (!facts["environment_error"].is_null()) text += fmt::format("  error: {}\n", word(facts["environment_error"]));
  return text;
}

}  // namespace hmc::launcher
