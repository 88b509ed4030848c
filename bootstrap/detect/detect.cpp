#include "bootstrap/detect/detect.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include <hmc/error.hpp>

#include "bootstrap/inproc.hpp"
#include "bootstrap/tcp/tcp_bootstrap.hpp"

namespace hmc::bootstrap {

namespace {

/// A candidate. `blocks`: the variables indicate a job that this build can't join.
struct Finding {
  Candidate candidate;
  bool blocks = false;
};

std::string text_of(const base::Env& env, std::string_view name) {
  const auto found = env.foreign.find(name);
  return found == env.foreign.end() ? std::string() : found->second;
}

/// nullopt if the variable isn't set or isn't a number.
std::optional<int> number_of(const base::Env& env, std::string_view name) {
  const std::string text = text_of(env, name);
  int number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || stop != text.data() + text.size()) return std::nullopt;
  return number;
}

/// "RANK=1 WORLD_SIZE=4": the variables that are set.
std::string quote(const base::Env& env, std::initializer_list<std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) {
    const std::string value = text_of(env, name);
    if (!value.empty()) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  }
  return text;
}

Finding explicit_variables(const base::Env& env) {
  Finding finding{{"HMC_RANK", false, ""}, false};
  std::string& why = finding.candidate.why;
  if (!env.rank && !env.size && env.store.empty()) {
    why = "HMC_RANK is not set";
    return finding;
  }
  if (!env.rank || !env.size) {
    why = fmt::format("{} is set but {} is not",
                      env.rank   ? "HMC_RANK"
                      : env.size ? "HMC_SIZE"
                                 : "HMC_STORE",
                      env.rank ? "HMC_SIZE" : "HMC_RANK");
    finding.blocks = true;
  } else if (*env.rank < 0 || *env.rank >= *env.size) {
    why = fmt::format("HMC_RANK={} is not less than HMC_SIZE={}, or is negative", *env.rank, *env.size);
    finding.blocks = true;
  } else if (*env.size > 1 && env.store.empty()) {
    why = fmt::format("HMC_RANK={} HMC_SIZE={}, but HMC_STORE (host:port of rank 0) is not set", *env.rank, *env.size);
    finding.blocks = true;
  } else {
    why = fmt::format("HMC_RANK={} HMC_SIZE={}, set {}", *env.rank, *env.size,
                      env.launcher.empty() ? "by hand" : "by " + env.launcher);
    finding.candidate.available = true;
  }
  return finding;
}

/// A launcher that sets the variable `rank` for each of its ranks. A job of one rank doesn't block, because it runs
/// alone.
Finding foreign_launcher(const base::Env& env, std::string name, std::string_view rank, std::optional<int> size,
                         const std::string& seen) {
  Finding finding{{std::move(name), false, ""}, false};
  std::string& why = finding.candidate.why;
  if (text_of(env, rank).empty()) {
    why = fmt::format("{} is not set", rank);
  } else if (size && *size <= 1) {
    why = fmt::format("{}: a job of one rank", seen);
  } else {
    why = size ? fmt::format("{}: a job of {} ranks, which this build can't join", seen, *size)
               : fmt::format("{}: a job of unknown size, which this build can't join", seen);
    finding.blocks = true;
  }
  return finding;
}

Finding torchrun(const base::Env& env) {
  // WORLD_SIZE without RANK often comes from a container template.
  return foreign_launcher(env, "torchrun", "RANK", number_of(env, "WORLD_SIZE").value_or(1),
                          quote(env, {"RANK", "WORLD_SIZE"}));
}

Finding pmix(const base::Env& env) {
  std::optional<int> size = number_of(env, "OMPI_COMM_WORLD_SIZE");
  if (!size) size = number_of(env, "SLURM_STEP_NUM_TASKS");
  return foreign_launcher(env, "PMIx", "PMIX_RANK", size, quote(env, {"PMIX_RANK", "OMPI_COMM_WORLD_SIZE"}));
}

Finding pmi1(const base::Env& env) {
  return foreign_launcher(env, "PMI-1", "PMI_RANK", number_of(env, "PMI_SIZE"), quote(env, {"PMI_RANK", "PMI_SIZE"}));
}

Finding slurm(const base::Env& env) {
  // The step's count has precedence: inside an allocation of many tasks, `srun -n 1` starts a job of one rank.
  std::optional<int> size = number_of(env, "SLURM_STEP_NUM_TASKS");
  if (!size) size = number_of(env, "SLURM_NTASKS").value_or(1);
  return foreign_launcher(env, "Slurm", "SLURM_PROCID", size,
                          quote(env, {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}));
}

/// Innermost launcher first; alone is the last.
std::vector<Finding> look(const base::Env& env) {
  std::vector<Finding> findings{explicit_variables(env), torchrun(env), pmix(env), pmi1(env), slurm(env)};
  Finding alone{{"alone", true, "no sign of a job: rank 0 of 1"}, false};
  for (const Finding& each : findings) {
    if (!each.blocks && !each.candidate.available) continue;
    alone.candidate = {"alone", false, fmt::format("{} indicates a job", each.candidate.name)};
    break;
  }
  findings.push_back(alone);
  return findings;
}

}  // namespace

std::vector<Candidate> candidates(const base::Env& env) {
  std::vector<Candidate> all;
  for (Finding& each : look(env)) all.push_back(std::move(each.candidate));
  return all;
}

std::unique_ptr<Bootstrap> detect(const base::Env& env) {
  for (const Finding& each : look(env)) {
    if (each.blocks) {
      throw Error(Code::invalid_config, "Runtime::init", fmt::format("{}: {}", each.candidate.name, each.candidate.why),
                  "start it with `hmcrun -np N ./app`, or set HMC_RANK, HMC_SIZE and HMC_STORE for every rank; "
                  "HMC_RANK=0 HMC_SIZE=1 runs it alone");
    }
    if (!each.candidate.available) continue;
    // A job of one rank also joins its store, so that its launcher sees the node page and an abort.
    if (!env.store.empty() && env.rank) return join_tcp(env, base::Deadline::after(env.timeout));
    return make_alone();
  }
  return make_alone();
}

}  // namespace hmc::bootstrap
