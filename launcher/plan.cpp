#include "launcher/plan.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <hmc/error.hpp>

#include "launcher/library_path.hpp"
#include "launcher/report.hpp"
#include "runtime/control/socket.hpp"

namespace hmc::launcher {

namespace {

/// 0 if execve would accept the file, otherwise an errno.
int refusal(const std::string& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return errno;
  if (S_ISDIR(info.st_mode)) return EISDIR;
  if (!S_ISREG(info.st_mode)) return EACCES;
  return ::access(file.c_str(), X_OK) == 0 ? 0 : errno;
}

bool is_missing(int error) { return error == ENOENT || error == ENOTDIR; }

[[noreturn]] void fail(const std::string& file, int error) {
  const int status = is_missing(error) ? exit_not_found : exit_not_executable;
  throw LaunchError(status, fmt::format("{}: {}", file, std::strerror(error)));
}

}  // namespace

std::string find_program(const std::string& name, const std::string& path) {
  if (name.empty()) throw LaunchError(exit_not_found, "the program's name is empty");
  if (name.find('/') != std::string::npos) {
    if (const int error = refusal(name); error != 0) fail(name, error);
    return name;
  }
  std::string refused;
  int why = 0;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const std::string folder = path.substr(begin, end - begin);
    const std::string file = (folder.empty() ? "." : folder) + "/" + name;
    const int error = refusal(file);
    if (error == 0) return file;
    if (!is_missing(error) && error != EISDIR && refused.empty()) {
      refused = file;
      why = error;
    }
    begin = end + 1;
  }
  if (!refused.empty()) fail(refused, why);
  throw LaunchError(exit_not_found,
                    fmt::format("{0}: not found in PATH ({1}); for a program in this folder give ./{0}", name, path));
}

namespace {

/// The variables that identify a rank. hmcrun sets them, and a nested job must not inherit them.
constexpr std::array<std::string_view, 10> ours{
    "HMC_RANK", "HMC_SIZE",     "HMC_STORE",  "HMC_SECRET", "HMC_NODE",
    "RANK",     "HMC_LAUNCHER", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};

bool is_ours(std::string_view name) { return std::find(ours.begin(), ours.end(), name) != ours.end(); }

bool names(std::string_view entry, std::string_view name) {
  return entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=';
}

}  // namespace

const char* value_of(const Environment& environment, std::string_view name) noexcept {
  for (const std::string& entry : environment)
    if (names(entry, name)) return entry.c_str() + name.size() + 1;
  return nullptr;
}

void set(Environment& environment, std::string_view name, std::string_view value) {
  std::string entry = fmt::format("{}={}", name, value);
  for (std::string& old : environment) {
    if (!names(old, name)) continue;
    old = std::move(entry);
    return;
  }
  environment.push_back(std::move(entry));
}

Environment common_environment(const char* const* parent, const std::vector<std::string>& settings,
                               std::vector<std::string>& warnings) {
  Environment environment;
  for (; *parent != nullptr; ++parent) {
    const std::string_view entry(*parent);
    if (!is_ours(entry.substr(0, entry.find('=')))) environment.emplace_back(entry);
  }
  for (const std::string& entry : program_environment(environment, settings, warnings)) {
    const std::size_t equals = entry.find('=');
    set(environment, entry.substr(0, equals), entry.substr(equals + 1));
  }
  return environment;
}

Environment program_environment(const Environment& common, const std::vector<std::string>& settings,
                                std::vector<std::string>& warnings) {
  Environment environment;
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    const std::string name = setting.substr(0, equals);
    if (name.empty()) throw UsageError(fmt::format("-x {}: the variable's name is empty", setting));
    if (is_ours(name)) throw UsageError(fmt::format("-x {}: hmcrun sets {} itself", setting, name));
    if (equals != std::string::npos)
      set(environment, name, setting.substr(equals + 1));
    else if (const char* const value = value_of(common, name))
      set(environment, name, value);
    else
      warnings.push_back(fmt::format("-x {0}: {0} isn't set in hmcrun's environment, so the ranks don't get it", name));
  }
  return environment;
}

void set_master(Environment& environment, const std::string& host) {
  if (value_of(environment, "MASTER_ADDR") == nullptr)
    set(environment, "MASTER_ADDR", host.substr(host.rfind('@') + 1));  // without "user@"
  if (value_of(environment, "MASTER_PORT") != nullptr) return;
  const base::UniqueFd listener = control::listen_tcp(":0");
  const std::string address = control::address_of(listener.get());
  set(environment, "MASTER_PORT", address.substr(address.rfind(':') + 1));
}

