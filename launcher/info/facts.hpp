// What hmcinfo knows: of this build, this machine and this environment.
#pragma once

#include <nlohmann/json.hpp>

namespace hmc::launcher {

/// The document that --json prints. Its names stay; what is new gets new names. Never throws for
/// something that isn't there: that is what is asked for.
nlohmann::ordered_json gather_facts();

/// The same for people.
std::string facts_as_text(const nlohmann::ordered_json& facts);

/// What `hmcinfo devices` tells: kinds of memory, libraries, and trials of sharing with a second process.
nlohmann::ordered_json gather_devices();
std::string devices_as_text(const nlohmann::ordered_json& facts);

}  // namespace hmc::launcher
