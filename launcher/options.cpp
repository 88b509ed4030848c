#include "launcher/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <hmc/version.hpp>
#include <string_view>
#include <utility>

#include "launcher/report.hpp"

namespace hmc::launcher {

namespace {

constexpr std::string_view usage =
    "hmcrun starts N ranks of a program and ends when they have ended.\n"
    "Options end at the first word that isn't an option; the rest belongs to the program.\n"
    "Usage: hmcrun -np N [OPTIONS] program [ARGUMENTS] [: -np N [-x VAR] [--wdir DIR] program [ARGUMENTS]]...\n\n"
    "Options:\n";

constexpr std::string_view footer =
    "\nLong options may begin with one dash. The spellings of mpirun, mpiexec and srun also work (man hmcrun).\n"
    "Exit status: 0 when every rank ended with 0; else that of the first rank that failed, or\n"
    "128 + signal; 2 for a wrong command line; 124 after --timeout; 125 when hmcrun itself fails;\n"
    "126, 127 when the program can't be executed or doesn't exist.\n"
    "INT TERM HUP QUIT USR1 USR2 are passed to the ranks; a second INT kills them, and so does TERM after 5 s.\n"
    "hmcinfo lists every HMC_* variable.\n";

[[noreturn]] void refuse(const std::string& text) { throw UsageError(text); }

int number(const std::string& option, const std::string& word, int most) {
  int value = 0;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc{} || stop != end || value < 1 || value > most)
    refuse(fmt::format("{} {}: give a number from 1 to {}", option, word, most));
  return value;
}

std::chrono::nanoseconds seconds(const std::string& option, const std::string& word) {
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
  refuse(fmt::format("--map-by {}: give slot, node or numa; -N sets the ranks of each host", word));
}

/// Reads the words of the command line from the first to the last.
struct Parser {
  explicit Parser(const std::vector<std::string>& all) : words(all) {}
  bool at_end() const { return next == words.size(); }
  /// The value of the current option: after its "=", attached to its letter, or the next word.
  std::string value() {
    if (inline_value) return *std::exchange(inline_value, std::nullopt);
    if (at_end()) refuse(fmt::format("{}: its value is missing", option));
    return words[next++];
  }
  int count(int most) { return number(option, value(), most); }
  /// "NAME=value", or "NAME" and "value".
  std::string assignment() {
    std::string name = value();
    if (name.find('=') == std::string::npos) name += "=" + value();
    return name;
  }