namespace {

/// The cores of the NUMA nodes in turn: the first of each node, then the second of each.
const topology::CpuCore& core_in_turn(int rank, const topology::CpuLayout& layout) {
  std::vector<std::vector<const topology::CpuCore*>> by_node(layout.numa_nodes.size());
  for (const topology::CpuCore& core : layout.cores) by_node[static_cast<std::size_t>(core.numa_node)].push_back(&core);
  std::vector<const topology::CpuCore*> in_turn;
  for (std::size_t i = 0; in_turn.size() < layout.cores.size(); ++i)
    for (const auto& cores : by_node)
      if (i < cores.size()) in_turn.push_back(cores[i]);
  return *in_turn[static_cast<std::size_t>(rank) % in_turn.size()];
}

topology::CpuSet cpus_of(int rank, const Options& options, const topology::CpuLayout& layout) {
  if (options.bind_to == BindTo::core && options.map_by == MapBy::numa) return core_in_turn(rank, layout).cpus;
  if (options.bind_to == BindTo::core) return layout.cores[static_cast<std::size_t>(rank) % layout.cores.size()].cpus;
  const int numa_nodes = static_cast<int>(layout.numa_nodes.size());
  if (options.map_by == MapBy::numa) return layout.numa_nodes[static_cast<std::size_t>(rank % numa_nodes)].cpus;
  // In blocks, as for nodes, because ranks with close numbers usually communicate most.
  return layout.numa_nodes[static_cast<std::size_t>(node_of(rank, options.ranks, numa_nodes))].cpus;
}

}  // namespace

int node_of(int rank, int ranks, int nodes) noexcept {
  return static_cast<int>(static_cast<long long>(rank) * nodes / ranks);
}

std::vector<Place> place_ranks(const Options& options, const topology::CpuLayout* layout) {
  std::vector<Place> places(static_cast<std::size_t>(options.ranks));
  std::vector<int> sizes(static_cast<std::size_t>(options.nodes));
  for (int rank = 0; rank < options.ranks; ++rank) {
    Place& place = places[static_cast<std::size_t>(rank)];
    place.node = options.map_by == MapBy::node ? rank % options.nodes : node_of(rank, options.ranks, options.nodes);
    place.local_rank = sizes[static_cast<std::size_t>(place.node)]++;
    if (options.bind_to != BindTo::none && layout != nullptr) place.cpus = cpus_of(rank, options, *layout);
  }
  for (Place& place : places) place.local_size = sizes[static_cast<std::size_t>(place.node)];
  return places;
}

std::string describe_place(int rank, const Place& place, const topology::CpuLayout* layout) {
  if (place.cpus.empty() || layout == nullptr) {
    return fmt::format("rank {} (node {}): not bound (cpus {})", rank, place.node,
                       topology::CpuSet::of_this_thread().text());
  }
  return fmt::format("rank {} (node {}): {}", rank, place.node, topology::describe(*layout, place.cpus));
}

namespace {

/// For display: words with special characters are in single quotes. Not every shell accepts the result.
std::string quoted(const std::string& word) {
  constexpr const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'') out.append("'\\'");  // end quote, escaped quote, begin quote
    out.push_back(c);
  }
  out.push_back('\'');
  return out;
}

std::string quoted(const std::vector<std::string>& command) {
  std::string text;
  for (const std::string& word : command) text.append(text.empty() ? "" : " ").append(quoted(word));
  return text;
}

/// The absolute path of --wdir.
std::string existing_folder(const std::string& folder) {
  std::error_code error;
  std::string path = std::filesystem::canonical(folder, error).string();
  if (!error && !std::filesystem::is_directory(path, error)) error = std::make_error_code(std::errc::not_a_directory);
  if (error) throw LaunchError(exit_own_failure, fmt::format("--wdir {}: {}", folder, error.message()));
  return path;
}

ProgramPlan plan_program(const Program& program, const Environment& common, std::vector<std::string>& warnings) {
  ProgramPlan plan;
  plan.variables = program_environment(common, program.env, warnings);
  if (!program.folder.empty()) {
    plan.folder = existing_folder(program.folder);
    set(plan.variables, "PWD", plan.folder);
  }
  const char* path = value_of(plan.variables, "PATH");
  if (path == nullptr) path = value_of(common, "PATH");
  const std::string& name = program.command.front();
  const bool is_in_folder = !plan.folder.empty() && name.find('/') != std::string::npos && !name.starts_with('/');
  plan.file = find_program(is_in_folder ? plan.folder + "/" + name : name, path == nullptr ? "/bin:/usr/bin" : path);
  if (!plan.folder.empty()) plan.file = std::filesystem::absolute(plan.file).string();  // the rank changes its folder
  Environment all = common;
  for (const std::string& entry : plan.variables) {
    const std::size_t equals = entry.find('=');
    set(all, entry.substr(0, equals), entry.substr(equals + 1));
  }
  if (const std::string libraries = library_path_for(plan.file, all); !libraries.empty())
    set(plan.variables, "LD_LIBRARY_PATH", libraries);
  return plan;
}

