// hmcinfo devices: every memory type, its library, and the ways of sharing that pass a trial with a second process.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace hmc::launcher {

/// The facts of `hmcinfo devices`: memory types, libraries, and trials of sharing with a second process.
nlohmann::ordered_json gather_devices();
std::string devices_as_text(const nlohmann::ordered_json& facts);

/// The second process of a trial: `hmcinfo share-trial NAME`, with the ticket on its standard input.
int run_share_trial(const std::string& provider_name);

}  // namespace hmc::launcher