  const std::vector<std::string>& words;
  std::size_t next = 0;
  std::string option;  ///< the current one, as the user wrote it
  std::optional<std::string> inline_value;
  Options options;
  Program program;  ///< the current one
};

/// Where an option may stand: only before the first program, or before each.
enum class Scope { job, program };

struct Option {
  std::string_view names;  ///< as --help prints them
  std::string_view value;  ///< empty: none
  std::string_view help;   ///< empty: another launcher's option, which --help doesn't list
  Scope scope;
  void (*take)(Parser&);
};

constexpr Option known_options[] = {
    {"-h,--help", "", "Print this text", Scope::job, [](Parser&) {}},
    {"--version", "", "Print the version", Scope::job,
     [](Parser& in) { in.options.print = "hmcrun " HMC_VERSION_STRING "\n"; }},
    {"-n,-np,--np", "N", "Number of ranks", Scope::program,
     [](Parser& in) { in.program.ranks = in.count(most_ranks); }},
    {"-H,--host", "HOST[:SLOTS],...", "Run on these hosts, each with a number of slots (default 1)", Scope::job,
     [](Parser& in) { in.options.hosts = in.value(); }},
    {"--hostfile", "FILE", "As -H: a host per line, as HOST:SLOTS or HOST slots=SLOTS", Scope::job,
     [](Parser& in) { in.options.host_file = in.value(); }},
    {"-N,--ppn", "N", "Ranks per host; then -np defaults to N times the hosts", Scope::job,
     [](Parser& in) { in.options.per_host = in.count(most_ranks); }},
    {"--map-by", "WHAT",
     "slot (default): fill host after host; node: assign the ranks to the hosts in turn; numa: as slot, and --bind-to "
     "takes the host's NUMA nodes in turn",
     Scope::job, [](Parser& in) { in.options.map_by = mapping(in.value()); }},
    {"--launch-agent", "CMD", "The command that starts a program on a host (default ssh)", Scope::job,
     [](Parser& in) { in.options.launch_agent = in.value(); }},
    {"-x", "VAR[=value]", "Set VAR for the ranks of this program: to hmcrun's value, or to VAR=value; may be repeated",
     Scope::program, [](Parser& in) { in.program.env.push_back(in.value()); }},
    {"--wdir", "DIR", "Start the ranks of this program in DIR", Scope::program,
     [](Parser& in) { in.program.folder = in.value(); }},
    {"--nodes", "K", "Emulate K nodes on this machine: rank r is on node r*K/N", Scope::job,
     [](Parser& in) { in.options.nodes = in.count(most_ranks); }},
    {"--timeout", "S", "End the job after S seconds, print each rank's call, exit 124", Scope::job,
     [](Parser& in) { in.options.timeout = seconds(in.option, in.value()); }},
    {"--tag-output", "", "Begin each line of output with [rank,stdout] or [rank,stderr]", Scope::job,
     [](Parser& in) { in.options.tag_output = true; }},
    {"--output-filename", "DIR",
     "Write each rank's output to DIR/rank.N/stdout and stderr; with --tag-output also to the terminal", Scope::job,
     [](Parser& in) { in.options.output_dir = in.value(); }},
    {"--keep-going", "", "Leave the other ranks running when a rank fails (Team::shrink)", Scope::job,
     [](Parser& in) { in.options.keep_going = true; }},
    {"--respawn", "K", "Start a failed rank again, at most K times on each host (Team::grow); implies --keep-going",
     Scope::job, [](Parser& in) { in.options.respawns = in.count(most_ranks); }},
    {"--bind-to", "WHAT", "none (default), core: one core per rank, numa: a NUMA node's cores", Scope::job,
     [](Parser& in) { in.options.bind_to = binding(in.value()); }},
    {"--report-bindings", "", "Print on stderr the CPUs of each rank", Scope::job,
     [](Parser& in) { in.options.report_bindings = true; }},
    {"--dry-run", "", "Print the job's plan without running it", Scope::job,
     [](Parser& in) { in.options.dry_run = true; }},
    // With another form of values than ours.
    {"-env", "NAME VALUE", "", Scope::program, [](Parser& in) { in.program.env.push_back(in.assignment()); }},
    {"-genv", "NAME VALUE", "", Scope::job, [](Parser& in) { in.options.env.push_back(in.assignment()); }},
    {"-pernode", "", "", Scope::job, [](Parser& in) { in.options.per_host = 1; }},
    {"-bynode", "", "", Scope::job, [](Parser& in) { in.options.map_by = MapBy::node; }},
    {"-byslot", "", "", Scope::job, [](Parser& in) { in.options.map_by = MapBy::slot; }},
    {"-bind-to-core", "", "", Scope::job, [](Parser& in) { in.options.bind_to = BindTo::core; }},
    {"-bind-to-none", "", "", Scope::job, [](Parser& in) { in.options.bind_to = BindTo::none; }},
};

/// Spellings of mpirun (Open MPI), mpiexec (hydra) and srun, without dashes, and HMC's option. Empty: it has no effect,
/// since hmcrun does that always.
struct Spelling {
  std::string_view name;
  std::string_view option;
};
constexpr Spelling spellings[] = {
    {"c", "-np"},
    {"ntasks", "-np"},
    {"hosts", "-H"},
    {"f", "--hostfile"},
    {"machinefile", "--hostfile"},
    {"default-hostfile", "--hostfile"},
    {"npernode", "-N"},
    {"perhost", "-N"},
    {"ntasks-per-node", "-N"},
    {"l", "--tag-output"},
    {"label", "--tag-output"},
    {"prepend-rank", "--tag-output"},
    {"wd", "--wdir"},
    {"chdir", "--wdir"},
    {"enable-recovery", "--keep-going"},
    {"disable-auto-cleanup", "--keep-going"},
    {"do-not-launch", "--dry-run"},
    {"V", "--version"},
    {"allow-run-as-root", ""},
    {"oversubscribe", ""},
    {"genvall", ""},
    {"envall", ""},
    {"q", ""},
    {"quiet", ""},
};

/// Options of other launchers that hmcrun doesn't have, without dashes, and what to use.
struct Advice {
  std::string_view name;
  std::string_view text;
};
constexpr std::string_view configuration = "HMC is configured by variables, as in -x HMC_NET=eth0; hmcinfo lists them";
constexpr std::string_view only_given = "give each variable by -x";
constexpr std::string_view pattern = "use --output-filename DIR";
constexpr std::string_view starter = "use --launch-agent CMD";
constexpr std::string_view program_file = "give the programs on the command line: -np 1 ./a : -np 2 ./b";
constexpr std::string_view order = "use --map-by slot or --map-by node";
constexpr std::string_view sockets = "use --bind-to numa";
constexpr Advice advices[] = {
    {"mca", configuration},
    {"gmca", configuration},
    {"prtemca", configuration},
    {"pmixmca", configuration},
    {"tune", configuration},
    {"am", configuration},
    {"iface", configuration},
    {"genvnone", only_given},
    {"envnone", only_given},
    {"genvlist", only_given},
    {"envlist", only_given},
    {"export", only_given},
    {"outfile-pattern", pattern},
    {"errfile-pattern", pattern},
    {"output", pattern},
    {"launcher", starter},
    {"launcher-exec", starter},
    {"bootstrap", starter},
    {"bootstrap-exec", starter},
    {"rmk", starter},
    {"configfile", program_file},
    {"app", program_file},
    {"multi-prog", program_file},
    {"rank-by", order},
    {"ranks-by", order},
    {"rankfile", order},
    {"npersocket", sockets},
    {"bind-to-socket", sockets},
    {"cpu-bind", "use --bind-to"},
    {"cpu-set", "use taskset -c CPUS hmcrun ..., and --bind-to"},
    {"display-map", "use --dry-run or --report-bindings"},
    {"display", "use --dry-run or --report-bindings"},
    {"nolocal", "name the hosts by -H"},
    {"w", "use -H HOST,..."},
    {"nodelist", "use -H HOST,..."},
    {"nnodes", "use -H HOST,..., or --nodes K to emulate nodes on this machine"},
    {"nproc-per-node", "use -N"},
    {"nproc_per_node", "use -N"},
    {"prefix", "hmcrun and the program must have the same path on each host"},
    {"path", "give the program's path"},
    {"t", "use --timeout SECONDS"},
    {"v", "use --report-bindings, or -x HMC_LOG=info"},
    {"verbose", "use --report-bindings, or -x HMC_LOG=info"},
    {"stdin", "rank 0 reads standard input"},
    {"s", "rank 0 reads standard input"},
    {"debug", "hmcinfo stacks prints the stacks of a running job"},
    {"gdb", "hmcinfo stacks prints the stacks of a running job"},
    {"merge-stderr-to-stdout", "use 2>&1"},
};

std::string_view without_dashes(std::string_view word) { return word.substr(word.starts_with("--") ? 2 : 1); }

const Option* find_option(std::string_view bare) {
  for (const Option& option : known_options) {
    for (std::string_view names = option.names; !names.empty();) {
      const std::string_view name = names.substr(0, names.find(','));
      if (without_dashes(name) == bare) return &option;
      names.remove_prefix(std::min(names.size(), name.size() + 1));
    }
  }
  return nullptr;
}

template <typename Row, std::size_t count> const Row* find_row(const Row (&rows)[count], std::string_view bare) {
  const auto* const row = std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) { return r.name == bare; });
  return row == std::end(rows) ? nullptr : row;
}

