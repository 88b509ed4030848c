#include <fmt/format.h>

#include "launcher/info/facts.hpp"

namespace hmc::launcher {

namespace {

using Json = nlohmann::ordered_json;

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
