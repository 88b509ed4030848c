// The facts that hmcinfo prints: this build, this machine, this environment.
#pragma once

#include <nlohmann/json.hpp>

namespace hmc::launcher {

/// The document that --json prints. Its names never change; new facts get new names. A missing library, wire or device
/// is a fact, and not an exception.
nlohmann::ordered_json gather_facts();
/// The launchers that this process may have been started by, and the reason for each.
nlohmann::ordered_json gather_launchers();
std::string launchers_as_text(const nlohmann::ordered_json& launchers);

/// The same as text.
std::string facts_as_text(const nlohmann::ordered_json& facts);

}  // namespace hmc::launcher