/// "-np2", "-n2", "-xA=1": the option; its value goes to `in`.
const Option* find_attached(std::string_view word, Parser& in) {
  for (const std::string_view name : {"-np", "-n", "-c", "-N", "-x", "-H"}) {
    if (!word.starts_with(name) || word.size() == name.size()) continue;
    const std::string_view value = word.substr(name.size());
    const bool is_number = name != "-x" && name != "-H";
    if (is_number && (value.front() < '0' || value.front() > '9')) continue;
    in.option = name;
    in.inline_value = value;
    return find_option(name == "-c" ? "np" : name.substr(1));
  }
  return nullptr;
}

/// Null for a spelling without effect.
const Option* option_of(const std::string& word, Parser& in) {
  const std::size_t equals = word.find('=');
  in.option = word.substr(0, equals);
  in.inline_value.reset();
  if (equals != std::string::npos) in.inline_value = word.substr(equals + 1);
  const std::string_view bare = without_dashes(in.option);
  if (const Option* const option = find_option(bare)) return option;
  if (const Spelling* const row = find_row(spellings, bare))
    return row->option.empty() ? nullptr : find_option(without_dashes(row->option));
  if (const Advice* const row = find_row(advices, bare)) refuse(fmt::format("{}: {}", in.option, row->text));
  if (const Option* const option = find_attached(word, in)) return option;
  refuse(fmt::format("{}: no such option", in.option));
}