topology::CpuLayout load_layout() {
  try {
    return topology::load_cpu_layout();
  } catch (const Error& error) {
    throw LaunchError(exit_own_failure, fmt::format("--bind-to: {}", error.what()));
  }
}

}  // namespace

JobPlan make_plan(Options options, const char* const* parent_environment) {
  JobPlan plan;
  plan.options = std::move(options);
  plan.common = common_environment(parent_environment, plan.options.env, plan.warnings);
  set(plan.common, "HMC_SIZE", std::to_string(plan.options.size()));
  set(plan.common, "HMC_LAUNCHER", "hmcrun");
  set(plan.common, "WORLD_SIZE", std::to_string(plan.options.size()));
  set_master(plan.common, "127.0.0.1");
  plan.programs.resize(plan.options.programs.size());
  for (int rank = 0; rank < plan.options.ranks; ++rank) {
    const std::size_t index = plan.options.program_of(plan.options.number(rank));
    if (!plan.programs[index].file.empty()) continue;
    plan.programs[index] = plan_program(plan.options.programs[index], plan.common, plan.warnings);
  }
  if (plan.options.bind_to != BindTo::none || plan.options.map_by == MapBy::numa) plan.layout = load_layout();
  plan.places = place_ranks(plan.options, plan.layout ? &*plan.layout : nullptr);
  if (plan.options.bind_to == BindTo::core && plan.places.size() > plan.layout->cores.size()) {
    plan.warnings.push_back(
        fmt::format("--bind-to core: {} ranks share {} cores", plan.places.size(), plan.layout->cores.size()));
  }
  return plan;
}

std::string JobPlan::label(int node) const { return host.empty() ? fmt::format("node{}", node) : host; }

Environment JobPlan::rank_variables(int index) const {
  const Place& place = places[static_cast<std::size_t>(index)];
  const int number = options.number(index);
  return {fmt::format("HMC_RANK={}", number), fmt::format("HMC_NODE={}", label(place.node)),
          fmt::format("RANK={}", number), fmt::format("LOCAL_RANK={}", place.local_rank),
          fmt::format("LOCAL_WORLD_SIZE={}", place.local_size)};
}

int JobPlan::index_of(int number) const {
  if (options.numbers.empty()) return number < options.ranks ? number : -1;
  const auto found = std::find(options.numbers.begin(), options.numbers.end(), number);
  return found == options.numbers.end() ? -1 : static_cast<int>(found - options.numbers.begin());
}

std::string describe_plan(const JobPlan& plan) {
  std::string text;
  for (std::size_t i = 0; i < plan.programs.size(); ++i) {
    std::vector<std::string> command = plan.options.programs[i].command;
    command.front() = plan.programs[i].file;
    text += fmt::format("run: {}\n", quoted(command));
    if (plan.programs.size() > 1) text += fmt::format("  ranks of this program: {}\n", plan.options.programs[i].ranks);
    if (!plan.programs[i].folder.empty()) text += fmt::format("  in: {}\n", quoted(plan.programs[i].folder));
    for (const std::string& entry : plan.programs[i].variables) {
      const std::size_t equals = entry.find('=');
      text += fmt::format("  {}={}\n", entry.substr(0, equals), quoted(entry.substr(equals + 1)));
    }
  }
  text += fmt::format("ranks: {}\nnodes: {}{}\n", plan.options.ranks, plan.options.nodes,
                      plan.options.nodes > 1 ? " (emulated)" : "");
  for (int rank = 0; rank < plan.options.ranks; ++rank) {
    const Place& place = plan.places[static_cast<std::size_t>(rank)];
    text += fmt::format("{}: HMC_RANK={} HMC_NODE={}\n",
                        describe_place(plan.options.number(rank), place, plan.layout ? &*plan.layout : nullptr),
                        plan.options.number(rank), plan.label(place.node));
  }
  text += fmt::format("for all: HMC_SIZE={} HMC_LAUNCHER=hmcrun HMC_STORE=(set at start) HMC_SECRET=(set at start)\n",
                      plan.options.ranks);
  text += "for torch: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT\n";
  for (const std::string& setting : plan.options.env) {
    const std::string name = setting.substr(0, setting.find('='));
    if (const char* value = value_of(plan.common, name)) text += fmt::format("  {}={}\n", name, quoted(value));
  }
  return text;
}

std::string describe_bindings(const JobPlan& plan) {
  std::string text;
  for (int rank = 0; rank < plan.options.ranks; ++rank) {
    if (rank > 0) text += '\n';
    text += describe_place(plan.options.number(rank), plan.places[static_cast<std::size_t>(rank)],
                           plan.layout ? &*plan.layout : nullptr);
  }
  return text;
}

}  // namespace hmc::launcher
