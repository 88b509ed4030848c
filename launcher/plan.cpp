#include "launcher/plan.hpp"

#include <fmt/format.h>

#include <hmc/error.hpp>

#include "launcher/exit_status.hpp"
#include "launcher/program.hpp"

namespace hmc::launcher {

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
  set(plan.common, "HMC_SIZE", std::to_string(plan.options.ranks));
  set(plan.common, "HMC_LAUNCHER", "hmcrun");
  const char* const path = value_of(plan.common, "PATH");
  plan.program = find_program(plan.options.command.front(), path == nullptr ? "/bin:/usr/bin" : path);
  if (plan.options.bind_to != BindTo::none) plan.layout = load_layout();
  plan.places = place_ranks(plan.options, plan.layout ? &*plan.layout : nullptr);
  if (plan.options.bind_to == BindTo::core && plan.places.size() > plan.layout->cores.size()) {
    plan.warnings.push_back(
        fmt::format("--bind-to core: {} ranks share {} cores", plan.places.size(), plan.layout->cores.size()));
  }
  return plan;
}

std::string node_label(int node) { return fmt::format("node{}", node); }

std::string describe_plan(const JobPlan& plan) {
  std::string command = quoted(plan.program);
  for (std::size_t i = 1; i < plan.options.command.size(); ++i)
    command.append(" ").append(quoted(plan.options.command[i]));
  std::string text = fmt::format("run: {}\nranks: {}\nnodes: {}{}\n", command, plan.options.ranks, plan.options.nodes,
                                 plan.options.nodes > 1 ? " (emulated)" : "");
  for (int rank = 0; rank < plan.options.ranks; ++rank) {
    const Place& place = plan.places[static_cast<std::size_t>(rank)];
    text +=
        fmt::format("{}: HMC_RANK={} HMC_NODE={}\n", describe_place(rank, place, plan.layout ? &*plan.layout : nullptr),
                    rank, node_label(place.node));
  }
  text += fmt::format("for all: HMC_SIZE={} HMC_LAUNCHER=hmcrun HMC_STORE=(set at start) HMC_SECRET=(set at start)\n",
                      plan.options.ranks);
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
    text += describe_place(rank, plan.places[static_cast<std::size_t>(rank)], plan.layout ? &*plan.layout : nullptr);
  }
  return text;
}

}  // namespace hmc::launcher