std::string help() {
  constexpr std::size_t indent = 28, width = 110;
  std::string text(usage);
  for (const Option& option : known_options) {
    if (option.help.empty()) continue;
    std::string line = fmt::format("  {}{}{}", option.names, option.value.empty() ? "" : " ", option.value);
    for (std::string_view rest = option.help; !rest.empty();) {
      line.resize(std::max(indent, line.size() + 1), ' ');
      std::size_t end = rest.size();
      if (line.size() + end > width) end = rest.rfind(' ', width - line.size());
      text += line.append(rest.substr(0, end)) + "\n";
      line.clear();
      rest.remove_prefix(std::min(rest.size(), end + 1));
    }
  }
  return text.append(footer);
}

/// The options and the words of one program, without the ":" after them.
void parse_program(Parser& in) {
  bool ends_with_colon = true;
  while (!in.at_end() && in.words[in.next].starts_with('-') && in.words[in.next].size() > 1) {
    const std::string& word = in.words[in.next++];
    if (word == "--") {
      ends_with_colon = false;
      break;
    }
    const Option* const option = option_of(word, in);
    if (option == nullptr) continue;
    if (option->scope == Scope::job && !in.options.programs.empty())
      refuse(fmt::format("{}: it holds for the whole job: give it before the first program", in.option));
    if (option->names == "-h,--help") in.options.print = help();
    option->take(in);
    if (in.inline_value) refuse(fmt::format("{}: it takes no value", in.option));
    if (!in.options.print.empty()) return;
  }
  for (; !in.at_end() && !(ends_with_colon && in.words[in.next] == ":"); ++in.next)
    in.program.command.push_back(in.words[in.next]);
}

void check_one(Options& options, Program& program) {
  // Without other programs its variables are the job's: hmcrun's own control plane reads them too.
  options.env.insert(options.env.end(), program.env.begin(), program.env.end());
  program.env.clear();
  options.ranks = std::exchange(program.ranks, 0);
  // In a Slurm allocation the slots are its tasks: see find_hosts.
  const bool on_hosts = !options.hosts.empty() || !options.host_file.empty();
  if (options.ranks == 0 && !on_hosts && std::getenv("SLURM_JOB_NODELIST") == nullptr) {
    if (options.per_host == 0) refuse("-np is missing: give the number of ranks");
    options.ranks = options.per_host;
  }
  if (program.command.empty()) refuse("the program is missing");
}

void check_several(Options& options) {
  long long total = 0;
  for (const Program& program : options.programs) {
    if (program.command.empty()) refuse("a program is missing before or after ':'");
    if (program.ranks == 0)
      refuse(fmt::format("-np is missing: give the number of ranks of {}", program.command.front()));
    total += program.ranks;
  }
  if (total > most_ranks) refuse(fmt::format("the programs have {} ranks: {} are possible", total, most_ranks));
  options.ranks = static_cast<int>(total);
}

}  // namespace

std::size_t Options::program_of(int number) const {
  std::size_t index = 0;
  while (index + 1 < programs.size() && number >= programs[index].ranks) number -= programs[index++].ranks;
  return index;
}

std::string Options::program_name(int number) const {
  if (programs.size() < 2) return {};
  const std::string& path = programs[program_of(number)].command.front();
  return path.substr(path.rfind('/') + 1);
}

Options parse_options(const std::vector<std::string>& words) {
  Parser in(words);
  for (;;) {
    parse_program(in);
    if (!in.options.print.empty()) return in.options;
    in.options.programs.push_back(std::exchange(in.program, {}));
    if (in.at_end()) break;
    ++in.next;  // the ":"
  }
  Options& options = in.options;
  if (options.programs.size() == 1)
    check_one(options, options.programs.front());
  else
    check_several(options);
  if ((!options.hosts.empty() || !options.host_file.empty()) && options.nodes > 1)
    refuse("--nodes emulates nodes on this machine: it can't be used with hosts");
  if (options.nodes > std::max(1, options.ranks))
    refuse(fmt::format("--nodes {}: there are only {} ranks", options.nodes, options.ranks));
  options.keep_going |= options.respawns > 0;
  return std::move(options);
}

}  // namespace hmc::launcher
