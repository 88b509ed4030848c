// The ranks' environment: hmcrun's own, the -x settings, and the job's HMC_* variables.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hmc::launcher {

using Environment = std::vector<std::string>;  // "NAME=value"

/// The value of a name, or null.
const char* value_of(const Environment& environment, std::string_view name) noexcept;
void set(Environment& environment, std::string_view name, std::string_view value);

/// The variables common to all ranks: `parent` without a surrounding job's variables, then the -x settings.
/// Adds a line to `warnings` for each -x VAR that isn't set. Throws LaunchError for an empty name, and for a variable
/// that hmcrun sets itself.
Environment common_environment(const char* const* parent, const std::vector<std::string>& settings,
                               std::vector<std::string>& warnings);

}  // namespace hmc::launcher
