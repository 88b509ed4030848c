// hmcinfo ps and stacks: the running jobs of this user on this machine, and what each rank is in.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace hmc::launcher {

/// Found by the node pages that processes of this user hold. An array with an entry per node of a job.
nlohmann::ordered_json gather_jobs();
/// The call stacks of the ranks of one job, by a debugger. `process`: hmcrun or a rank; 0: all jobs. Throws Error.
std::string stacks_of_jobs(int process);
std::string jobs_as_text(const nlohmann::ordered_json& jobs);

}  // namespace hmc::launcher
