// hmcinfo ps: the running jobs of this user on this machine, and what each rank is in.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace hmc::launcher {

/// Found by the node pages that processes of this user hold. An array with an entry per node of a job.
nlohmann::ordered_json gather_jobs();
std::string jobs_as_text(const nlohmann::ordered_json& jobs);

}  // namespace hmc::launcher
