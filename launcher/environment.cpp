#include "launcher/environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "launcher/exit_status.hpp"

namespace hmc::launcher {

namespace {

/// The variables that identify a rank. hmcrun sets them, and a nested job must not inherit them.
constexpr std::array<std::string_view, 6> ours{"HMC_RANK",   "HMC_SIZE", "HMC_STORE",
                                               "HMC_SECRET", "HMC_NODE", "HMC_LAUNCHER"};

bool is_ours(std::string_view name) { return std::find(ours.begin(), ours.end(), name) != ours.end(); }

bool names(std::string_view entry, std::string_view name) {
  return entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=';
}

}  // namespace

const char* value_of(const Environment& environment, std::string_view name) noexcept {
  for (const std::string& entry : environment)
    if (names(entry, name)) return entry.c_str() + name.size() + 1;
  return nullptr;
}

void set(Environment& environment, std::string_view name, std::string_view value) {
  std::string entry = fmt::format("{}={}", name, value);
  for (std::string& old : environment) {
    if (!names(old, name)) continue;
    old = std::move(entry);
    return;
  }
  environment.push_back(std::move(entry));
}

Environment common_environment(const char* const* parent, const std::vector<std::string>& settings,
                               std::vector<std::string>& warnings) {
  Environment environment;
  for (; *parent != nullptr; ++parent) {
    const std::string_view entry(*parent);
    if (!is_ours(entry.substr(0, entry.find('=')))) environment.emplace_back(entry);
  }
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    const std::string name = setting.substr(0, equals);
    if (name.empty()) throw UsageError(fmt::format("-x {}: the variable's name is empty", setting));
    if (is_ours(name)) throw UsageError(fmt::format("-x {}: hmcrun sets {} itself", setting, name));
    if (equals != std::string::npos)
      set(environment, name, setting.substr(equals + 1));
    else if (value_of(environment, name) == nullptr)
      warnings.push_back(fmt::format("-x {0}: {0} isn't set in hmcrun's environment, so the ranks don't get it", name));
  }
  return environment;
}

}  // namespace hmc::launcher
