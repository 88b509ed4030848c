#include "sim/options.hpp"

#include <charconv>

#include <hmc/error.hpp>

#include "collectives/select/parameters.hpp"
#include "job/machine_model.hpp"

namespace hmc::sim {

namespace {

using Values = std::optional<double>[4];

void declare_link(CLI::App& app, const std::string& name, Values& values) {
  const char* const letters[] = {"L", "o", "g", "G"};
  const char* const words[] = {"latency, ns", "overhead of sender and of receiver, ns", "gap between messages, ns",
                               "ns per byte"};
  for (int i = 0; i < 4; ++i)
    app.add_option("--" + name + "-" + letters[i], values[i], words[i])
        ->check(CLI::NonNegativeNumber)
        ->group("Model, " + name);
}

void replace(schedule::LinkCost& link, const Values& values) {
  link = {values[0].value_or(link.latency), values[1].value_or(link.overhead), values[2].value_or(link.gap),
          values[3].value_or(link.per_byte)};
}

CollectiveKind collective_from(const std::string& word) {
  for (int i = 0; i < collective_count; ++i)
    if (const auto each = static_cast<CollectiveKind>(i); word == name_of(each)) return each;
  throw UsageError("'" + word + "' isn't a collective");
}

std::vector<std::string> split(const std::string& words) {
  std::vector<std::string> list;
  for (std::size_t begin = 0; begin <= words.size();) {
    const std::size_t end = std::min(words.find(',', begin), words.size());
    if (end > begin) list.push_back(words.substr(begin, end - begin));
    begin = end + 1;
  }
  return list;
}

}  // namespace

std::uint64_t bytes_from(const std::string& word) {
  std::uint64_t value = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, value);
  int shift = 0;
  if (rest + 1 == end) {
    const std::size_t unit = std::string_view("KMG").find(static_cast<char>(*rest & ~0x20));
    shift = unit == std::string_view::npos ? -1 : 10 * (static_cast<int>(unit) + 1);
  } else if (rest != end) {
    shift = -1;
  }
  if (error != std::errc() || shift < 0 || value > (std::uint64_t{1} << 50) >> shift)
    throw UsageError("'" + word + "' isn't a number like 64, 4K, 1M");
  return value << shift;
}

void declare(CLI::App& app, SimOptions& o) {
  app.add_option("collective", o.collective_word, "allreduce, broadcast, barrier, ...");
  app.add_option("--bytes", o.bytes_words,
                 "Size of the vector; for gather, scatter, allgather, alltoall, reduce_scatter of "
                 "one block. A list prints a table for each. Default 1M; with --plot a range")
      ->delimiter(',');
  app.add_option("--ranks", o.ranks_words, "Size of the team; or a list. Default 64")->delimiter(',');
  app.add_option("--per-node", o.per_node, "Ranks on each node")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--algorithms", o.algorithm_words, "all, or names: ring,rabenseifner")->capture_default_str();
  app.add_flag("--json", o.json, "For programs: one JSON document");
  app.add_option("--plot", o.plot, "Write an SVG: time over bytes, or over ranks if only --ranks is a list");
  app.add_option("--most-steps", o.limits.ops,
                 "Steps held in memory, 16 bytes each; of larger schedules only one node is replayed")
      ->capture_default_str();
  app.add_flag("--measure", o.measure, "Measure the model here, on two emulated nodes, and print it as flags");

  app.add_option("--parameters", o.parameters_file,
                 "File with the model's parameters, as jobs write to HMC_CACHE; else this machine's, else built-in "
                 "ones. The flags below replace single parameters")
      ->group("Model");
  app.add_flag("--one-machine", o.one_machine, "The parameters for nodes emulated on one machine, as by hmcrun --nodes")
      ->group("Model");
  declare_link(app, "node", o.node_ns);
  declare_link(app, "network", o.network_ns);
  app.add_option("--copy", o.copy_ns, "ns per byte copied")->group("Model, work");
  app.add_option("--reduce", o.reduce_ns, "ns per byte reduced")->group("Model, work");
  o.hop_ns = static_cast<double>(o.model.tree.hop) / 1000;
  const char* const tree = "Model, fat tree";
  app.add_flag("--fat-tree", o.model.tree.enabled, "Two levels of switches, instead of one without contention")
      ->group(tree);
  app.add_option("--leaf-nodes", o.model.tree.leaf_nodes, "Nodes on a leaf switch")
      ->capture_default_str()
      ->check(CLI::PositiveNumber)
      ->group(tree);
  app.add_option("--oversubscription", o.model.tree.oversubscription,
                 "Bandwidth of a leaf's nodes over bandwidth from leaf to spine")
      ->capture_default_str()
      ->check(CLI::PositiveNumber)
      ->group(tree);
  app.add_option("--hop", o.hop_ns, "ns from a leaf to the spine")->capture_default_str()->group(tree);
}

void finish(SimOptions& o) {
  if (o.measure) return;
  if (o.collective_word.empty()) throw UsageError("the collective is missing (see --help)");
  o.collective = collective_from(o.collective_word);
  if (o.ranks_words.empty()) o.ranks_words = {"64"};
  const bool sweep = !o.plot.empty() && o.bytes_words.size() < 2 && o.ranks_words.size() < 2;
  if (o.collective == CollectiveKind::barrier) o.bytes_words = {"0"};
  if (sweep && o.collective != CollectiveKind::barrier)
    o.bytes_words = {"8", "64", "512", "4K", "32K", "256K", "2M", "16M"};
  if (o.bytes_words.empty()) o.bytes_words = {"1M"};
  for (const std::string& word : o.bytes_words) o.bytes.push_back(bytes_from(word));
  for (const std::string& word : o.ranks_words) {
    const std::uint64_t ranks = bytes_from(word);
    if (ranks < 1 || ranks > 1 << 28) throw UsageError("--ranks: give 1 to 256M");
    o.ranks.push_back(static_cast<int>(ranks));
  }
  if (o.algorithm_words != "all") o.algorithms = split(o.algorithm_words);
  const base::Env env = base::Env::from_process();
  job::MachineModel machine = job::machine_model(env, o.parameters_file, o.one_machine);
  o.parameters = machine.parameters;
  replace(o.parameters.node, o.node_ns);
  replace(o.parameters.network, o.network_ns);
  o.parameters.copy = o.copy_ns.value_or(o.parameters.copy);
  o.parameters.reduce = o.reduce_ns.value_or(o.parameters.reduce);
  o.origin = machine.origin + (o.parameters == machine.parameters ? "" : ", with parameters from the command line");
  std::string rows;
  if (!env.coll_file.empty() && !collectives::read_file(env.coll_file, rows))
    throw Error(Code::invalid_config, "hmc-sim", "HMC_COLL_FILE: " + env.coll_file + " can't be read", "give a file");
  o.selector = collectives::Selector(env.coll, collectives::read_overrides(rows, env.coll_file), o.parameters);
  o.deterministic = env.deterministic;
  const FatTree tree = o.model.tree;
  o.model = Model(o.parameters);
  o.model.tree = tree;
  o.model.tree.hop = from_ns(o.hop_ns);
}

}  // namespace hmc::sim
