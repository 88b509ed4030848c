// hmcinfo ps and stacks: the running jobs of this user on this machine, and each rank's current call.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace hmc::launcher {

/// Finds jobs by the node pages that processes of this user have open. Returns an array with an entry per node of a
/// job.
nlohmann::ordered_json gather_jobs();
/// The call stacks of the ranks of one job, by a debugger. `process`: hmcrun or a rank; 0: all jobs. Throws Error.
std::string stacks_of_jobs(int process);
std::string jobs_as_text(const nlohmann::ordered_json& jobs);

}  // namespace hmc::launcher
