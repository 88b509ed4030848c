#include "launcher/hosts.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>

#include "launcher/report.hpp"

namespace hmc::launcher {

namespace {

std::optional<int> count(std::string_view word) {
  int value = 0;
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || stop != word.data() + word.size() || value < 1 || value > most_ranks) return std::nullopt;
  return value;
}

/// Only characters of host names and addresses, because a remote shell may read the name.
bool is_host_name(std::string_view name) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.@";
  return !name.empty() && name.front() != '-' && name.find_first_not_of(plain) == std::string_view::npos;
}

/// "a" or "a:4".
std::optional<Host> parse_host(std::string_view word) {
  Host host;
  const std::size_t colon = word.find(':');
  host.name = word.substr(0, colon);
  if (!is_host_name(host.name)) return std::nullopt;
  if (colon == std::string_view::npos) return host;
  const auto slots = count(word.substr(colon + 1));
  if (!slots) return std::nullopt;
  host.slots = *slots;
  host.has_slots = true;
  return host;
}

void add(std::vector<Host>& hosts, Host host) {
  const auto known = std::find_if(hosts.begin(), hosts.end(), [&](const Host& each) { return each.name == host.name; });
  if (known == hosts.end()) return hosts.push_back(std::move(host));
  known->slots += host.slots;
  known->has_slots |= host.has_slots;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(separators, at), text.size());
    if (end > at) words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

}  // namespace

std::vector<Host> parse_host_list(std::string_view text) {
  std::vector<Host> hosts;
  for (const std::string_view word : split(text, ",")) {
    auto host = parse_host(word);
    if (!host) throw UsageError(fmt::format("-H {}: '{}' isn't HOST or HOST:SLOTS", text, word));
    add(hosts, *std::move(host));
  }
  if (hosts.empty()) throw UsageError(fmt::format("-H {}: no host is named", text));
  return hosts;
}

std::vector<Host> parse_host_file(std::string_view text, std::string_view name) {
  std::vector<Host> hosts;
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    line = line.substr(0, line.find('#'));
    const std::vector<std::string_view> words = split(line, " \t\r");
    if (words.empty()) continue;
    auto host = parse_host(words[0]);
    constexpr std::string_view slots = "slots=";
    if (host && words.size() == 2 && words[1].starts_with(slots) && !host->has_slots) {
      const auto value = count(words[1].substr(slots.size()));
      host->slots = value.value_or(1);
      host->has_slots = true;
      if (!value) host.reset();
    } else if (words.size() > 1) {
      host.reset();
    }
    if (!host)
      throw UsageError(fmt::format("--hostfile {}: line {} isn't HOST, HOST:SLOTS or HOST slots=SLOTS", name, number));
    add(hosts, *std::move(host));
  }
  if (hosts.empty()) throw UsageError(fmt::format("--hostfile {}: no host is named", name));
  return hosts;
}

std::vector<int> parse_slurm_counts(std::string_view text) {
  std::vector<int> counts;
  for (std::string_view word : split(text, ",")) {
    std::optional<int> times = 1;
    if (const std::size_t bracket = word.find("(x"); bracket != std::string_view::npos && word.ends_with(')')) {
      times = count(word.substr(bracket + 2, word.size() - bracket - 3));
      word = word.substr(0, bracket);
    }
    const auto value = count(word);
    if (!value || !times || counts.size() + static_cast<std::size_t>(*times) > most_ranks) return {};
    counts.insert(counts.end(), static_cast<std::size_t>(*times), *value);
  }
  return counts;
}

namespace {

/// The names of SLURM_JOB_NODELIST ("n[1-3]"), which scontrol expands.
std::vector<std::string> slurm_names() {
  std::vector<std::string> names;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen("scontrol show hostnames", "r"), &::pclose);
  if (!pipe) return names;
  std::array<char, 512> line{};
  while (std::fgets(line.data(), line.size(), pipe.get()) != nullptr) {
    std::string name(line.data());
    while (!name.empty() && name.back() == '\n') name.pop_back();
    if (is_host_name(name)) names.push_back(std::move(name));
  }
  return names;
}

std::vector<Host> slurm_hosts(const Environment& environment) {
  // In a step (srun hmcrun) all ranks run on this node. A batch script isn't a step.
  if (value_of(environment, "SLURM_JOB_NODELIST") == nullptr) return {};
  const char* const step = value_of(environment, "SLURM_STEP_ID");
  if (step != nullptr && std::string_view(step) != "4294967291") return {};  // SLURM_BATCH_SCRIPT
  const std::vector<std::string> names = slurm_names();
  std::vector<int> slots;
  for (const char* const variable : {"SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"})
    if (const char* const text = value_of(environment, variable); text != nullptr && slots.size() != names.size())
      slots = parse_slurm_counts(text);
  std::vector<Host> hosts;
  for (std::size_t i = 0; i < names.size(); ++i)
    hosts.push_back({names[i], slots.size() == names.size() ? slots[i] : 1, slots.size() == names.size()});
  return hosts;
}

}  // namespace

bool is_this_machine(const std::string& host) {
  if (host == "localhost") return true;
  std::array<char, 256> own{};
  if (::gethostname(own.data(), own.size() - 1) != 0) return false;
  const std::string_view name(own.data());
  return host == name || host == name.substr(0, name.find('.'));
}

std::vector<Host> find_hosts(Options& options, const Environment& environment) {
  std::vector<Host> hosts;
  if (!options.hosts.empty()) hosts = parse_host_list(options.hosts);
  if (!options.host_file.empty()) {
    std::ifstream file(options.host_file, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!file) throw UsageError(fmt::format("--hostfile {}: it can't be read", options.host_file));
    for (Host& each : parse_host_file(text, options.host_file)) add(hosts, std::move(each));
  }
  if (hosts.empty() && options.nodes == 1) {
    hosts = slurm_hosts(environment);
    if (!hosts.empty() && options.launch_agent.empty())
      options.launch_agent = "srun --nodes=1 --ntasks=1 --overlap --unbuffered --mpi=none --nodelist";
  }
  // An allocation of this machine alone needs no srun.
  const bool is_given = !options.hosts.empty() || !options.host_file.empty();
  if (is_given || hosts.size() != 1 || !is_this_machine(hosts.front().name)) return hosts;
  (void)assign_ranks(hosts, options);
  return {};
}

std::vector<HostRanks> assign_ranks(const std::vector<Host>& hosts, Options& options) {
  std::vector<int> room;
  long long total = 0;
  for (const Host& host : hosts) {
    if (options.per_host > 0 && host.has_slots && host.slots < options.per_host)
      throw UsageError(fmt::format("-N {}: host {} has {} slots", options.per_host, host.name, host.slots));
    room.push_back(options.per_host > 0 ? options.per_host : host.slots);
    total += room.back();
  }
  if (options.ranks == 0) options.ranks = static_cast<int>(std::min<long long>(total, most_ranks));
  if (options.ranks > total)
    throw UsageError(fmt::format("-np {}: the hosts have {} slots; give more, as in -H {}:{}", options.ranks, total,
                                 hosts.front().name, options.ranks));
  std::vector<HostRanks> all;
  for (const Host& host : hosts) all.push_back({host.name, {}});
  std::size_t next = 0;
  for (int rank = 0; rank < options.ranks; ++rank) {
    while (room[next % room.size()] == 0) ++next;
    const std::size_t host = next % room.size();
    --room[host];
    all[host].numbers.push_back(rank);
    if (options.map_by == MapBy::node) ++next;
  }
  std::erase_if(all, [](const HostRanks& each) { return each.numbers.empty(); });
  return all;
}

}  // namespace hmc::launcher
