#include "sim/options.hpp"

#include <charconv>
#include <stdexcept>

namespace hmc::sim {

namespace {

void declare_link(CLI::App& app, const std::string& name, double (&values)[4], const Link& link) {
  values[0] = static_cast<double>(link.latency) / 1000;
  values[1] = static_cast<double>(link.overhead) / 1000;
  values[2] = static_cast<double>(link.gap) / 1000;
  values[3] = link.per_byte_ps / 1000;
  const char* const letters[] = {"L", "o", "g", "G"};
  const char* const words[] = {"latency, ns", "overhead of sender and of receiver, ns", "gap between messages, ns",
                               "ns per byte"};
  for (int i = 0; i < 4; ++i)
    app.add_option("--" + name + "-" + letters[i], values[i], words[i])
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber)
        ->group("Model, " + name);
}

Link link_from(const double (&values)[4]) {
  return {from_ns(values[0]), from_ns(values[1]), from_ns(values[2]), values[3] * 1000};
}

schedule::Collective collective_from(const std::string& word) {
  for (int i = 0; i < schedule::collective_count; ++i)
    if (const auto each = static_cast<schedule::Collective>(i); word == schedule::name_of(each)) return each;
  throw std::invalid_argument("'" + word + "' is no collective");
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
    throw std::invalid_argument("'" + word + "' is no number like 64, 4K, 1M");
  return value << shift;
}

void declare(CLI::App& app, Options& o) {
  app.add_option("collective", o.collective_word, "allreduce, broadcast, barrier, ...");
  app.add_option("--bytes", o.bytes_words,
                 "Of the vector; in gather, scatter, allgather, alltoall, reduce_scatter of "
                 "one block. A list: one table each. Default 1M; with --plot a sweep")
      ->delimiter(',');
  app.add_option("--ranks", o.ranks_words, "Size of the team; or a list. Default 64")->delimiter(',');
  app.add_option("--per-node", o.per_node, "Ranks on each node")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--algorithms", o.algorithm_words, "all, or names: ring,rabenseifner")->capture_default_str();
  app.add_flag("--json", o.json, "For programs: one JSON document");
  app.add_option("--plot", o.plot, "Write an SVG: time over bytes, or over ranks where only those are a list");
  app.add_option("--most-steps", o.limits.ops,
                 "Steps held at once, 16 bytes each; of larger ones one node's ranks stand for all")
      ->capture_default_str();
  app.add_flag("--measure", o.measure, "Measure the model here, on two pretended nodes, and print it as flags");

  declare_link(app, "node", o.node_ns, o.model.node);
  declare_link(app, "network", o.network_ns, o.model.network);
  o.copy_ns = o.model.copy_ps / 1000;
  o.reduce_ns = o.model.reduce_ps / 1000;
  o.hop_ns = static_cast<double>(o.model.tree.hop) / 1000;
  app.add_option("--copy", o.copy_ns, "ns per byte copied")->capture_default_str()->group("Model, work");
  app.add_option("--reduce", o.reduce_ns, "ns per byte reduced")->capture_default_str()->group("Model, work");
  const char* const tree = "Model, fat tree";
  app.add_flag("--fat-tree", o.model.tree.enabled, "Two levels of switches instead of a perfect one")->group(tree);
  app.add_option("--leaf-nodes", o.model.tree.leaf_nodes, "Nodes on a leaf switch")
      ->capture_default_str()
      ->check(CLI::PositiveNumber)
      ->group(tree);
  app.add_option("--oversubscription", o.model.tree.oversubscription, "What nodes can send over what a leaf carries up")
      ->capture_default_str()
      ->check(CLI::PositiveNumber)
      ->group(tree);
  app.add_option("--hop", o.hop_ns, "ns from a leaf to the spine")->capture_default_str()->group(tree);
}

void finish(Options& o) {
  if (o.measure) return;
  if (o.collective_word.empty()) throw std::invalid_argument("which collective? (--help tells more)");
  o.collective = collective_from(o.collective_word);
  if (o.ranks_words.empty()) o.ranks_words = {"64"};
  const bool sweep = !o.plot.empty() && o.bytes_words.size() < 2 && o.ranks_words.size() < 2;
  if (o.collective == schedule::Collective::barrier) o.bytes_words = {"0"};
  if (sweep && o.collective != schedule::Collective::barrier)
    o.bytes_words = {"8", "64", "512", "4K", "32K", "256K", "2M", "16M"};
  if (o.bytes_words.empty()) o.bytes_words = {"1M"};
  for (const std::string& word : o.bytes_words) o.bytes.push_back(bytes_from(word));
  for (const std::string& word : o.ranks_words) {
    const std::uint64_t ranks = bytes_from(word);
    if (ranks < 1 || ranks > 1 << 28) throw std::invalid_argument("--ranks takes 1 to 256M");
    o.ranks.push_back(static_cast<int>(ranks));
  }
  if (o.algorithm_words != "all") o.algorithms = split(o.algorithm_words);
  o.model.node = link_from(o.node_ns);
  o.model.network = link_from(o.network_ns);
  o.model.copy_ps = o.copy_ns * 1000;
  o.model.reduce_ps = o.reduce_ns * 1000;
  o.model.tree.hop = from_ns(o.hop_ns);
}

}  // namespace hmc::sim
