// local: launchers that give each rank its number and nothing else, with all ranks on one machine.
#pragma once

#include <memory>
#include <string>

#include "bootstrap/launchers/join_over.hpp"

namespace hmc::bootstrap {

/// `job`: equal for the ranks of a job, and different from every other job of this user. Throws Error{invalid_config}
/// if this user has neither a secret on this machine (user_secret.hpp) nor `given`, HMC_SECRET.
std::unique_ptr<RecordExchange> make_local(const std::string& job, const std::string& given);

}  // namespace hmc::bootstrap
