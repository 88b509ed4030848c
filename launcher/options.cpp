#include "launcher/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <hmc/version.hpp>
#include <iterator>

#include "launcher/report.hpp"

namespace hmc::launcher {

namespace {

constexpr const char* description =
    "hmcrun starts N ranks of a program and ends when they have ended.\n"
    "Options end at the first word that isn't an option; the rest belongs to the program.";

constexpr const char* footer =
    "Exit status: 0 when every rank ended with 0; else that of the first rank that failed, or\n"
    "128 + signal; 2 for a wrong command line; 124 after --timeout; 125 when hmcrun itself fails;\n"
    "126, 127 when the program can't be executed or doesn't exist.\n"
    "INT TERM HUP QUIT USR1 USR2 are passed to the ranks; a second INT kills them.\n"
    "hmcinfo lists every HMC_* variable.";

/// The unparsed words of the command line. Numbers are parsed in this file, so that errors name the option.
struct Words {
  std::string ranks;
  std::string nodes;
  std::string timeout;
  std::string bind_to;
  std::string respawn;
  std::string map_by;
  std::string per_host;
};

[[noreturn]] void refuse(const std::string& text) { throw UsageError(text); }

int number(const char* option, const std::string& word, int most) {
  int value = 0;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc{} || stop != end || value < 1 || value > most)
    refuse(fmt::format("{} {}: give a number from 1 to {}", option, word, most));
  return value;
}

std::chrono::nanoseconds seconds(const char* option, const std::string& word) {
  double value = 0;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc{} || stop != end || !(value > 0) || value > 1e8)
    refuse(fmt::format("{} {}: give seconds, more than 0", option, word));
  return std::chrono::nanoseconds(static_cast<std::int64_t>(value * 1e9));
}

BindTo binding(const std::string& word) {
  if (word == "none") return BindTo::none;
  if (word == "core") return BindTo::core;
  if (word == "numa") return BindTo::numa;
  refuse(fmt::format("--bind-to {}: give none, core or numa", word));
}

MapBy mapping(const std::string& word) {
  if (word == "slot") return MapBy::slot;
  if (word == "node") return MapBy::node;
  if (word == "numa") return MapBy::numa;
  refuse(fmt::format("--map-by {}: give slot, node or numa", word));
}

void declare(CLI::App& app, Options& options, Words& words) {
  app.prefix_command();
  app.footer(footer);
  app.set_version_flag("--version", "hmcrun " HMC_VERSION_STRING);
  app.add_option("-n,--np", words.ranks, "Number of ranks; also -np")->type_name("N");
  app.add_option("-H,--host", options.hosts, "Run on these hosts, each with a number of slots (default 1)")
      ->type_name("HOST[:SLOTS],...");
  app.add_option("--hostfile", options.host_file, "As -H: a host per line, as HOST:SLOTS or HOST slots=SLOTS")
      ->type_name("FILE");
  app.add_option("-N,--ppn", words.per_host, "Ranks per host; then -np defaults to N times the hosts")->type_name("N");
  app.add_option("--map-by", words.map_by,
                 "slot (default): fill host after host; node: assign the ranks to the hosts in turn; numa: as slot, "
                 "and --bind-to takes the host's NUMA nodes in turn")
      ->type_name("WHAT");
  app.add_option("--launch-agent", options.launch_agent, "The command that starts a program on a host (default ssh)")
      ->type_name("CMD");
  app.add_option("-x", options.env, "Set VAR for every rank: to hmcrun's value, or to VAR=value; may be repeated")
      ->type_name("VAR[=value]")
      ->allow_extra_args(false);
  app.add_option("--nodes", words.nodes, "Emulate K nodes on this machine: rank r is on node r*K/N")->type_name("K");
  app.add_option("--timeout", words.timeout, "End the job after S seconds, print each rank's call, exit 124")
      ->type_name("S");
  app.add_flag("--tag-output", options.tag_output, "Begin each line of output with [rank,stdout] or [rank,stderr]");
  app.add_option("--output-filename", options.output_dir,
                 "Write each rank's output to DIR/rank.N/stdout and stderr; with --tag-output also to the terminal")
      ->type_name("DIR");
  app.add_flag("--keep-going", options.keep_going, "Leave the other ranks running when a rank fails (Team::shrink)");
  app.add_option("--respawn", words.respawn,
                 "Start a failed rank again, at most K times on each host (Team::grow); implies --keep-going")
      ->type_name("K");
  app.add_option("--bind-to", words.bind_to, "none (default), core: one core per rank, numa: a NUMA node's cores")
      ->type_name("WHAT");
  app.add_flag("--report-bindings", options.report_bindings, "Print on stderr the CPUs of each rank");
  app.add_flag("--dry-run", options.dry_run, "Print the job's plan without running it");
}

