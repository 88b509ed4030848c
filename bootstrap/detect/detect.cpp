#include "bootstrap/detect/detect.hpp"

#include <fmt/format.h>

#include <charconv>
#include <functional>
#include <optional>

#include <hmc/error.hpp>

#include "bootstrap/inproc.hpp"
#include "bootstrap/launchers/join_over.hpp"
#include "bootstrap/launchers/local.hpp"
#include "bootstrap/launchers/pmi1.hpp"
#include "bootstrap/launchers/pmix.hpp"
#include "bootstrap/tcp/tcp_bootstrap.hpp"
#include "runtime/control/socket.hpp"

namespace hmc::bootstrap {

using base::Deadline;

namespace {

using JoinFunction = std::function<std::unique_ptr<Bootstrap>(const base::Env& env, Deadline deadline)>;

/// A candidate. `blocks`: the variables indicate a job that this process can't join. `join`: empty if not available.
struct Finding {
  Candidate candidate;
  bool blocks = false;
  JoinFunction join;
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
  Finding finding{{"HMC_RANK", false, ""}, false, {}};
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
    // A job of one rank also joins its store, so that its launcher sees the node page and an abort.
    finding.join = [](const base::Env& job, Deadline deadline) {
      return job.store.empty() ? make_alone() : join_tcp(job, deadline);
    };
  }
  return finding;
}

// The three kinds of findings. `seen`: the launcher's variables that are set. not_a_job: there is no job of several
// ranks of this launcher.
Finding not_a_job(std::string name, std::string why) { return {{std::move(name), false, std::move(why)}, false, {}}; }
Finding blocked(std::string name, const std::string& seen, std::string_view why) {
  return {{std::move(name), false, fmt::format("{}: {}", seen, why)}, true, {}};
}
Finding available(std::string name, std::string seen, JoinFunction join) {
  return {{std::move(name), true, std::move(seen)}, false, std::move(join)};
}

/// A rank and a size in two variables. nullopt if they don't describe a rank.
std::optional<Member> member_of(const base::Env& env, std::string_view rank, std::optional<int> size,
                                std::string launcher) {
  const std::optional<int> number = number_of(env, rank);
  if (!number || !size || *number < 0 || *number >= *size) return std::nullopt;
  Member member{*number, *size, std::move(launcher), false};
  member.starts_once = true;
  return member;
}

/// Ranks that know their number and the machine of rank 0. On one machine they find each other by a Unix socket named
/// after the job; on several, rank 0 listens at `host` and `port`.
Finding by_number(Member member, const std::string& seen, const std::string& job, const std::string& host, int port) {
  std::string how = member.on_one_node ? fmt::format("{}: by a Unix socket, all on this machine", seen)
                                       : fmt::format("{}: rank 0's store is {}:{}; needs HMC_SECRET", seen, host, port);
  const std::string name = member.launcher;
  return available(name, std::move(how), [=](const base::Env& env, Deadline deadline) {
    if (!member.on_one_node) return join_at(host, port, member, env, deadline);
    return join_over(*make_local(job, env.secret), member, env, deadline);
  });
}

/// torchrun, or a script that sets torch's variables. MASTER_PORT belongs to torch's store, which may have started:
/// HMC uses another port.
Finding torchrun(const base::Env& env) {
  const std::string seen = quote(env, {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"});
  // WORLD_SIZE without RANK often comes from a container template.
  if (text_of(env, "RANK").empty()) return not_a_job("torchrun", "RANK is not set");
  const std::optional<int> size = number_of(env, "WORLD_SIZE");
  if (size.value_or(1) <= 1) return not_a_job("torchrun", seen + ": a job of one rank");
  auto member = member_of(env, "RANK", size, "torchrun");
  if (!member) return blocked("torchrun", seen, "RANK isn't a number from 0 to WORLD_SIZE-1");
  const std::string address = text_of(env, "MASTER_ADDR");
  const std::optional<int> port = number_of(env, "MASTER_PORT");
  if (address.empty() || !port) return blocked("torchrun", seen, "MASTER_ADDR or MASTER_PORT is not set");
  const std::optional<int> local = number_of(env, "LOCAL_WORLD_SIZE");
  member->on_one_node = local ? *local == *size : control::is_loopback(address + ":0");
  // A script may start a rank again with the same variables. On one node the new process couldn't join.
  member->starts_once = member->on_one_node || !text_of(env, "TORCHELASTIC_RUN_ID").empty();
  const std::string job = fmt::format("torchrun {} {} {} {}", address, *port, text_of(env, "TORCHELASTIC_RUN_ID"),
                                      text_of(env, "TORCHELASTIC_RESTART_COUNT"));
  constexpr int offset = 1017;  // a port that isn't MASTER_PORT, nor the MASTER_PORT of the next job
  const int ours = *port + offset <= 65535 ? *port + offset : *port - offset;
  const bool v6 = address.find(':') != std::string::npos;
  return by_number(*member, seen, job, v6 ? "[" + address + "]" : address, ours);
}

Finding pmix(const base::Env& env) {
  const std::string seen = quote(env, {"PMIX_RANK", "PMIX_NAMESPACE", "OMPI_COMM_WORLD_SIZE"});
  if (text_of(env, "PMIX_RANK").empty()) return not_a_job("PMIx", "PMIX_RANK is not set");
  std::optional<int> size = number_of(env, "OMPI_COMM_WORLD_SIZE");
  if (!size) size = number_of(env, "SLURM_STEP_NUM_TASKS");
  if (size && *size <= 1) return not_a_job("PMIx", seen + ": a job of one rank");
  if (text_of(env, "PMIX_NAMESPACE").empty()) return blocked("PMIx", seen, "PMIX_NAMESPACE is not set");
  if (const std::string why = why_no_pmix(env); !why.empty()) return blocked("PMIx", seen, why);
  const bool on_one_node = size && number_of(env, "OMPI_COMM_WORLD_LOCAL_SIZE") == size;
  return available("PMIx", seen, [on_one_node](const base::Env& job, Deadline deadline) -> std::unique_ptr<Bootstrap> {
    Member member{0, 1, "PMIx", on_one_node};
    member.starts_once = true;
    const auto exchange = make_pmix(job, member);
    return member.size == 1 ? make_alone() : join_over(*exchange, member, job, deadline);
  });
}

Finding pmi1(const base::Env& env) {
  const std::string seen = quote(env, {"PMI_RANK", "PMI_SIZE", "PMI_FD"});
  if (text_of(env, "PMI_RANK").empty()) return not_a_job("PMI-1", "PMI_RANK is not set");
  const std::optional<int> size = number_of(env, "PMI_SIZE");
  if (size.value_or(1) <= 1) return not_a_job("PMI-1", seen + ": a job of one rank");
  auto member = member_of(env, "PMI_RANK", size, "PMI-1");
  if (!member) return blocked("PMI-1", seen, "PMI_RANK isn't a number from 0 to PMI_SIZE-1");
  const std::optional<int> fd = number_of(env, "PMI_FD");
  if (!fd) return blocked("PMI-1", seen, "PMI_FD is not set");
  member->on_one_node = number_of(env, "MPI_LOCALNRANKS") == size;
  return available("PMI-1", seen, [member = *member, fd = *fd](const base::Env& job, Deadline deadline) {
    return join_over(*make_pmi1(fd), member, job, deadline);
  });
}

/// The first host of a Slurm list: "n[01-03,7],m1" -> "n01".
std::string first_host(std::string_view list) {
  const std::size_t open = list.find_first_of("[,");
  if (open == std::string_view::npos || list[open] == ',') return std::string(list.substr(0, open));
  const std::string_view numbers = list.substr(open + 1);
  return std::string(list.substr(0, open)) + std::string(numbers.substr(0, numbers.find_first_of("-,]")));
}

Finding slurm(const base::Env& env) {
  const std::string seen = quote(env, {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_STEP_NODELIST"});
  if (text_of(env, "SLURM_PROCID").empty()) return not_a_job("Slurm", "SLURM_PROCID is not set");
  // The step's count has precedence: inside an allocation of many tasks, `srun -n 1` starts a job of one rank.
  std::optional<int> size = number_of(env, "SLURM_STEP_NUM_TASKS");
  if (!size) size = number_of(env, "SLURM_NTASKS").value_or(1);
  if (*size <= 1) return not_a_job("Slurm", seen + ": a job of one rank");
  auto member = member_of(env, "SLURM_PROCID", size, "Slurm");
  const std::optional<int> nodes = number_of(env, "SLURM_STEP_NUM_NODES");
  const std::string host = first_host(text_of(env, "SLURM_STEP_NODELIST"));
  const int job = number_of(env, "SLURM_JOB_ID").value_or(-1), step = number_of(env, "SLURM_STEP_ID").value_or(-1);
  if (!member || !nodes || host.empty() || job < 0 || step < 0)
    return blocked("Slurm", seen, "no step: srun starts the ranks of a step, sbatch and salloc don't");
  member->on_one_node = *nodes == 1;
  // Steps of one job that run at the same time have different ports.
  const int port = 20000 + static_cast<int>((static_cast<unsigned>(job) * 37U + static_cast<unsigned>(step)) % 10000U);
  return by_number(*member, seen, fmt::format("slurm {} {}", job, step), host, port);
}

/// Innermost launcher first; alone is the last.
std::vector<Finding> look(const base::Env& env) {
  std::vector<Finding> findings{explicit_variables(env), torchrun(env), pmix(env), pmi1(env), slurm(env)};
  Finding alone{{"alone", true, "no sign of a job: rank 0 of 1"}, false, {}};
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
    if (each.join) return each.join(env, Deadline::after(env.timeout_or(base::Env::start_timeout)));
  }
  return make_alone();
}

}  // namespace hmc::bootstrap