/// CLI11 would parse -np as -n with the value "p", so -np is replaced by --np. The replacement may also change words of
/// the program; these are later taken from the original words.
std::vector<std::string> for_cli11(const std::vector<std::string>& words) {
  std::vector<std::string> out(words.rbegin(), words.rend());  // CLI11 expects them in reverse order
  for (std::string& word : out) {
    if (word == "-np" || word.starts_with("-np=")) word.insert(0, 1, '-');
  }
  return out;
}

void check(Options& options, const Words& words) {
  const bool on_hosts = !options.hosts.empty() || !options.host_file.empty();
  if (!words.per_host.empty()) options.per_host = number("-N", words.per_host, most_ranks);
  if (!words.map_by.empty()) options.map_by = mapping(words.map_by);
  if (on_hosts && !words.nodes.empty()) refuse("--nodes emulates nodes on this machine: it can't be used with hosts");
  if (!words.ranks.empty()) options.ranks = number("-np", words.ranks, most_ranks);
  // In a Slurm allocation the slots are its tasks: see find_hosts.
  if (words.ranks.empty() && !on_hosts && std::getenv("SLURM_JOB_NODELIST") == nullptr) {
    if (options.per_host == 0) refuse("-np is missing: give the number of ranks");
    options.ranks = options.per_host;
  }
  if (!words.nodes.empty()) options.nodes = number("--nodes", words.nodes, most_ranks);
  if (options.nodes > std::max(1, options.ranks))
    refuse(fmt::format("--nodes {}: there are only {} ranks", options.nodes, options.ranks));
  if (!words.timeout.empty()) options.timeout = seconds("--timeout", words.timeout);
  if (!words.bind_to.empty()) options.bind_to = binding(words.bind_to);
  if (!words.respawn.empty()) options.respawns = number("--respawn", words.respawn, most_ranks);
  options.keep_going |= options.respawns > 0;
  if (options.command.empty()) refuse("the program is missing");
}

}  // namespace

Options parse_options(const std::vector<std::string>& words) {
  Options options;
  Words values;
  CLI::App app(description, "hmcrun");
  declare(app, options, values);
  try {
    app.parse(for_cli11(words));
  } catch (const CLI::CallForHelp&) {
    options.print = app.help();
    const std::string_view line = "Usage: hmcrun [OPTIONS]";
    // The usage line differs between versions of CLI11.
    if (const std::size_t at = options.print.find(line); at != std::string::npos)
      options.print.replace(at, line.size(), "Usage: hmcrun -np N [OPTIONS] program [ARGUMENTS]");
    return options;
  } catch (const CLI::CallForVersion&) {
    options.print = "hmcrun " HMC_VERSION_STRING "\n";
    return options;
  } catch (const CLI::ParseError& error) {
    refuse(error.what());
  }
  const auto program = words.end() - static_cast<std::ptrdiff_t>(app.remaining_size());
  options.command.assign(program, words.end());
  const bool marked = program != words.begin() && *std::prev(program) == "--";  // then it may start with a dash
  if (!marked && !options.command.empty() && options.command.front().starts_with("-"))
    refuse(fmt::format("{}: no such option", options.command.front()));
  check(options, values);
  return options;
}

}  // namespace hmc::launcher
